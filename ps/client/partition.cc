#include "ps/client/partition.h"

#include <algorithm>
#include <tuple>

#include "ps/core/table.h"

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

std::size_t keys_of_a_segment(std::size_t dim, std::uint32_t segment_bytes_max) {
  return std::max<std::size_t>(1, segment_bytes_max / (8 + 4 * dim));
}

/// Calls add(segment, place, is_new_key) for each place, with segments begun as shard and size ask.
template <class Add>
Segments cut(std::uint32_t table, std::size_t dim, const SlotMap& map,
             std::span<const std::uint64_t> keys, std::uint32_t segment_bytes_max, bool values,
             Add add) {
  const std::size_t keys_max = keys_of_a_segment(dim, segment_bytes_max);
  Segments segments;
  std::vector<std::size_t> open;  // by shard: its segment that still has room, + 1
  for (const Place& p : places_of(keys)) {
    const std::uint32_t shard = map.owner[slot_of(table, p.key)].value;
    if (shard >= open.size()) open.resize(shard + 1, 0);
    std::size_t& mine = open[shard];
    const bool repeated = mine != 0 && segments[mine - 1].own_keys.back() == p.key;
    if (!repeated) {
      if (mine == 0 || segments[mine - 1].own_keys.size() == keys_max) {
        segments.emplace_back(ShardId{shard});
        mine = segments.size();
        const std::size_t likely = std::min(keys_max, keys.size());
        if (open.size() == 1) {
          segments.back().own_keys.reserve(likely);
          if (values) segments.back().own_values.reserve(likely * dim);
        }
      }
      segments[mine - 1].own_keys.push_back(p.key);
    }
    add(segments[mine - 1], p, !repeated);
  }
  for (Segment& s : segments) {
    s.keys = s.own_keys;
    s.values = s.own_values;
  }
  return segments;
}

/// Keys ascending, distinct and of one shard: the segments are stretches of the caller's arrays.
/// `grads`: nullptr for a pull.
Segments stretches(const TableSchema& schema, std::span<const std::uint64_t> keys,
                   const float* grads, const CutRule& rule) {
  const std::size_t keys_max = keys_of_a_segment(schema.dim, rule.segment_bytes_max);
  Segments segments;
  segments.reserve((keys.size() + keys_max - 1) / keys_max);
  for (std::size_t at = 0; at < keys.size(); at += keys_max) {
    Segment& s = segments.emplace_back(*rule.only);
    s.first_row = static_cast<std::uint32_t>(at);
    s.keys = keys.subspan(at, std::min(keys_max, keys.size() - at));
    if (grads != nullptr) s.values = {grads + at * schema.dim, s.keys.size() * schema.dim};
    if (rule.borrow) continue;
    s.own_keys.assign(s.keys.begin(), s.keys.end());
    s.own_values.assign(s.values.begin(), s.values.end());
    s.keys = s.own_keys;
    s.values = s.own_values;
  }
  return segments;
}

}  // namespace

Segments cut_pull(const TableSchema& schema, const SlotMap& map,
                  std::span<const std::uint64_t> keys, const CutRule& rule) {
  if (rule.only && strictly_ascending(keys)) return stretches(schema, keys, nullptr, rule);
  return cut(schema.id, schema.dim, map, keys, rule.segment_bytes_max, false,
             [](Segment& s, const Place& p, bool) {
               s.targets.emplace_back(static_cast<std::uint32_t>(s.own_keys.size() - 1), p.row);
             });
}

Segments cut_push(const TableSchema& schema, const SlotMap& map,
                  std::span<const std::uint64_t> keys, std::span<const float> grads,
                  const CutRule& rule) {
  if (rule.only && strictly_ascending(keys)) return stretches(schema, keys, grads.data(), rule);
  const std::size_t dim = schema.dim;
  return cut(schema.id, schema.dim, map, keys, rule.segment_bytes_max, true,
             [&](Segment& s, const Place& p, bool is_new) {
               const float* g = grads.data() + p.row * dim;
               if (is_new) {
                 s.own_values.insert(s.own_values.end(), g, g + dim);
                 return;
               }
               float* mine = s.own_values.data() + (s.own_keys.size() - 1) * dim;
               for (std::size_t d = 0; d < dim; ++d) {
                 mine[d] = schema.optimizer == Optimizer::kAssign ? g[d] : mine[d] + g[d];
               }
             });
}

Segments recut(std::uint32_t table, std::uint32_t dim, const SlotMap& map, const Segment& segment) {
  return cut(table, dim, map, segment.keys, kSegmentBytesMax, false,
             [&](Segment& part, const Place& p, bool) {
               const auto index = static_cast<std::uint32_t>(part.own_keys.size() - 1);
               if (!segment.encoded.empty()) {
                 const auto row = segment.encoded.begin() +
                                  static_cast<std::ptrdiff_t>(p.row * segment.row_bytes);
                 part.encoded.insert(part.encoded.end(), row,
                                     row + static_cast<std::ptrdiff_t>(segment.row_bytes));
                 part.row_bytes = segment.row_bytes;
                 return;
               }
               if (!segment.values.empty()) {
                 const auto row = segment.values.subspan(std::size_t{p.row} * dim, dim);
                 part.own_values.insert(part.own_values.end(), row.begin(), row.end());
                 return;
               }
               if (segment.targets.empty()) {
                 part.targets.emplace_back(index, segment.first_row + p.row);
                 return;
               }
               // Targets are ordered by key index: those of one key lie together.
               for (auto t = std::lower_bound(segment.targets.begin(), segment.targets.end(),
                                              std::pair{p.row, 0u});
                    t != segment.targets.end() && t->first == p.row; ++t) {
                 part.targets.emplace_back(index, t->second);
               }
             });
}

}  // namespace dlrun::ps
