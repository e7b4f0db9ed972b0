// JobCore: the outputs of a job that is done by its end rules take their places (COMMITTING).

#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

/// Afterwards `commits_` holds the tasks whose agents have not answered.
void JobCore::commit_outputs(Now now) {
  if (state_ == JobState::kCommitting) return;
  for (std::size_t i = 0; i < record_.tasks.size(); ++i) {
    if (outputs_of(record_, i).empty()) continue;
    Commit& commit = commits_[i] = {};
    commit.resend_at = now.at;
    commit.silent.set(now.at + settings_.commit_timeout);
    commit.stalled.set(now.at + settings_.commit_stall);
  }
  if (!record_.commit_granted)
    record_event(CommitGranted{record_.id, record_.generation, now.wall});
  if (record_.kill_requested) commit_kill_.set(now.at + record_.spec->grace);
  set_state(JobState::kCommitting);
}

void JobCore::on_task(const NodeId& from, const OutputsCommitted& committed, Now now) {
  const auto index = record_.index_of(committed.task);
  if (!index || committed.epoch != epoch() || ending_ || node_of(*index) != from) return;
  const auto it = commits_.find(*index);
  if (it == commits_.end()) return;
  if (committed.under_way) {
    Commit& commit = it->second;
    commit.silent.set(now.at + settings_.commit_timeout);
    // Another number, not a larger one: a new agent process begins anew.
    if (committed.progress != commit.progress) commit.stalled.set(now.at + settings_.commit_stall);
    commit.progress = committed.progress;
    return;
  }
  commits_.erase(it);
  if (committed.error == Errc{}) return;
  record_.reason =
      to_string(committed.task) + ": its outputs were not published: " + committed.error_context;
  end_job(JobState::kFailed, TaskEnd{.cause = Cause::kCoordinator, .detail = record_.reason}, now);
}

void JobCore::give_up_commits(Now now) {
  if (ending_ || commits_.empty()) return;
  const auto who = [this](std::size_t index) {
    return to_string(record_.tasks[index].task) + " on " + node_of(index).value;
  };
  if (commit_kill_.over(now.at)) {
    // A rename that was asked for cannot be called back.
    record_.reason = "killed by a user while its outputs took their places: those of " +
                     who(commits_.begin()->first) + " may be there or still come";
    return end_job(JobState::kCancelled,
                   TaskEnd{.cause = Cause::kUserKill, .detail = record_.reason}, now);
  }
  for (auto& [index, commit] : commits_) {
    if (commit.silent.over(now.at))
      record_.reason = "its outputs were not put in their places in time: " + node_of(index).value +
                       " does not answer";
    else if (commit.stalled.over(now.at))
      record_.reason =
          "its outputs were not put in their places in time: " + who(index) +
          " does not get on with it (" + std::to_string(commit.progress) +
          " files and folders so far; is the file system of its outputs there and writable?)";
    else
      continue;
    return end_job(JobState::kFailed,
                   TaskEnd{.cause = Cause::kCoordinator, .detail = record_.reason}, now);
  }
}

}  // namespace dlrun::cluster
