#pragma once
/// ps/client/partition.h: cuts the keys of a call into segments: one shard each, keys ascending and
/// distinct, at most `segment_bytes_max` of keys and values. Pure. O(n) when the keys come
/// ascending, else O(n log n).

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ps/core/msg.h"

namespace dlrun::ps {

struct Segment {
  ShardId shard;
  std::vector<std::uint64_t> keys;
  /// Pull: (index in keys, row of the caller's `out`), one for each row that wants this key.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> targets;
  /// Push: [keys, dim]; equal keys summed in the caller's order (kAssign: the last).
  std::vector<float> values;
};

std::vector<Segment> cut_pull(const TableSchema& schema, const SlotMap& map,
                              std::span<const std::uint64_t> keys, std::uint32_t segment_bytes_max);
std::vector<Segment> cut_push(const TableSchema& schema, const SlotMap& map,
                              std::span<const std::uint64_t> keys, std::span<const float> grads,
                              std::uint32_t segment_bytes_max);
/// The same segment under another map: one part per shard that now owns some of its keys.
std::vector<Segment> recut(const TableSchema& schema, const SlotMap& map, const Segment& segment);

}  // namespace dlrun::ps
