#pragma once
/// scheduler/core/node_book.h: what each node has and who holds it. Ports and GPUs are held by
/// name, CPUs and memory by amount; what is used is the sum of what is held and nothing else.
/// A removed node stays in the book, out of the index, while a gang holds something on it.
/// Threads: single owner. Never throws.

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/core/msg.h"
#include "scheduler/core/node_index.h"
#include "scheduler/core/shape.h"

namespace dlrun::sched {

class NodeBook {
 public:
  /// of a node; valid while the node is known or something is held on it
  using Index = std::uint32_t;

  struct Node {
    NodeCapacity capacity;
    bool known = false;  ///< added and not removed
    bool schedulable = true;
    std::string reason;  ///< why not schedulable
    Room room;           ///< capacity minus what is held
    std::int64_t cpu_milli_held = 0;
    std::int64_t memory_bytes_held = 0;
    std::map<std::uint16_t, JobId> ports_held;
    std::map<std::string, JobId> gpus_held;
    std::uint32_t slots_held = 0;
    std::uint32_t port_cursor = 0;  ///< offset in the range where the next search for a port starts
    bool indexed = false;
    IndexPlace place;
    bool in_use = false;  ///< this record is taken
  };

  Index add(const NodeCapacity& capacity);
  void remove(const NodeId& id);
  void set_schedulable(const NodeId& id, bool schedulable, std::string reason);

  const Node* find(const NodeId& id) const;  ///< null: neither known nor held
  Index index_of(const NodeId& id) const { return by_id_.at(id); }  ///< find(id) must not be null
  const Node& at(Index node) const { return nodes_[node]; }
  const NodeIndex& index() const { return index_; }
  /// Calls f(const Node&) for each known node, in the order of their names.
  template <class F>
  void for_each_known(F&& f) const {
    for (const auto& [id, node] : by_id_)
      if (nodes_[node].known) f(nodes_[node]);
  }

  /// While a gang is being fitted: takes or gives back amounts, without names. Every take is given
  /// back or becomes a hold.
  void take(Index node, const Resources& need);
  void give(Index node, const Resources& need);

  /// Holds `need` for `job`: the GPUs first in the node's list, the ports next round its range, so
  /// that a port just released is the last to be leased again. The node must have room.
  Slot hold(Index node, const Resources& need, JobId job);
  /// Holds exactly `slot`; the node may be unknown (it has not joined again) and its amounts may be
  /// exceeded.
  void hold_exactly(const Slot& slot, const Resources& need, JobId job);
  /// "port 7000 of n1 is held by j3" when the slot cannot be held; "" = it can.
  std::string overlap(const Slot& slot) const;
  /// Frees a slot. Returns the node, or kNone when its record went with it.
  Index drop(const Slot& slot, const Resources& need);

  static constexpr Index kNone = ~Index{0};

 private:
  Index record(const NodeId& id);
  void refresh(Index node);  ///< recomputes the room and the index entry
  void forget_if_empty(Index node);

  std::deque<Node> nodes_;  ///< a deque: the index borrows labels, so that records must not move
  std::vector<Index> unused_;
  std::map<NodeId, Index> by_id_;
  NodeIndex index_;
};

}  // namespace dlrun::sched
