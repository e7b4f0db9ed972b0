#pragma once
/// ps/client/partition.h: cuts the keys of a call into segments: one shard each, keys ascending and
/// distinct, at most so many bytes of keys and values. Pure. O(n) when the keys come ascending,
/// else O(n log n); no copies when they are distinct too, all of one shard, and may be borrowed.

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ps/core/msg.h"

namespace dlrun::ps {

/// A part of a call. Movable: the spans are of the caller's arrays, or of what it owns itself.
struct Segment {
  ShardId shard;
  std::span<const std::uint64_t> keys;
  /// Push: [keys, dim]; equal keys summed in the caller's order (kAssign: the last).
  std::span<const float> values;
  /// Pull: (index in keys, row of the caller's `out`), one for each row that wants this key, by
  /// index. Empty: key i is wanted by row first_row + i alone.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> targets;
  std::uint32_t first_row = 0;
  std::vector<std::uint64_t> own_keys;
  std::vector<float> own_values;
  /// Push: the values in another codec, in rows of row_bytes; `values` is then empty.
  std::vector<std::byte> encoded;
  std::size_t row_bytes = 0;

  Segment() = default;
  explicit Segment(ShardId of) : shard(of) {}
  Segment(Segment&&) = default;
  Segment& operator=(Segment&&) = default;

  /// Calls f(index, row) for each target of a pull.
  template <class F>
  void for_each_target(F f) const {
    for (const auto& [index, row] : targets) f(index, row);
    if (!targets.empty()) return;
    for (std::uint32_t i = 0; i < keys.size(); ++i) f(i, first_row + i);
  }
};

/// One of them takes no memory of its own.
using Segments = boost::container::small_vector<Segment, 1>;

struct CutRule {
  std::uint32_t segment_bytes_max = kSegmentBytesMax;
  std::optional<ShardId> only;  ///< the map has no other owner
  bool borrow = false;          ///< the caller's arrays live as long as the segments
};

Segments cut_pull(const TableSchema& schema, const SlotMap& map,
                  std::span<const std::uint64_t> keys, const CutRule& rule);
Segments cut_push(const TableSchema& schema, const SlotMap& map,
                  std::span<const std::uint64_t> keys, std::span<const float> grads,
                  const CutRule& rule);
/// The same segment under another map: one part per shard that now owns some of its keys. Owns all.
Segments recut(std::uint32_t table, std::uint32_t dim, const SlotMap& map, const Segment& segment);

}  // namespace dlrun::ps
