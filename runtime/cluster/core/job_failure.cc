// JobCore: which of several ends is named as the first that failed.

#include <algorithm>

#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

bool JobCore::leans_on_another(std::size_t index) const {
  const RoleSpec& role = record_.role_of(index);
  const std::size_t own = record_.index.role_at(index);
  const bool counted = tasks_[index].state != TaskState::kEnded;  // in its role's `live`
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    if (roles_[r].live == (r == own && counted ? 1U : 0U)) continue;
    const RoleSpec& other = record_.spec->roles[r];
    if (other.program == RoleProgram::kShardHost ||
        std::find(role.after.begin(), role.after.end(), other.name) != role.after.end())
      return true;
  }
  return false;
}

void JobCore::take_end(std::size_t index, const TaskEnd& end, Now now) {
  Task& task = tasks_[index];
  if (task.failed) return;  // its agent repeats it until it is acknowledged
  const bool by_itself = end.cause == Cause::kExit || end.cause == Cause::kSignal;
  if (record_.verdict != Verdict::kNone || end.ok() || !by_itself || !is_worker(index) ||
      !leans_on_another(index))
    return end_task(index, end, now);
  task.failed = end;
  ++failed_;
  task.blame_at = now.at + settings_.blame_window;
}

void JobCore::end_failed(Now now) {
  for (std::size_t i = 0; failed_ > 0 && i < tasks_.size(); ++i)
    if (tasks_[i].failed &&
        (record_.verdict != Verdict::kNone || now.at >= tasks_[i].blame_at || !leans_on_another(i)))
      end_task(i, TaskEnd(*tasks_[i].failed), now);
}

}  // namespace dlrun::cluster
