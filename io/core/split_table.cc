#include "io/core/split_table.h"

#include <algorithm>
#include <limits>

#include "io/core/permutation.h"
#include "runtime/base/assert.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"

namespace dlrun::io {

namespace {

/// Shares of `total` by weight that add up to it: the whole parts, then one more to the largest
/// remainders, the first of equal ones first.
std::vector<std::uint64_t> shares_of(std::uint64_t total,
                                     const std::vector<std::uint64_t>& weights) {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t sum = 0, given = 0;
  for (const std::uint64_t weight : weights) sum += weight;
  std::vector<std::uint64_t> shares(weights.size(), 0);
  if (sum == 0) return shares;
  std::vector<std::pair<std::uint64_t, std::size_t>> rest;  // to be sorted: the largest last
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Wide exact = Wide{total} * weights[i];
    shares[i] = static_cast<std::uint64_t>(exact / sum);
    given += shares[i];
    rest.emplace_back(static_cast<std::uint64_t>(exact % sum), weights.size() - i);
  }
  std::sort(rest.begin(), rest.end());
  for (; given < total; ++given, rest.pop_back()) ++shares[weights.size() - rest.back().second];
  return shares;
}

}  // namespace

std::uint64_t digest_of(const std::vector<FileEntry>& files) {
  Fnv1a hash;
  for (const FileEntry& file : files) {
    hash.add(std::uint64_t{file.uri.size()});
    hash.add(file.uri);
    hash.add(file.size_bytes);
    hash.add(std::uint64_t{file.etag.size()});
    hash.add(file.etag);
    hash.add(std::uint64_t{file.source});
  }
  const std::uint64_t digest = mix64(hash.value());
  return digest == 0 ? 1 : digest;  // 0 says that there is none
}

Result<SplitTable> SplitTable::of(const InputSpec& spec, std::vector<FileEntry> files) {
  std::uint64_t split_bytes = split_bytes_of(spec);
  if (spec.mode == Mode::kDeterministic && !reads_whole_files(spec) && spec.lanes != 0) {
    std::uint64_t bytes = 0;
    for (const FileEntry& file : files) bytes += file.size_bytes;
    const std::uint64_t fine = std::max(bytes / (spec.lanes * kSplitsOfLane), kSplitBytesLeast);
    split_bytes = std::min(split_bytes, fine);
  }
  DLRUN_ASSIGN(SplitTable table, make(std::move(files), split_bytes));
  if (spec.weights.empty()) return table;
  table.shuffle_ = spec.shuffle;
  table.seed_ = spec.seed;
  table.shown_.resize(spec.weights.size());
  for (std::size_t i = 0; i < table.files_.size(); ++i) {
    const std::uint32_t source = table.files_[i].source;
    if (source >= spec.weights.size() || (i > 0 && source < table.files_[i - 1].source))
      return fail(Errc::kInvalidArgument, table.files_[i].uri + ": of source " +
                                              std::to_string(source) + ", there are " +
                                              std::to_string(spec.weights.size()) + " weights");
    Shown& shown = table.shown_[source];
    if (shown.splits == 0) shown.first = table.first_split_[i];
    shown.splits += table.of_file(i).second;
  }
  std::vector<std::uint64_t> weights;
  for (std::size_t s = 0; s < table.shown_.size(); ++s)
    weights.push_back(table.shown_[s].splits == 0 ? 0 : spec.weights[s]);
  const auto shares = shares_of(table.first_split_.back(), weights);
  std::uint64_t begin = 0;
  for (std::size_t s = 0; s < table.shown_.size(); ++s) {
    table.shown_[s].begin = begin;
    table.shown_[s].count = shares[s];
    begin += shares[s];
  }
  return table;
}

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

std::uint64_t SplitTable::count() const {
  if (!shown_.empty()) return shown_.back().begin + shown_.back().count;
  return first_split_.empty() ? 0 : first_split_.back();
}

/// The split that is shown.
std::uint64_t SplitTable::shown_by(SplitKey key) const {
  if (shown_.empty()) return key.split_id;
  const auto after = std::upper_bound(
      shown_.begin(), shown_.end(), key.split_id,
      [](std::uint64_t id, const Shown& shown) { return id < shown.begin + shown.count; });
  DLRUN_ASSERT(after != shown_.end());
  const std::uint64_t place =
      std::uint64_t{key.pass} * after->count + (key.split_id - after->begin);
  const std::uint64_t trip = place / after->splits, within = place % after->splits;
  if (!shuffle_) return after->first + within;
  const auto source = static_cast<std::uint64_t>(after - shown_.begin());
  const Permutation order(after->splits, mix64(seed_ + source), static_cast<std::uint32_t>(trip));
  return after->first + order(within);
}

Split SplitTable::split(SplitKey key) const {
  DLRUN_ASSERT(key.split_id < count());
  const std::uint64_t id = shown_by(key);
  const auto after = std::upper_bound(first_split_.begin(), first_split_.end(), id);
  const auto index = static_cast<std::size_t>(after - first_split_.begin() - 1);
  const FileEntry& file = files_[index];
  const std::uint64_t begin = (id - first_split_[index]) * split_bytes_;
  const std::uint64_t length = std::min(split_bytes_, file.size_bytes - begin);
  return Split{key.split_id, key.pass, file.uri, file.etag, begin, begin + length};
}

}  // namespace dlrun::io
