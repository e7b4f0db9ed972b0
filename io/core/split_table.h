#pragma once
/// io/core/split_table.h: the splits of a file table: a file of n bytes has ceil(n / split_bytes),
/// never an empty one; ids count through the files in table order, the same in every pass and on
/// every node. split(): O(log files).
/// With weights an id names a showing: a pass has as many as there are splits, in shares of the
/// weights (largest remainders), those of one source in a row. Source s with n splits and m
/// showings a pass shows the next m of an endless row of permutations of its n, so that over passes
/// each of its splits is shown equally often.
/// Threads: single owner; const calls from any.

#include <cstdint>
#include <utility>
#include <vector>

#include "io/core/msg.h"

namespace dlrun::io {

class SplitTable {
 public:
  SplitTable() = default;
  /// kInvalidArgument: split_bytes is 0, or more than 2^62 splits.
  static Result<SplitTable> make(std::vector<FileEntry> files, std::uint64_t split_bytes);
  /// As the input is cut: deterministic ones so that a lane has about kSplitsOfLane, where the
  /// format may be cut. Also kInvalidArgument: a file of a source that has no weight.
  static Result<SplitTable> of(const InputSpec& spec, std::vector<FileEntry> files);
  static constexpr std::uint64_t kSplitsOfLane = 64;
  static constexpr std::uint64_t kSplitBytesLeast = 4096;

  const std::vector<FileEntry>& files() const { return files_; }
  std::uint64_t count() const;  ///< of a pass
  /// key.split_id < count(), asserted.
  Split split(SplitKey key) const;
  /// The first split of a file and how many it has; not with weights.
  std::pair<std::uint64_t, std::uint64_t> of_file(std::size_t file) const {
    return {first_split_[file], first_split_[file + 1] - first_split_[file]};
  }

 private:
  struct Shown {
    std::uint64_t begin = 0;  ///< the id of its first showing
    std::uint64_t count = 0;  ///< showings of a pass
    std::uint64_t first = 0;  ///< its first split
    std::uint64_t splits = 0;
  };
  std::uint64_t shown_by(SplitKey key) const;

  std::vector<FileEntry> files_;
  std::vector<std::uint64_t> first_split_;  ///< [files + 1]: id of each file's first split
  std::uint64_t split_bytes_ = 1;
  std::vector<Shown> shown_;  ///< with weights: by source
  bool shuffle_ = false;
  std::uint64_t seed_ = 0;
};

}  // namespace dlrun::io
