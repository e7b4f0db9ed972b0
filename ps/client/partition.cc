#include "ps/client/partition.h"

#include <algorithm>
#include <tuple>

namespace dlrun::ps {
namespace {

struct Place {
  std::uint32_t shard;
  std::uint32_t slot;
  std::uint64_t key;
  std::uint32_t row;
};

std::vector<Place> places_of(const TableSchema& schema, const SlotMap& map,
                             std::span<const std::uint64_t> keys) {
  std::vector<Place> places(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t slot = slot_of(schema.id, keys[i]);
    places[i] = {map.owner[slot].value, slot, keys[i], static_cast<std::uint32_t>(i)};
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.shard, a.slot, a.key, a.row) < std::tie(b.shard, b.slot, b.key, b.row);
  });
  return places;
}

/// Calls add(segment, place, is_new_key) for each place, with segments begun as shard and size ask.
template <class Add>
std::vector<Segment> cut(const TableSchema& schema, const std::vector<Place>& places,
                         std::uint32_t segment_bytes_max, Add add) {
  const std::size_t keys_max =
      std::max<std::size_t>(1, segment_bytes_max / (8 + 4 * std::size_t{schema.dim}));
  std::vector<Segment> segments;
  for (const Place& p : places) {
    const bool same_shard = !segments.empty() && segments.back().shard.value == p.shard;
    const bool repeated = same_shard && segments.back().keys.back() == p.key;
    if (!repeated) {
      if (!same_shard || segments.back().keys.size() == keys_max)
        segments.push_back({.shard = ShardId{p.shard}});
      segments.back().keys.push_back(p.key);
    }
    add(segments.back(), p, !repeated);
  }
  return segments;
}

}  // namespace

std::vector<Segment> cut_pull(const TableSchema& schema, const SlotMap& map,
                              std::span<const std::uint64_t> keys,
                              std::uint32_t segment_bytes_max) {
  return cut(schema, places_of(schema, map, keys), segment_bytes_max,
             [](Segment& s, const Place& p, bool) {
               s.targets.emplace_back(static_cast<std::uint32_t>(s.keys.size() - 1), p.row);
             });
}

std::vector<Segment> cut_push(const TableSchema& schema, const SlotMap& map,
                              std::span<const std::uint64_t> keys, std::span<const float> grads,
                              std::uint32_t segment_bytes_max) {
  const std::size_t dim = schema.dim;
  return cut(schema, places_of(schema, map, keys), segment_bytes_max,
             [&](Segment& s, const Place& p, bool is_new) {
               const float* g = grads.data() + p.row * dim;
               if (is_new) {
                 s.values.insert(s.values.end(), g, g + dim);
                 return;
               }
               float* mine = s.values.data() + (s.keys.size() - 1) * dim;
               for (std::size_t d = 0; d < dim; ++d) {
                 mine[d] = schema.optimizer == Optimizer::kAssign ? g[d] : mine[d] + g[d];
               }
             });
}

std::vector<Segment> recut(const TableSchema& schema, const SlotMap& map, const Segment& segment) {
  std::vector<Segment> parts =
      cut(schema, places_of(schema, map, segment.keys), kSegmentBytesMax,
          [&](Segment& part, const Place& p, bool) {
            const auto index = static_cast<std::uint32_t>(part.keys.size() - 1);
            if (!segment.values.empty()) {
              const auto from =
                  segment.values.begin() + static_cast<std::ptrdiff_t>(p.row) * schema.dim;
              part.values.insert(part.values.end(), from, from + schema.dim);
            }
            // Targets are ordered by key index: those of one key lie together.
            for (auto t = std::lower_bound(segment.targets.begin(), segment.targets.end(),
                                           std::pair{p.row, 0u});
                 t != segment.targets.end() && t->first == p.row; ++t) {
              part.targets.emplace_back(index, t->second);
            }
          });
  return parts;
}

}  // namespace dlrun::ps
