#include "scheduler/core/node_index.h"

#include <algorithm>
#include <functional>

#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::sched {
namespace {

std::uint64_t label_bits(const Labels& labels) {
  std::uint64_t bits = 0;
  for (const auto& [name, value] : labels) {
    const std::uint64_t h =
        mix64(std::hash<std::string>{}(name)*31 + std::hash<std::string>{}(value));
    bits |= std::uint64_t{1} << (h & 63);
  }
  return bits;
}

Room max_of(const Room& a, const Room& b) {
  return Room{std::max(a.cpu_milli, b.cpu_milli), std::max(a.memory_bytes, b.memory_bytes),
              std::max(a.gpus, b.gpus), std::max(a.ports, b.ports)};
}

}  // namespace

void NodeIndex::Tree::grow() {
  const auto old = static_cast<std::uint32_t>(leaves.size());
  const std::uint32_t width = old == 0 ? 4 : old * 2;
  std::vector<Vertex> fresh(std::size_t{width} * 2);
  for (std::uint32_t i = 0; i < old; ++i) fresh[width + i] = vertices[old + i];
  vertices = std::move(fresh);
  leaves.resize(width);
  for (std::uint32_t i = width; i-- > old;) unused.push_back(i);
  for (std::uint32_t i = 0; i < old; ++i) pull(i);
}

void NodeIndex::Tree::pull(std::uint32_t position) {
  for (std::size_t v = (leaves.size() + position) / 2; v >= 1; v /= 2) {
    const Vertex& a = vertices[2 * v];
    const Vertex& b = vertices[2 * v + 1];
    if (!a.any) {
      vertices[v] = b;
    } else if (!b.any) {
      vertices[v] = a;
    } else {
      vertices[v] = Vertex{max_of(a.max, b.max), a.labels | b.labels, true};
    }
  }
}

std::optional<std::uint32_t> NodeIndex::Tree::find(std::uint32_t vertex, std::uint32_t low,
                                                   std::uint32_t width, const Demand& demand,
                                                   std::uint64_t bits, std::uint32_t from) const {
  const Vertex& v = vertices[vertex];
  if (low + width <= from || !v.any || (bits & ~v.labels) != 0 || !fits(demand.need, v.max))
    return std::nullopt;
  if (width == 1) {
    if (!has_labels(*leaves[low].labels, demand.require)) return std::nullopt;
    return low;
  }
  const std::uint32_t half = width / 2;
  if (const auto left = find(2 * vertex, low, half, demand, bits, from)) return left;
  return find(2 * vertex + 1, low + half, half, demand, bits, from);
}

IndexPlace NodeIndex::insert(std::int32_t gpus_total, std::uint32_t node, const Labels& labels,
                             const Room& room) {
  Tree& tree = trees_[gpus_total];
  if (tree.unused.empty()) tree.grow();
  const std::uint32_t position = tree.unused.back();
  tree.unused.pop_back();
  tree.leaves[position] = Leaf{&labels, node};
  tree.vertices[tree.leaves.size() + position] = Vertex{room, label_bits(labels), true};
  tree.pull(position);
  return IndexPlace{gpus_total, position};
}

void NodeIndex::update(IndexPlace place, const Room& room) {
  Tree& tree = trees_.at(place.gpus_total);
  tree.vertices[tree.leaves.size() + place.position].max = room;
  tree.pull(place.position);
}

void NodeIndex::erase(IndexPlace place) {
  const auto at = trees_.find(place.gpus_total);
  DLRUN_ASSERT(at != trees_.end());
  Tree& tree = at->second;
  tree.leaves[place.position] = Leaf{};
  tree.vertices[tree.leaves.size() + place.position] = Vertex{};
  tree.pull(place.position);
  tree.unused.push_back(place.position);
}

std::optional<NodeIndex::Hit> NodeIndex::find(const Demand& demand, IndexPlace from) const {
  const std::uint64_t bits = label_bits(demand.require);
  for (auto at = trees_.lower_bound(std::max(from.gpus_total, demand.need.gpus));
       at != trees_.end(); ++at) {
    const Tree& tree = at->second;
    const std::uint32_t start = at->first == from.gpus_total ? from.position : 0;
    if (const auto position =
            tree.find(1, 0, static_cast<std::uint32_t>(tree.leaves.size()), demand, bits, start))
      return Hit{IndexPlace{at->first, *position}, tree.leaves[*position].node};
  }
  return std::nullopt;
}

}  // namespace dlrun::sched
