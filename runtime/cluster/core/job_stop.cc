// How the tasks of a generation are stopped: all at once, or, when the job is done, each role after
// it had its time to end by itself.

#include <algorithm>

#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

void JobCore::stop_all(Cause cause, Duration grace, Now now) {
  stop_tasks({0, tasks_.size()}, cause, grace, now);
}

/// Each role has its time to end by itself; whoever kills the job does not wait for it.
void JobCore::stop_what_lingered(Now now) {
  constexpr Duration kLongest = std::chrono::hours(24 * 3660);
  if (!done_at_) {
    // What went by before a restart of the coordinator counts.
    const Duration past{now.wall.ns - record_.done_at.ns};
    done_at_ = now.at - std::clamp(past, Duration::zero(), kLongest);
  }
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    if (roles_[r].stopped || now.at < linger_over(r)) continue;
    roles_[r].stopped = true;
    stop_tasks(record_.index.range_of(r), Cause::kStopped, settings_.service_grace, now);
  }
}

TimePoint JobCore::linger_over(std::size_t role) const {
  if (record_.kill_requested) return *done_at_;
  return *done_at_ + linger_of(*record_.spec, record_.spec->roles[role]);
}

void JobCore::stop_tasks(TaskIndex::Range range, Cause cause, Duration grace, Now now) {
  for (std::size_t i = range.first; i < range.end; ++i) {
    if (tasks_[i].want == Want::kEnded || tasks_[i].state == TaskState::kEnded) continue;
    tasks_[i].grace = grace;
    tasks_[i].stop_cause = cause;
    set_want(i, Want::kEnded, now);
  }
}

}  // namespace dlrun::cluster
