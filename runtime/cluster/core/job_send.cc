// What a job has to say, and when again: commands to agents with their repeats, reports to the
// coordinator, the next time to look.
#include <algorithm>

#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

void JobCore::send_due(Now now) {
  if (over_ || ending_) return;
  if (now.at >= due_at_) send_tasks_due(now);
  if (!gate_.idle()) return;  // the grant is not on disk yet
  for (auto& [index, commit] : commits_) {
    if (now.at < commit.resend_at) continue;
    send(index, CommitOutputs{record_.tasks[index].task, epoch(), outputs_of(record_, index)});
    commit.resend_after = commit.resend_after == Duration::zero()
                              ? settings_.resend_first
                              : std::min(commit.resend_after * 2, settings_.resend_max);
    commit.resend_at = now.at + commit.resend_after;
  }
}

void JobCore::send_tasks_due(Now now) {
  due_at_ = TimePoint::max();
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[i];
    const bool open = !satisfied(task);
    if (open && now.at >= task.resend_at) {
      send_command(i, now);
      task.resend_after = task.resend_after == Duration::zero()
                              ? settings_.resend_first
                              : std::min(task.resend_after * 2, settings_.resend_max);
      task.resend_at = now.at + task.resend_after;
    }
    if (!task.gone_unacked.empty() && task.state != TaskState::kEnded &&
        now.at >= task.gone_resend_at) {
      for (std::size_t worker : task.gone_unacked)
        send(i, WorkerGone{record_.tasks[i].task, record_.tasks[worker].task, epoch()});
      task.gone_resend_at = now.at + settings_.resend_max;
    }
    if (open) due_at_ = std::min(due_at_, task.resend_at);
    if (!task.gone_unacked.empty() && task.state != TaskState::kEnded)
      due_at_ = std::min(due_at_, task.gone_resend_at);
  }
}

JobEffects JobCore::flush(Now now) {
  send_due(now);
  if (!over_ && !ending_ && (report_now_ || (report_due_ && now.at >= next_report_at_))) {
    out_.push_back(JobToCoordinator{JobReport{view()}});
    report_now_ = report_due_ = false;
    next_report_at_ = now.at + settings_.report_interval;
  }
  gate_.flush(out_);
  std::erase_if(out_, [this](const JobEffect& effect) { return is_late_lease(effect); });
  JobEffects out = std::move(out_);
  out_.clear();
  return out;
}

/// A lease may wait for its record together with the end of its task, or of the whole generation.
bool JobCore::is_late_lease(const JobEffect& effect) const {
  const auto* send = std::get_if<SendToAgent>(&effect);
  const auto* lease = send != nullptr ? std::get_if<LeaseReply>(&send->message) : nullptr;
  if (lease == nullptr || lease->error != Errc{} || lease->answer.splits.empty()) return false;
  Errc error{};
  std::string context;
  return !live_task(lease->task, lease->epoch, error, context);
}

std::optional<TimePoint> JobCore::next_wake() const {
  std::optional<TimePoint> wake = gate_.next_wake();
  if (over_ || ending_) return wake;
  if (!tasks_.empty() && due_at_ != TimePoint::max()) earlier(wake, due_at_);
  if (failed_ > 0)
    for (const Task& task : tasks_)
      if (task.failed) earlier(wake, task.blame_at);
  if (record_.verdict == Verdict::kNone)
    for (const auto& deadline : {time_limit_at_, prepare_deadline_.at(), ready_deadline_.at()})
      if (deadline) earlier(wake, *deadline);
  if (record_.verdict == Verdict::kDone && done_at_)
    for (std::size_t r = 0; r < roles_.size(); ++r)
      if (roles_[r].live > 0 && !roles_[r].stopped) earlier(wake, linger_over(r));
  for (const auto& [index, commit] : commits_) {
    if (gate_.idle()) earlier(wake, commit.resend_at);
    for (const Deadline* deadline : {&commit.silent, &commit.stalled, &commit_kill_})
      if (*deadline) earlier(wake, *deadline->at());
  }
  if (report_due_) earlier(wake, next_report_at_);
  return wake;
}

}  // namespace dlrun::cluster
