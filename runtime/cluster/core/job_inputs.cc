// JobCore's barriers and the ledger of its inputs.

#include <algorithm>

#include "runtime/base/assert.h"
#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

void JobCore::make_ledger() {
  inputs_set_.clear();
  ledger_.reset();
  if (!record_.spec->inputs.empty() && make_ledger_) ledger_ = make_ledger_(record_.spec->inputs);
  if (ledger_)
    for (const LedgerOp& op : record_.ledger_ops) std::visit([this](const auto& o) { replay(o); }, op);
  record_.ledger_ops.clear();
}

void JobCore::replay(const InputFilesSet& op) {
  if (ledger_->set_files(op.input, op.files)) inputs_set_.insert(op.input);
}

/// The answer too: it may have been lost on its way, and will be asked for again.
void JobCore::replay(const SplitsLeased& op) {
  if (op.resync) ledger_->resync(op.input, op.consumer, op.held);
  Result<io::LeaseAnswer> answer = ledger_->lease(op.input, op.consumer, op.splits_max);
  const auto index = record_.index_of(op.consumer);
  if (answer && index)
    remember_answer(*index, op.input, LeaseReply{op.consumer, epoch(), op.request, {}, "", std::move(*answer)});
}

void JobCore::replay(const SplitFinished& op) { (void)ledger_->done(op.input, op.consumer, op.split_id, op.pass); }

void JobCore::replay(const TaskEnded& op) {
  if (const auto index = record_.index_of(op.task)) drop_consumer(*index);
}

void JobCore::remember_answer(std::size_t consumer, const std::string& input, LeaseReply reply) {
  std::deque<LeaseReply>& answered = answered_[{consumer, input}];
  answered.push_back(std::move(reply));
  if (answered.size() > settings_.lease_answers_max) answered.pop_front();
}

void JobCore::drop_consumer(std::size_t index) {
  if (ledger_) ledger_->drop_consumer(record_.tasks[index].task);
  std::erase_if(answered_, [&](const auto& entry) { return entry.first.first == index; });
}

std::optional<std::size_t> JobCore::live_task(const TaskId& task, Epoch of, Errc& error,
                                              std::string& context) const {
  const bool accept_stale = settings_.bugs.has("accept_stale_lease");
  TaskId id = task;
  if (accept_stale) id.generation = record_.generation;
  const auto index = record_.index_of(id);
  if (!index || (of != epoch() && !accept_stale)) {
    error = Errc::kStaleEpoch;
    context = to_string(task) + " belongs to epoch " + to_string(of) + ", " +
              to_string(record_.id) + " runs under " + to_string(epoch());
    return std::nullopt;
  }
  if (tasks_[*index].state == TaskState::kEnded) {
    error = Errc::kStaleEpoch;
    context = to_string(task) + " has ended";
    return std::nullopt;
  }
  return index;
}

void JobCore::refuse_lease(const NodeId& to, const TaskId& task, Epoch of, std::uint64_t request,
                           Errc code, std::string context) {
  out_.push_back(SendToAgent{to, LeaseReply{task, of, request, code, std::move(context), {}}});
}

void JobCore::on_task(const NodeId& from, const InputFiles& files, Now) {
  Errc error{};
  std::string context;
  const auto index = live_task(files.task, files.epoch, error, context);
  if (!index)
    return refuse_lease(from, files.task, files.epoch, files.request, error, std::move(context));
  if (!ledger_)
    return refuse_lease(from, files.task, files.epoch, files.request, Errc::kNotFound,
                        to_string(record_.id) + " declares no input");
  const Status status = ledger_->set_files(files.input, files.files);
  if (!status)
    return refuse_lease(from, files.task, files.epoch, files.request, status.error().code,
                        status.error().context);
  const JobEffect reply =
      SendToAgent{from, LeaseReply{files.task, files.epoch, files.request, {}, "", {}}};
  if (inputs_set_.insert(files.input).second)
    record_event(InputFilesSet{record_.id, record_.generation, files.input, files.files}, {reply});
  else
    gate_.stage({record_.id, false, {}, {reply}, {}});
}

