#pragma once
/// scheduler/core/node_index.h: finds the first node with room for a demand without looking at
/// every node. One segment tree per number of GPUs (so that a task takes the nodes with the fewest
/// GPUs that serve it); each inner vertex holds, over the nodes below it, the maximum of each
/// resource and the union of label fingerprints.
/// Complexity: insert, erase, update O(log n); find O(log n) when the maxima come from the same
/// node, which is usual, and O(n) at worst (half of the nodes have the CPUs, the other half the
/// memory).
/// Threads: single owner.

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/core/shape.h"

namespace dlrun::sched {

/// Where a node stands in the order of the search. {0,0} is before every node.
struct IndexPlace {
  std::int32_t gpus_total = 0;
  std::uint32_t position = 0;
  friend auto operator<=>(const IndexPlace&, const IndexPlace&) = default;
};

class NodeIndex {
 public:
  /// `labels` is borrowed until erase.
  IndexPlace insert(std::int32_t gpus_total, std::uint32_t node, const Labels& labels,
                    const Room& room);
  void update(IndexPlace place, const Room& room);
  void erase(IndexPlace place);

  struct Hit {
    IndexPlace place;
    std::uint32_t node = 0;
  };
  /// The first node at or after `from` that has room and labels; nullopt: none.
  std::optional<Hit> find(const Demand& demand, IndexPlace from) const;

 private:
  struct Vertex {
    Room max;
    std::uint64_t labels = 0;  ///< one bit per hashed (name, value)
    bool any = false;
  };
  struct Leaf {
    const Labels* labels = nullptr;
    std::uint32_t node = 0;
  };
  struct Tree {
    std::vector<Vertex> vertices;       ///< 2 * leaves.size(), root at 1
    std::vector<Leaf> leaves;           ///< a power of two
    std::vector<std::uint32_t> unused;  ///< positions, the lowest last
    void grow();
    void pull(std::uint32_t position);
    std::optional<std::uint32_t> find(std::uint32_t vertex, std::uint32_t low, std::uint32_t width,
                                      const Demand& demand, std::uint64_t bits,
                                      std::uint32_t from) const;
  };
  std::map<std::int32_t, Tree> trees_;
};

}  // namespace dlrun::sched
