// JobCore's barriers and the ledger of its inputs.

#include <algorithm>

#include "runtime/base/assert.h"
#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

void JobCore::make_ledger() {
  inputs_set_.clear();
  ledger_.reset();
  if (!record_.spec->inputs.empty() && make_ledger_) ledger_ = make_ledger_(record_.spec->inputs);
  ledger_error_.reset();
  for (const LedgerOp& op : record_.ledger_ops)
    if (ledger_) std::visit([this](const auto& o) { replay(o); }, op);
  // Ends before the last snapshot: nobody waits for those.
  for (const auto& [index, end] : record_.ends)
    if (ledger_) ledger_->drop_consumer(record_.tasks[index].task);
  record_.ledger_ops.clear();
}

void JobCore::replay(const InputFilesSet& op) {
  if (ledger_->set_files(op.input, op.files)) inputs_set_.insert(op.input);
}

/// The answer too: it may have been lost on its way, and will be asked for again.
void JobCore::replay(const SplitsLeased& op) {
  (void)take_done(op.consumer, op.input, op.done);
  if (op.resync) ledger_->resync(op.input, op.consumer, op.held);
  io::LeaseAnswer answer;
  if (op.splits_max > 0) {
    Result<io::LeaseAnswer> leased = ledger_->lease(op.input, op.consumer, op.splits_max);
    if (!leased) return;
    answer = std::move(*leased);
  }
  if (const auto index = record_.index_of(op.consumer))
    answered_[{*index, op.input}] =
        LeaseReply{op.consumer, epoch(), op.request, {}, "", std::move(answer)};
}

void JobCore::replay(const JobSnapshot& op) {
  for (const io::LedgerState& state : op.inputs) {
    if (const Status restored = ledger_->restore(state); !restored) {
      ledger_.reset();
      ledger_error_ = restored.error();
      return;
    }
  }
  for (const JobSnapshot::Answer& saved : op.answers) {
    const auto index = record_.index_of(saved.consumer);
    if (!index) continue;
    LeaseReply reply{saved.consumer, epoch(), saved.request, {}, "", {saved.state, {}}};
    for (const io::SplitKey& key : saved.splits)
      if (Result<io::Split> split = ledger_->split(saved.input, key))
        reply.answer.splits.push_back(std::move(*split));
    answered_[{*index, saved.input}] = std::move(reply);
  }
}

JobSnapshot JobCore::snapshot() const {
  JobSnapshot saved{record_.id, record_.generation, {}, {}, {}};
  if (ledger_) saved.inputs = ledger_->save();
  for (const auto& [key, reply] : answered_) {
    JobSnapshot::Answer& answer = saved.answers.emplace_back(JobSnapshot::Answer{
        record_.tasks[key.first].task, key.second, reply.request, reply.answer.state, {}});
    for (const io::Split& split : reply.answer.splits)
      answer.splits.push_back({split.id, split.pass});
  }
  for (const JobRecord::BarrierKey& key : record_.barrier_order)
    saved.barriers.push_back({key.first, key.second, record_.barriers_met.at(key)});
  if (settings_.bugs.has("snapshot_forgets_position"))
    for (io::LedgerState& state : saved.inputs) state.position = 0;
  return saved;
}

bool JobCore::take_done(const TaskId& consumer, const std::string& input,
                        const std::vector<io::SplitKey>& done) {
  bool changed = false;  // a repeat, or not leased to it: nothing
  for (const io::SplitKey& key : done)
    changed = ledger_->done(input, consumer, key.split_id, key.pass).has_value() || changed;
  return changed;
}

void JobCore::replay(const TaskEnded& op) {
  if (const auto index = record_.index_of(op.task)) drop_consumer(*index);
}

void JobCore::drop_consumer(std::size_t index) {
  if (ledger_) ledger_->drop_consumer(record_.tasks[index].task);
  std::erase_if(answered_, [&](const auto& entry) { return entry.first.first == index; });
  for (auto& [role, entered] : committing_) entered.erase(index);
}