void JobCore::on_task(const NodeId& from, const LeaseSplits& lease, Now) {
  Errc error{};
  std::string context;
  const auto index = live_task(lease.task, lease.epoch, error, context);
  if (!index)
    return refuse_lease(from, lease.task, lease.epoch, lease.request, error, std::move(context));
  if (!ledger_)
    return refuse_lease(from, lease.task, lease.epoch, lease.request, Errc::kNotFound,
                        to_string(record_.id) + " declares no input");
  if (!settings_.bugs.has("lease_repeat_granted_again"))
    for (const LeaseReply& reply : answered_[{*index, lease.input}])
      if (reply.request == lease.request) return send_after_durable(*index, reply);
  if (lease.resync) ledger_->resync(lease.input, lease.task, lease.held);
  Result<io::LeaseAnswer> answer = ledger_->lease(lease.input, lease.task, lease.splits_max);
  if (!answer)
    return refuse_lease(from, lease.task, lease.epoch, lease.request, answer.error().code,
                        answer.error().context);
  LeaseReply reply{lease.task, lease.epoch, lease.request, {}, "", std::move(*answer)};
  const bool changed = lease.resync || reply.answer.state == io::LeaseState::kGranted;
  remember_answer(*index, lease.input, reply);
  if (!changed) return send_after_durable(*index, std::move(reply));
  record_event(SplitsLeased{lease.task, lease.input, lease.splits_max, lease.request, lease.resync,
                            lease.held},
               {SendToAgent{from, std::move(reply)}});
}

void JobCore::on_task(const NodeId& from, const SplitDone& done, Now) {
  Errc error{};
  std::string context;
  const SplitDoneAck ack{done.task, done.epoch, done.input, done.split_id, done.pass};
  const auto index = live_task(done.task, done.epoch, error, context);
  if (!index || !ledger_) {
    out_.push_back(SendToAgent{from, ack});  // refused for good: no reason to repeat
    return;
  }
  if (!ledger_->done(done.input, done.task, done.split_id, done.pass))
    return send_after_durable(*index, ack);  // a repeat, or not leased to it
  if (settings_.bugs.has("split_done_not_recorded")) return send_after_durable(*index, ack);
  record_event(SplitFinished{done.task, done.input, done.split_id, done.pass},
               {SendToAgent{from, ack}});
}

// ---- barriers
// ------------------------------------------------------------------------------------------------------

void JobCore::on_task(const NodeId&, const BarrierArrive& arrive, Now) {
  Errc error{};
  std::string context;
  const auto index = live_task(arrive.task, arrive.epoch, error, context);
  if (!index) return;  // of an epoch that is over: its agent is told to stop it
  const JobRecord::BarrierKey key{arrive.task.role, arrive.name};
  const auto met = record_.barriers_met.find(key);
  const std::uint64_t next = (met == record_.barriers_met.end() ? 0 : met->second) + 1;
  const bool old = arrive.round < next && !settings_.bugs.has("barrier_counts_repeats");
  if (old)
    return send_after_durable(*index,
                              BarrierDone{arrive.task, arrive.epoch, arrive.name, arrive.round});
  if (barriers_.count(key) == 0 && barriers_.size() >= kBarriersMax)
    return;  // its agent asks again
  barriers_[key].arrived.insert(*index);
  check_barrier(key);
}

void JobCore::check_barrier(const JobRecord::BarrierKey& key) {
  const auto it = barriers_.find(key);
  if (it == barriers_.end() || record_.verdict != Verdict::kNone) return;  // who failed never arrives
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    if (record_.tasks[i].task.role == key.first && tasks_[i].state != TaskState::kEnded &&
        it->second.arrived.count(i) == 0)
      return;
  const auto met = record_.barriers_met.find(key);
  const std::uint64_t round = (met == record_.barriers_met.end() ? 0 : met->second) + 1;
  std::vector<JobEffect> tell;
  for (std::size_t i : it->second.arrived)
    if (tasks_[i].state != TaskState::kEnded)
      tell.push_back(
          SendToAgent{node_of(i), BarrierDone{record_.tasks[i].task, epoch(), key.second, round}});
  barriers_.erase(it);
  if (tell.empty()) return;
  record_event(BarrierMet{record_.id, record_.generation, key.first, key.second, round},
               std::move(tell));
}

void JobCore::check_barriers(const std::string& role) {
  std::vector<JobRecord::BarrierKey> keys;
  for (const auto& [key, barrier] : barriers_)
    if (key.first == role) keys.push_back(key);
  for (const auto& key : keys) check_barrier(key);
}

}  // namespace dlrun::cluster
