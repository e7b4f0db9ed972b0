#include "ps/client/partition.h"

#include <algorithm>
#include <tuple>

namespace dlrun::ps {
namespace {

/// A key and the caller's row of it.
struct Place {
  std::uint64_t key;
  std::uint32_t row;
};

/// By key, equal ones in the caller's order.
std::vector<Place> places_of(std::span<const std::uint64_t> keys) {
  std::vector<Place> places(keys.size());
  bool ascending = true;
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    places[i] = {keys[i], i};
    ascending &= i == 0 || keys[i - 1] <= keys[i];
  }
  if (!ascending) {
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      return std::tie(a.key, a.row) < std::tie(b.key, b.row);
    });
  }
  return places;
}

/// Calls add(segment, place, is_new_key) for each place, with segments begun as shard and size ask.
template <class Add>
std::vector<Segment> cut(const TableSchema& schema, const SlotMap& map,
                         std::span<const std::uint64_t> keys, std::uint32_t segment_bytes_max,
                         bool values, Add add) {
  const std::size_t keys_max =
      std::max<std::size_t>(1, segment_bytes_max / (8 + 4 * std::size_t{schema.dim}));
  std::vector<Segment> segments;
  std::vector<std::size_t> open;  // by shard: its segment that still has room, + 1
  for (const Place& p : places_of(keys)) {
    const std::uint32_t shard = map.owner[slot_of(schema.id, p.key)].value;
    if (shard >= open.size()) open.resize(shard + 1, 0);
    std::size_t& mine = open[shard];
    const bool repeated = mine != 0 && segments[mine - 1].keys.back() == p.key;
    if (!repeated) {
      if (mine == 0 || segments[mine - 1].keys.size() == keys_max) {
        segments.push_back({.shard = ShardId{shard}});
        mine = segments.size();
        const std::size_t likely = std::min(keys_max, keys.size());
        if (open.size() == 1) {
          segments.back().keys.reserve(likely);
          if (values) segments.back().values.reserve(likely * schema.dim);
        }
      }
      segments[mine - 1].keys.push_back(p.key);
    }
    add(segments[mine - 1], p, !repeated);
  }
  return segments;
}

}  // namespace

std::vector<Segment> cut_pull(const TableSchema& schema, const SlotMap& map,
                              std::span<const std::uint64_t> keys,
                              std::uint32_t segment_bytes_max) {
  return cut(schema, map, keys, segment_bytes_max, false, [](Segment& s, const Place& p, bool) {
    s.targets.emplace_back(static_cast<std::uint32_t>(s.keys.size() - 1), p.row);
  });
}

std::vector<Segment> cut_push(const TableSchema& schema, const SlotMap& map,
                              std::span<const std::uint64_t> keys, std::span<const float> grads,
                              std::uint32_t segment_bytes_max) {
  const std::size_t dim = schema.dim;
  return cut(schema, map, keys, segment_bytes_max, true,
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
  std::vector<Segment> parts = cut(
      schema, map, segment.keys, kSegmentBytesMax, false, [&](Segment& part, const Place& p, bool) {
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
