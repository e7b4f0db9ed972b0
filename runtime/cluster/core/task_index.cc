#include "runtime/cluster/core/task_index.h"

#include <unordered_map>

#include "runtime/base/assert.h"
#include "runtime/cluster/core/end_rules.h"

namespace dlrun::cluster {

TaskIndex::TaskIndex(const JobSpec& spec, const std::vector<PlacedTask>& tasks) {
  for (const RoleSpec& role : spec.roles)
    roles_.push_back({role.name, {}, cluster::trains(spec, role), 0, 0});
  role_.reserve(tasks.size());
  local_rank_.reserve(tasks.size());
  group_at_.reserve(tasks.size());
  std::size_t role = 0;
  std::unordered_map<NodeId, std::uint32_t> group_of;  // of the role
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    while (role < roles_.size() && roles_[role].name != tasks[i].task.role) {
      ++role;
      group_of.clear();
    }
    DLRUN_ASSERT(role < roles_.size());  // a placed task has a role of the spec, in its order
    Range& range = roles_[role].range;
    if (range.size() == 0) {
      range = {i, i};
      roles_[role].first_group = static_cast<std::uint32_t>(group_size_.size());
    }
    range.end = i + 1;
    role_.push_back(static_cast<std::uint32_t>(role));
    const auto [group, fresh] =
        group_of.try_emplace(tasks[i].slot.node, static_cast<std::uint32_t>(group_size_.size()));
    if (fresh) {
      group_size_.push_back(0);
      ++roles_[role].groups;
    }
    group_at_.push_back(group->second);
    local_rank_.push_back(group_size_[group->second]++);
    nodes_.insert(tasks[i].slot.node);
  }
}

std::vector<std::size_t> TaskIndex::sizes() const {
  std::vector<std::size_t> out;
  for (const Role& role : roles_) out.push_back(role.range.size());
  return out;
}

std::optional<std::size_t> TaskIndex::find(const std::string& role, std::uint32_t rank) const {
  for (const Role& known : roles_) {
    if (known.name != role) continue;
    if (rank >= known.range.size()) return std::nullopt;
    return known.range.first + rank;
  }
  return std::nullopt;
}

}  // namespace dlrun::cluster
