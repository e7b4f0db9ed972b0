// JobCore's commits: what the ranks of a role took of their inputs becomes one record.

#include <algorithm>

#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

void JobCore::on_task(const NodeId& from, const CommitInputs& commit, Now now) {
  const auto answer = [&](Errc code, std::string why) {
    out_.push_back(SendToAgent{
        from, CommitDone{commit.task, commit.epoch, commit.id, 0, code, std::move(why)}});
  };
  Errc error{};
  std::string context;
  const auto index = live_task(commit.task, commit.epoch, error, context);
  if (!index) return answer(error, std::move(context));
  const std::string& role = commit.task.role;
  if (const auto last = record_.commits.find(role);
      last != record_.commits.end() && last->second.generation == record_.generation) {
    const auto& ranks = last->second.ranks;
    const auto entered = std::lower_bound(
        ranks.begin(), ranks.end(), commit.task.rank,
        [](const InputsCommitted::Entered& e, std::uint32_t rank) { return e.rank < rank; });
    if (entered != ranks.end() && entered->rank == commit.task.rank) {
      if (entered->id == commit.id)
        return send_after_durable(*index, CommitDone{commit.task, commit.epoch, commit.id,
                                                     last->second.number, Errc{}, ""});
      if (commit.id < entered->id) return;  // a late repeat: it stands there no more
    }
  }
  if (const auto refused = refused_.find(*index);
      refused != refused_.end() && commit.id <= refused->second.id) {
    if (commit.id == refused->second.id) out_.push_back(SendToAgent{from, refused->second});
    return;
  }
  if (const auto stands = committing_[role].find(*index);
      stands != committing_[role].end() && commit.id < stands->second.id)
    return;
  if (commit.tag.size() > io::kCommitTagMax)
    return answer(Errc::kInvalidArgument, "a tag of " + std::to_string(commit.tag.size()) +
                                              " bytes; at most " +
                                              std::to_string(io::kCommitTagMax));
  if (!ledger_ && !commit.inputs.empty()) return answer(no_ledger().code, no_ledger().context);
  committing_[role][*index] = commit;
  check_commit(role, now);
}

void JobCore::refuse_commit(const std::string& role, Errc code, const std::string& why) {
  const auto entered = committing_.find(role);
  if (entered == committing_.end()) return;
  for (const auto& [index, commit] : entered->second) {
    refused_[index] = CommitDone{commit.task, commit.epoch, commit.id, 0, code, why};
    send(index, refused_[index]);
  }
  committing_.erase(entered);
}

void JobCore::refuse_commits(const std::string& why) {
  while (!committing_.empty())
    refuse_commit(committing_.begin()->first, Errc::kFailedPrecondition, why);
}

/// Once every rank that has not ended stands at it. Not where one failed: what it took is in no
/// checkpoint of the others.
void JobCore::check_commit(const std::string& role, Now now) {
  const auto found = committing_.find(role);
  if (found == committing_.end()) return;
  const std::map<std::size_t, CommitInputs>& entered = found->second;
  if (entered.empty()) {
    committing_.erase(found);
    return;
  }
  if (record_.verdict == Verdict::kFailed || record_.verdict == Verdict::kNotStarted)
    return refuse_commit(role, Errc::kFailedPrecondition, "the generation ends: " + record_.reason);
  const std::size_t first = entered.begin()->first;
  if (entered.size() < roles_[record_.index.role_at(first)].live) return;
  const std::string& tag = entered.begin()->second.tag;
  InputsCommitted event{record_.id, record_.generation, role, 1, tag, {}, {}, now.wall};
  std::vector<io::ConsumerCursor> consumers;
  for (const auto& [index, commit] : entered) {
    if (commit.tag != tag)
      return refuse_commit(role, Errc::kFailedPrecondition,
                           to_string(commit.task) + " commits another tag than " +
                               to_string(entered.begin()->second.task));
    consumers.push_back({commit.task, commit.inputs});
    event.ranks.push_back({commit.task.rank, commit.id});
  }
  if (ledger_) {
    auto states = ledger_->commit(consumers, world_of(first));
    if (!states) return refuse_commit(role, states.error().code, states.error().context);
    event.inputs = std::move(*states);
    if (settings_.bugs.has("commit_forgets_leases"))
      for (io::LedgerState& state : event.inputs) state.given_back.clear();
  }
  for (const auto& [name, commit] : record_.commits)
    event.number = std::max(event.number, commit.number + 1);
  if (const auto last = record_.commits.find(role); last != record_.commits.end())
    for (const io::LedgerState& state : last->second.inputs)  // not opened in this generation
      if (std::none_of(event.inputs.begin(), event.inputs.end(),
                       [&](const io::LedgerState& now) { return now.input == state.input; }))
        event.inputs.push_back(state);
  std::vector<JobEffect> tell;
  for (const auto& [index, commit] : entered)
    tell.push_back(SendToAgent{node_of(index), CommitDone{commit.task, commit.epoch, commit.id,
                                                          event.number, Errc{}, ""}});
  committing_.erase(found);
  record_event(std::move(event), std::move(tell));
}

}  // namespace dlrun::cluster
