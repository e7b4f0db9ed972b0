#include "runtime/cluster/core/task_index.h"

#include <unordered_map>

#include "runtime/base/assert.h"

namespace dlrun::cluster {

bool counts_for_success(const JobSpec& spec, const RoleSpec& role) {
  if (role.program == RoleProgram::kShardHost) return false;
  if (role.kind == RoleKind::kBatch) return true;
  for (const RoleSpec& other : spec.roles)
    if (other.program == RoleProgram::kProcess && other.kind == RoleKind::kBatch) return false;
  return true;
}

TaskIndex::TaskIndex(const JobSpec& spec, const std::vector<PlacedTask>& tasks) {
  for (const RoleSpec& role : spec.roles)
    roles_.push_back({role.name, {}, counts_for_success(spec, role)});
  role_.reserve(tasks.size());
  local_rank_.reserve(tasks.size());
  std::size_t role = 0;
  std::unordered_map<NodeId, std::uint32_t> on_node;  // of the role
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    while (role < roles_.size() && roles_[role].name != tasks[i].task.role) {
      ++role;
      on_node.clear();
    }
    DLRUN_ASSERT(role < roles_.size());  // a placed task has a role of the spec, in its order
    Range& range = roles_[role].range;
    if (range.size() == 0) range = {i, i};
    range.end = i + 1;
    role_.push_back(static_cast<std::uint32_t>(role));
    local_rank_.push_back(on_node[tasks[i].slot.node]++);
    nodes_.insert(tasks[i].slot.node);
    if (roles_[role].counts) ++counted_;
  }
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
