#include "io/core/split_table.h"

#include <algorithm>
#include <limits>

#include "runtime/base/assert.h"

namespace dlrun::io {

Result<SplitTable> SplitTable::make(std::vector<FileEntry> files, std::uint64_t split_bytes) {
  if (split_bytes == 0) return fail(Errc::kInvalidArgument, "split_bytes is 0");
  SplitTable table;
  table.split_bytes_ = split_bytes;
  table.first_split_.reserve(files.size() + 1);
  table.first_split_.push_back(0);
  for (const FileEntry& file : files) {
    const std::uint64_t whole = file.size_bytes / split_bytes;
    const std::uint64_t count = whole + (file.size_bytes % split_bytes != 0 ? 1 : 0);
    if (count > std::numeric_limits<std::uint64_t>::max() / 4 - table.first_split_.back())
      return fail(Errc::kInvalidArgument, "more than 2^62 splits");
    table.first_split_.push_back(table.first_split_.back() + count);
  }
  table.files_ = std::move(files);
  return table;
}

Split SplitTable::split(SplitKey key) const {
  DLRUN_ASSERT(key.split_id < count());
  const auto after = std::upper_bound(first_split_.begin(), first_split_.end(), key.split_id);
  const auto index = static_cast<std::size_t>(after - first_split_.begin() - 1);
  const FileEntry& file = files_[index];
  const std::uint64_t begin = (key.split_id - first_split_[index]) * split_bytes_;
  const std::uint64_t length = std::min(split_bytes_, file.size_bytes - begin);
  return Split{key.split_id, key.pass, file.uri, file.etag, begin, begin + length};
}

}  // namespace dlrun::io