std::uint32_t JobCore::world_of(std::size_t index) const {
  return static_cast<std::uint32_t>(record_.index.range_of(record_.index.role_at(index)).size());
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

Error JobCore::no_ledger() const {
  if (ledger_error_) return *ledger_error_;
  return Error{Errc::kNotFound, to_string(record_.id) + " declares no input"};
}

void JobCore::on_task(const NodeId& from, const InputFiles& files, Now) {
  Errc error{};
  std::string context;
  const auto index = live_task(files.task, files.epoch, error, context);
  if (!index)
    return refuse_lease(from, files.task, files.epoch, files.request, error, std::move(context));
  if (!ledger_)
    return refuse_lease(from, files.task, files.epoch, files.request, no_ledger().code,
                        no_ledger().context);
  const bool first = inputs_set_.count(files.input) == 0;
  const io::LedgerState* committed = first ? record_.committed(files.input) : nullptr;
  Status status = ledger_->set_files(files.input, files.files);
  if (status && committed != nullptr) status = ledger_->restore(*committed);
  Result<io::InputStart> start = io::InputStart{};
  if (status) start = ledger_->start(files.input, files.task, world_of(*index));
  if (!status || !start) {
    const Error& why = status ? start.error() : status.error();
    return refuse_lease(from, files.task, files.epoch, files.request, why.code, why.context);
  }
  LeaseReply answer{files.task, files.epoch, files.request, {}, "", {}};
  answer.answer.start = std::move(*start);
  const JobEffect reply = SendToAgent{from, std::move(answer)};
  if (!first) {
    gate_.stage({record_.id, false, {}, {reply}, {}});
    return;
  }
  inputs_set_.insert(files.input);
  std::vector<Event> events;
  events.emplace_back(InputFilesSet{record_.id, record_.generation, files.input, files.files});
  // A replay begins there too, whatever is committed until then.
  if (committed != nullptr) events.emplace_back(snapshot());
  record_events(std::move(events), {reply});
}

void JobCore::on_task(const NodeId& from, const LeaseSplits& lease, Now) {
  Errc error{};
  std::string context;
  const auto index = live_task(lease.task, lease.epoch, error, context);
  if (!index)
    return refuse_lease(from, lease.task, lease.epoch, lease.request, error, std::move(context));
  if (!ledger_)
    return refuse_lease(from, lease.task, lease.epoch, lease.request, no_ledger().code,
                        no_ledger().context);
  const auto last = answered_.find({*index, lease.input});
  if (last != answered_.end() && !settings_.bugs.has("lease_repeat_granted_again")) {
    if (lease.request == last->second.request) return send_after_durable(*index, last->second);
    if (lease.request < last->second.request) return;  // given up: nobody waits for its answer
  }
  LeaseReply reply{lease.task, lease.epoch, lease.request, {}, "", {}};
  if (!lease.steps.empty()) {
    Result<io::StepNews> news =
        ledger_->steps(lease.input, lease.task, world_of(*index), lease.steps);
    if (!news)
      return refuse_lease(from, lease.task, lease.epoch, lease.request, news.error().code,
                          news.error().context);
    reply.answer.steps = *news;
  }
  bool changed = take_done(lease.task, lease.input, lease.done) || lease.resync;
  if (lease.resync) ledger_->resync(lease.input, lease.task, lease.held);
  SplitsLeased record{lease.task,   lease.input, 0,         lease.request,
                      lease.resync, lease.held,  lease.done};
  if (settings_.bugs.has("split_done_not_recorded")) record.done.clear();
  if (record_.verdict == Verdict::kFailed) {
    reply.answer.state = io::LeaseState::kWait;  // what the lost one held goes to nobody any more
  } else if (lease.splits_max > 0) {
    const std::uint32_t share = ledger_->share(lease.input, lease.task, lease.splits_max);
    Result<io::LeaseAnswer> answer = ledger_->lease(lease.input, lease.task, share);
    if (answer) {
      record.splits_max = share;
      changed = changed || answer->state == io::LeaseState::kGranted;
      reply.answer = std::move(*answer);
    } else {
      reply.error = answer.error().code;
      reply.error_context = answer.error().context;
    }
  }
  if (reply.error == Errc{}) answered_[{*index, lease.input}] = reply;
  if (!changed) return send_after_durable(*index, std::move(reply));
  record_event(std::move(record), {SendToAgent{from, std::move(reply)}});
}

// ---- barriers

void JobCore::on_task(const NodeId&, const BarrierArrive& arrive, Now now) {
  Errc error{};
  std::string context;
  const auto index = live_task(arrive.task, arrive.epoch, error, context);
  if (!index) return;  // of an epoch that is over: its agent is told to stop it
  const BarrierSet::Key key{arrive.task.role, arrive.name};
  const bool old =
      arrive.round < open_round(record_, key) && !settings_.bugs.has("barrier_counts_repeats");
  if (old)
    return send_after_durable(*index,
                              BarrierDone{arrive.task, arrive.epoch, arrive.name, arrive.round});
  if (barriers_.arrive(key, *index)) return check_barrier(key);
  const std::string why = "more than " + std::to_string(kBarriersMax) +
                          " barriers of the job stand open: it waits until one is met";
  if (record_.warned.count({*index, why}) == 0)
    record_event(TaskWarned{arrive.task, arrive.epoch, why, now.wall});
}

void JobCore::check_barrier(const BarrierSet::Key& key) {
  if (record_.verdict != Verdict::kNone) return;  // who failed never arrives
  const auto first = record_.index.find(key.first, 0);
  if (!first) return;
  const std::size_t role = record_.index.role_at(*first);
  if (barriers_.arrived(key) < roles_[role].live) return;  // somebody is missing for certain
  std::vector<std::size_t> expected;
  const TaskIndex::Range range = record_.index.range_of(role);
  for (std::size_t i = range.first; i < range.end; ++i)
    if (tasks_[i].state != TaskState::kEnded) expected.push_back(i);
  const auto arrived = barriers_.close_if_met(key, expected);
  if (!arrived) return;
  const std::uint64_t round = open_round(record_, key);
  std::vector<JobEffect> tell;
  for (std::size_t i : *arrived)
    if (tasks_[i].state != TaskState::kEnded)
      tell.push_back(
          SendToAgent{node_of(i), BarrierDone{record_.tasks[i].task, epoch(), key.second, round}});
  if (tell.empty()) return;
  record_event(BarrierMet{record_.id, record_.generation, key.first, key.second, round},
               std::move(tell));
}

void JobCore::check_barriers(const std::string& role) {
  for (const auto& key : barriers_.open_in(role)) check_barrier(key);
}

}  // namespace dlrun::cluster
