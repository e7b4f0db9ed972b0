#pragma once
/// runtime/cluster/core/task_index.h: finds a task of one generation by its role and rank, its role
/// by its place, its neighbours by its node. Made once, when the gang is placed, so that no message
/// of a task costs a walk over all of them.
/// Order: by role as in the spec, then rank (gang_of makes it so).
/// Threads: a value.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/cluster/core/event.h"

namespace dlrun::cluster {

class TaskIndex {
 public:
  struct Range {
    std::size_t first = 0;
    std::size_t end = 0;
    std::size_t size() const { return end - first; }
  };

  TaskIndex() = default;
  /// O(tasks). A task whose role the spec does not have breaks an invariant.
  TaskIndex(const JobSpec& spec, const std::vector<PlacedTask>& tasks);

  /// Its place, when tasks[place] is this role's and rank's. O(roles).
  std::optional<std::size_t> find(const std::string& role, std::uint32_t rank) const;
  /// Index in JobSpec::roles.
  std::size_t role_at(std::size_t task) const { return role_[task]; }
  Range range_of(std::size_t role) const { return roles_[role].range; }
  /// Whether its role works on the model (end_rules.h): its clocks are in the sets of the shards.
  bool trains(std::size_t task) const { return roles_[role_[task]].trains; }
  std::vector<std::size_t> sizes() const;  ///< tasks of each role, as in the spec
  /// How many of its role stand before it on its node.
  std::uint32_t local_rank(std::size_t task) const { return local_rank_[task]; }
  /// How many of its role are on its node.
  std::uint32_t local_size(std::size_t task) const { return group_size_[group_at_[task]]; }
  /// The number of its node among those of its role, in the order of their lowest ranks.
  std::uint32_t group(std::size_t task) const {
    return group_at_[task] - roles_[role_[task]].first_group;
  }
  /// On how many nodes its role is.
  std::uint32_t groups(std::size_t task) const { return roles_[role_[task]].groups; }
  bool uses(const NodeId& node) const { return nodes_.count(node) != 0; }

 private:
  struct Role {
    std::string name;
    Range range;
    bool trains = false;
    std::uint32_t first_group = 0, groups = 0;  ///< of group_size_
  };
  std::vector<Role> roles_;  ///< as in the spec
  std::vector<std::uint32_t> role_, local_rank_, group_at_;
  std::vector<std::uint32_t> group_size_;  ///< tasks of one role on one node
  std::unordered_set<NodeId> nodes_;
};

}  // namespace dlrun::cluster
