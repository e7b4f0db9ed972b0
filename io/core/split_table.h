#pragma once
/// io/core/split_table.h: the splits of a file table: a file of n bytes has ceil(n / split_bytes),
/// never an empty one; ids count through the files in table order, the same in every pass and on
/// every node. split(): O(log files).
/// Threads: single owner; const calls from any.

#include <cstdint>
#include <vector>

#include "io/core/msg.h"

namespace dlrun::io {

class SplitTable {
 public:
  SplitTable() = default;
  /// kInvalidArgument: split_bytes is 0, or more than 2^62 splits.
  static Result<SplitTable> make(std::vector<FileEntry> files, std::uint64_t split_bytes);

  const std::vector<FileEntry>& files() const { return files_; }
  std::uint64_t count() const { return first_split_.empty() ? 0 : first_split_.back(); }
  /// key.split_id < count(), asserted.
  Split split(SplitKey key) const;

 private:
  std::vector<FileEntry> files_;
  std::vector<std::uint64_t> first_split_;  ///< [files + 1]: id of each file's first split
  std::uint64_t split_bytes_ = 1;
};

}  // namespace dlrun::io
