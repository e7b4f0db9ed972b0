#pragma once
/// runtime/sim/sim_mover.h: moves slots between the shards of a generation, as the owner of the
/// slot map will: a new map goes to every shard until all have it and no slot is on its way, and
/// whoever asks gets the newest. It sits at the coordinator's node, and does not crash.
/// Epochs of maps: the generation's for the first, then its counter + n * 2^32.

#include <cstdint>
#include <map>

#include "runtime/sim/sim_ps.h"

namespace dlrun::sim {

class SlotMover {
 public:
  SlotMover(PsWorld& world, NodeId node) : world_(world), node_(std::move(node)) {}

  /// A generation whose shards are all known; again: nothing.
  void add(const PsJob& job, const ps::PsView& view) { states_.try_emplace(job, State{view, {}}); }
  void remove(JobId job) {
    std::erase_if(states_, [&](const auto& s) { return s.first.first == job; });
  }
  /// Gives some slots that hold rows to other shards, in one generation of those that may.
  void move_some();
  const ps::PsView* view(const PsJob& job) const;
  std::uint64_t moved() const { return moved_; }

 private:
  struct State {
    ps::PsView view;
    std::set<ShardId> unsettled;
  };
  void push(const PsJob& job, Epoch epoch);

  PsWorld& world_;
  const NodeId node_;
  std::map<PsJob, State> states_;
  std::uint64_t moved_ = 0;
};

}  // namespace dlrun::sim
