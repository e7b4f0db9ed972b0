#include "runtime/cluster/core/job_core.h"

#include <algorithm>

#include "runtime/base/assert.h"

namespace dlrun::cluster {

namespace {

JobState state_for(Cause cause) {
  switch (cause) {
    case Cause::kOom:
      return JobState::kOom;
    case Cause::kTimeLimit:
      return JobState::kTimeout;
    case Cause::kUserKill:
      return JobState::kCancelled;
    case Cause::kNodeLost:
    case Cause::kShimLost:
      return JobState::kLost;
    default:
      return JobState::kFailed;
  }
}

}  // namespace

JobCore::JobCore(JobRecord record, JobSettings settings, const TokenIssuer& tokens,
                 LedgerFactory make_ledger)
    : record_(std::move(record)),
      settings_(std::move(settings)),
      tokens_(tokens),
      make_ledger_(std::move(make_ledger)),
      gate_(settings_.persist_retry) {}

// ---- events

JobEffects JobCore::start(Now now) {
  if (!record_.tasks.empty()) {
    begin_generation(now);
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      tasks_[i].unverified = record_.ends.count(i) == 0;
      if (!tasks_[i].unverified) set_task_state(i, TaskState::kEnded);
      tasks_[i].end_durable = !tasks_[i].unverified;
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i)  // shards may not have heard who is gone
      if (is_shard_host(i) && tasks_[i].state != TaskState::kEnded)
        for (const auto& [ended, end] : record_.ends)
          if (is_worker(ended)) tasks_[i].gone_unacked.insert(ended);
  }
  report_now_ = true;
  if (record_.tasks.empty()) state_ = waiting_state();
  evaluate(now);
  return flush(now);
}

JobState JobCore::waiting_state() const {
  if (record_.held) return JobState::kHeld;
  return record_.requeued ? JobState::kPreempted : JobState::kPending;
}

JobEffects JobCore::on_input(const JobInput& input, Now now) {
  if (!over_) {
    std::visit([&](const auto& in) { on(in, now); }, input);
    evaluate(now);
  }
  return flush(now);
}

JobEffects JobCore::on_tick(Now now) {
  gate_.on_tick(now.at);
  if (!over_) {
    if (record_.verdict == Verdict::kNone && !ending_) {
      if (time_limit_at_ && now.at >= *time_limit_at_)
        record_event(JobStateChanged{record_.id, record_.generation, JobState::kStopping,
                                     Cause::kTimeLimit, "the time limit is over", now.wall});
      else if (prepare_deadline_.over(now.at))
        give_up_start("was not prepared in time", now);
      else if (ready_deadline_.over(now.at))
        give_up_start("was not ready in time", now);
    }
    give_up_commits(now);
    evaluate(now);
  }
  return flush(now);
}

JobEffects JobCore::on_persisted(std::uint64_t id, Now now) {
  const std::size_t before = out_.size();
  gate_.on_persisted(id, out_);
  for (std::size_t i = before; i < out_.size(); ++i) {
    if (const auto* message = std::get_if<JobToCoordinator>(&out_[i]))
      if (std::holds_alternative<JobOver>(*message)) over_ = true;
    const auto* send = std::get_if<SendToAgent>(&out_[i]);
    const auto* ack = send != nullptr ? std::get_if<TaskEndAck>(&send->message) : nullptr;
    if (ack == nullptr || ack->epoch != epoch()) continue;
    if (const auto index = record_.index_of(ack->task)) tell_gone(*index, now);
  }
  return flush(now);
}

JobEffects JobCore::on_persist_failed(std::uint64_t id, const Error&, Now now) {
  gate_.on_failed(id, now.at, out_);
  return flush(now);
}

void JobCore::on(const Placed& input, Now now) {
  if (ending_ || input.placed.job != record_.id || input.placed.generation != record_.generation ||
      !record_.tasks.empty())
    return;
  record_.apply(Event(input.placed));
  set_state(JobState::kAdmitted);
  begin_generation(now);
}

void JobCore::on(const TaskMessage& input, Now now) {
  std::visit([&](const auto& message) { on_task(input.from, message, now); }, input.message);
}

void JobCore::on(const NodeBack& input, Now now) {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (node_of(i) != input.node || tasks_[i].state == TaskState::kEnded) continue;
    if (!input.address.empty() && input.address != record_.tasks[i].address)
      record_.tasks[i].address = input.address;
    if (input.new_process) {
      tasks_[i].unverified = true;  // ask: the answer of the agent is proof, a list may be old
      tasks_[i].resend_at = now.at;
      tasks_[i].resend_after = Duration::zero();
      due_at_ = now.at;
      if (is_shard_host(i))
        for (const auto& [ended, end] : record_.ends)
          if (is_worker(ended) && tasks_[ended].end_durable) tasks_[i].gone_unacked.insert(ended);
    }
  }
  for (const TaskUpdate& update : input.tasks) on_task(input.node, update, now);
}

void JobCore::on(const NodeGone& input, Now now) {
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    if (node_of(i) == input.node && tasks_[i].state != TaskState::kEnded)
      end_task(i,
               tasks_[i].failed.value_or(TaskEnd{.cause = Cause::kNodeLost,
                                                 .detail = input.node.value + " " + input.reason}),
               now);
  for (const auto& [index, commit] : commits_) {
    if (ending_ || node_of(index) != input.node) continue;
    // Whether it had published is not known, so there must be no second try.
    record_.reason = input.node.value + " was lost while it put the outputs in their places";
    end_job(JobState::kLost, TaskEnd{.cause = Cause::kNodeLost, .detail = record_.reason}, now);
  }
}

void JobCore::on(const Kill& input, Now now) {
  record_.apply(Event(input.request));
  if (!commits_.empty() && !commit_kill_) commit_kill_.set(now.at + record_.spec->grace);
}

void JobCore::on(const Preempt& input, Now) {
  if (!ending_ && !record_.tasks.empty()) record_.apply(Event(input.stopping));
}

void JobCore::on(const Hold& input, Now) {
  if (ending_) return;
  record_.apply(Event(input.held));
  if (record_.tasks.empty()) set_state(waiting_state());
}

void JobCore::on_task(const NodeId& from, const TaskUpdate& update, Now now) {
  const bool accept_stale = settings_.bugs.has("accept_stale_update");
  TaskId id = update.task;
  if (accept_stale) id.generation = record_.generation;
  const auto index = record_.index_of(id);
  const bool current =
      (update.epoch == epoch() && index && node_of(*index) == from) || (accept_stale && index);
  if (!current) {
    if (update.state == TaskState::kEnded)
      gate_.stage(
          {record_.id, false, {}, {SendToAgent{from, TaskEndAck{update.task, update.epoch}}}, {}});
    else
      out_.push_back(
          SendToAgent{from, StopTask{update.task, update.epoch, Duration{0}, Cause::kCoordinator}});
    return;
  }
  Task& task = tasks_[*index];
  if (settings_.bugs.has("shard_loss_ignored") && is_shard_host(*index) &&
      update.state == TaskState::kEnded && record_.verdict == Verdict::kNone)
    return;
  if (task.state == TaskState::kEnded) {
    if (update.state == TaskState::kEnded)
      send_after_durable(*index, TaskEndAck{update.task, update.epoch});
    else if (record_.ends[*index].end.cause == Cause::kNodeLost)
      out_.push_back(
          SendToAgent{from, StopTask{update.task, update.epoch, Duration{0}, Cause::kNodeLost}});
    return;
  }
  task.unverified = false;
  if (update.pid != 0) task.pid = update.pid;
  if ((!update.ready.tcp.empty() || !update.ready.ipc.empty()) && !(task.ready == update.ready)) {
    task.ready = update.ready;
    ps_view_.reset();
  }
  if (!update.warning.empty() && record_.warned.count({*index, update.warning}) == 0)
    record_event(TaskWarned{update.task, update.epoch, update.warning, now.wall});
  if (update.state == TaskState::kEnded) {
    take_end(*index, update.end, now);
    return;
  }
  if (update.state <= task.state) return;
  if (task.state < TaskState::kRunning && update.state >= TaskState::kRunning &&
      task.started == WallTime{})
    task.started = now.wall;
  set_task_state(*index, update.state);
  report_due_ = true;
}

void JobCore::on_task(const NodeId&, const Progress& progress, Now) {
  const auto index = record_.index_of(progress.task);
  if (!index || progress.epoch != epoch()) return;
  tasks_[*index].progress = std::clamp(progress.fraction, 0.0, 1.0);
  if (!progress.text.empty()) progress_text_ = progress.text.substr(0, 256);
  report_due_ = true;
}

void JobCore::on_task(const NodeId&, const WorkerGoneAck& ack, Now) {
  const auto shard = record_.index_of(ack.shard_task);
  const auto worker = record_.index_of(ack.worker);
  if (shard && worker && ack.epoch == epoch()) tasks_[*shard].gone_unacked.erase(*worker);
}

// ---- decisions

void JobCore::begin_generation(Now now) {
  tasks_.assign(record_.tasks.size(), {});
  count_tasks();
  ps_view_.reset();
  due_at_ = now.at;
  barriers_.clear();
  committing_.clear();
  refused_.clear();
  answered_.clear();
  commits_.clear();
  commit_kill_.reset();
  done_at_.reset();
  make_ledger();
  prepare_deadline_.reset();
  ready_deadline_.reset();
  if (!record_.running_seen) prepare_deadline_.set(now.at + settings_.prepare_timeout);
  time_limit_at_.reset();
  const Duration limit = record_.spec->time_limit;
  if (limit > Duration::zero()) {
    // What went by before a restart of the coordinator counts; a clock that was set back adds
    // nothing.
    const Duration past{now.wall.ns - record_.placed_at.ns};
    time_limit_at_ = now.at + limit - std::clamp(past, Duration::zero(), limit);
  }
}

void JobCore::evaluate(Now now) {
  if (over_ || ending_) return;
  end_failed(now);
  if (tasks_.empty()) {
    if (record_.verdict == Verdict::kKilled)
      end_job(JobState::kCancelled, TaskEnd{.cause = Cause::kUserKill, .detail = record_.reason},
              now);
    return;
  }
  const bool may_finish = record_.all_ended() || (settings_.bugs.has("finish_before_all_ended") &&
                                                  record_.verdict == Verdict::kFailed);
  if (may_finish) {
    finish_generation(now);
    return;
  }
  const JobSpec& spec = *record_.spec;
  switch (record_.verdict) {
    case Verdict::kNone:
      start_what_may(now);
      return;
    case Verdict::kDone:
      stop_what_lingered(now);
      break;
    case Verdict::kFailed:
      refuse_commits("the generation ends: " + record_.reason);
      stop_all(Cause::kSibling, spec.failure_grace, now);
      break;
    case Verdict::kKilled:
      stop_all(Cause::kUserKill, spec.grace, now);
      break;
    case Verdict::kTimeout:
      stop_all(Cause::kTimeLimit, spec.grace, now);
      break;
    case Verdict::kNotStarted:
      stop_all(Cause::kCoordinator, spec.failure_grace, now);
      break;
    case Verdict::kPreempted:
      stop_all(Cause::kPreempted, spec.grace, now);
      break;
  }
  set_state(JobState::kStopping);
}

void JobCore::start_what_may(Now now) {
  if (!record_.running_seen && !gang_of_one() && state_ < JobState::kStarting) {
    if (!all_in(TaskState::kPrepared)) {
      if (state_ != JobState::kStaging)
        for (std::size_t i = 0; i < tasks_.size(); ++i) set_want(i, Want::kPrepared, now);
      set_state(JobState::kStaging);
      return;
    }
    set_state(JobState::kStarting);  // the gang barrier is passed
  }
  if (state_ < JobState::kStarting)
    set_state(record_.running_seen ? JobState::kRunning : JobState::kStarting);
  if (prepare_deadline_ && all_in(TaskState::kPrepared)) {
    prepare_deadline_.reset();
    ready_deadline_.set(now.at + settings_.ready_timeout);
  }
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    if (roles_[r].started || !(record_.running_seen || may_start(record_.spec->roles[r]))) continue;
    roles_[r].started = true;
    const TaskIndex::Range range = record_.index.range_of(r);
    for (std::size_t i = range.first; i < range.end; ++i) set_want(i, Want::kStarted, now);
  }
  if (all_in(TaskState::kRunning) && !record_.running_seen) {
    prepare_deadline_.reset();
    ready_deadline_.reset();
    record_event(JobStateChanged{record_.id, record_.generation, JobState::kRunning, Cause::kNone,
                                 "", now.wall});
    set_state(JobState::kRunning);
  }
}

void JobCore::give_up_start(std::string reason, Now now) {
  std::string who;
  for (std::size_t i = 0; i < tasks_.size() && who.empty(); ++i)
    if (!satisfied(tasks_[i]))
      who = to_string(record_.tasks[i].task) + " on " + node_of(i).value + " ";
  prepare_deadline_.reset();
  ready_deadline_.reset();
  record_event(JobStateChanged{record_.id, record_.generation, JobState::kStopping,
                               Cause::kStartFailed, who + std::move(reason), now.wall});
}

void JobCore::end_task(std::size_t index, TaskEnd end, Now now) {
  Task& task = tasks_[index];
  if (task.failed) --failed_;
  task.failed.reset();
  DLRUN_ASSERT(task.state != TaskState::kEnded);
  set_task_state(index, TaskState::kEnded);
  task.unverified = false;
  const TaskId& id = record_.tasks[index].task;
  const JobEffect ack = SendToAgent{node_of(index), TaskEndAck{id, epoch()}};
  if (settings_.bugs.has("ack_end_before_durable")) out_.push_back(ack);
  record_event(TaskEnded{id, epoch(), std::move(end), now.wall}, {ack});
  drop_consumer(index);
  if (settings_.bugs.has("gone_told_before_durable")) tell_gone(index, now);
  check_barriers(id.role);
  check_commit(id.role, now);
  report_due_ = true;
}

/// Once its end is on disk: a coordinator that restarts before may find the worker alive, and a
/// shard takes nobody back.
void JobCore::tell_gone(std::size_t worker, Now now) {
  if (tasks_[worker].end_durable) return;
  tasks_[worker].end_durable = true;
  if (!is_worker(worker)) return;
  for (std::size_t r = 0; r < roles_.size(); ++r) {
    if (record_.spec->roles[r].program != RoleProgram::kShardHost) continue;
    const TaskIndex::Range range = record_.index.range_of(r);
    for (std::size_t i = range.first; i < range.end; ++i) {
      Task& shard = tasks_[i];
      if (shard.state == TaskState::kEnded) continue;
      // This one only: those before it have been told, and are repeated in their time.
      if (shard.gone_unacked.empty()) shard.gone_resend_at = now.at + settings_.resend_max;
      if (shard.gone_unacked.insert(worker).second)
        send(i, WorkerGone{record_.tasks[i].task, record_.tasks[worker].task, epoch()});
      due_at_ = std::min(due_at_, shard.gone_resend_at);
    }
  }
}

void JobCore::finish_generation(Now now) {
  const RestartPolicy& policy = record_.spec->restart;
  const std::vector<Cause>* restart_on = &policy.on;
  TaskEnd end;
  JobState final_state = JobState::kFailed;
  switch (record_.verdict) {
    case Verdict::kDone:
      if (!record_.spec->outputs.empty()) {
        commit_outputs(now);
        if (!commits_.empty() || ending_) return;
      }
      final_state = JobState::kSucceeded;
      end.cause = Cause::kExit;
      break;
    case Verdict::kFailed:
      end = record_.ends.at(*record_.first_failed).end;
      if (const auto& own = record_.role_of(*record_.first_failed).restart_on;
          own && !settings_.bugs.has("restart_on_ignored"))
        restart_on = &*own;
      final_state = state_for(end.cause);
      break;
    case Verdict::kKilled:
      final_state = JobState::kCancelled;
      end.cause = Cause::kUserKill;
      end.detail = record_.reason;
      break;
    case Verdict::kTimeout:
      final_state = JobState::kTimeout;
      end.cause = Cause::kTimeLimit;
      end.detail = record_.reason;
      break;
    case Verdict::kPreempted:
      end.cause = Cause::kPreempted;
      end.detail = record_.reason;
      break;
    case Verdict::kNotStarted:
    case Verdict::kNone:
      end.cause = Cause::kStartFailed;
      end.detail = record_.reason;
      break;
  }
  const bool bad = record_.verdict == Verdict::kFailed || record_.verdict == Verdict::kNotStarted;
  const bool in_policy =
      std::find(restart_on->begin(), restart_on->end(), end.cause) != restart_on->end();
  const bool restart =
      record_.moves() || (bad && in_policy && record_.restarts_used() < policy.restarts_max);
  if (restart || record_.verdict == Verdict::kPreempted) {
    if (record_.kill_requested) {
      end_job(JobState::kCancelled,
              TaskEnd{.cause = Cause::kUserKill, .detail = "killed by a user"}, now);
      return;
    }
    next_generation(end.cause, now);
    return;
  }
  end_job(final_state, std::move(end), now);
}

void JobCore::next_generation(Cause cause, Now now) {
  const Generation next{record_.generation.value + 1};
  record_event(GenerationEnded{record_.id, record_.generation, cause, record_.reason, now.wall},
               {JobToCoordinator{JobNeedsPlacement{record_.id, next}}});
  tasks_.clear();
  count_tasks();
  ledger_.reset();
  prepare_deadline_.reset();
  ready_deadline_.reset();
  time_limit_at_.reset();
  set_state(waiting_state());
}

void JobCore::end_job(JobState final_state, TaskEnd end, Now now) {
  state_ = final_state;
  JobView last = view();
  last.spec = *record_.spec;
  last.spec.submit_env.clear();
  last.ended = now.wall;
  last.end = std::move(end);
  last.exit_code = exit_code(last.end);
  if (final_state == JobState::kSucceeded) {
    last.exit_code = 0;
    last.reason.clear();
  } else if (last.exit_code == 0) {
    last.exit_code = 1;  // a service or a shard that ended by itself, with code 0
  }
  ending_ = true;
  JobEnded ended{last};  // before the move below: arguments are evaluated in no fixed order
  record_event(std::move(ended), {JobToCoordinator{JobOver{std::move(last)}}});
}

void JobCore::set_want(std::size_t index, Want want, Now now) {
  Task& task = tasks_[index];
  if (task.want >= want || task.state == TaskState::kEnded) return;
  task.want = want;
  task.resend_at = now.at;
  task.resend_after = Duration::zero();
  due_at_ = now.at;
}

bool JobCore::satisfied(const Task& task) const {
  if (task.state == TaskState::kEnded || task.failed) return true;
  if (task.unverified && task.want != Want::kNothing) return false;
  switch (task.want) {
    case Want::kNothing:
      return true;
    case Want::kPrepared:
      return task.state >= TaskState::kPrepared;
    case Want::kStarted: {
      const std::size_t index = static_cast<std::size_t>(&task - tasks_.data());
      return task.state >= ready_state(index);
    }
    case Want::kEnded:
      return false;
  }
  return true;
}

bool JobCore::may_start(const RoleSpec& role) const {
  return std::all_of(role.after.begin(), role.after.end(), [&](const std::string& name) {
    const auto first = record_.index.find(name, 0);
    return !first || roles_[record_.index.role_at(*first)].unready == 0;
  });
}

bool JobCore::all_in(TaskState least) const {
  return std::all_of(in_state_.begin(), in_state_.begin() + static_cast<std::ptrdiff_t>(least),
                     [](std::uint32_t tasks) { return tasks == 0; });
}

void JobCore::set_task_state(std::size_t index, TaskState state) {
  TaskState& now = tasks_[index].state;
  Role& role = roles_[record_.index.role_at(index)];
  const TaskState ready = ready_state(index);
  if (now < ready && state >= ready) --role.unready;
  if (now != TaskState::kEnded && state == TaskState::kEnded) --role.live;
  --in_state_[static_cast<std::size_t>(now)];
  ++in_state_[static_cast<std::size_t>(state)];
  now = state;
}

void JobCore::count_tasks() {
  roles_.assign(tasks_.empty() ? 0 : record_.spec->roles.size(), {});
  in_state_ = {};
  in_state_[static_cast<std::size_t>(TaskState::kWaiting)] =
      static_cast<std::uint32_t>(tasks_.size());
  failed_ = 0;
  for (std::size_t r = 0; r < roles_.size(); ++r)
    roles_[r].live = roles_[r].unready =
        static_cast<std::uint32_t>(record_.index.range_of(r).size());
}

TaskState JobCore::ready_state(std::size_t index) const {
  const bool told = is_shard_host(index) || record_.role_of(index).ready != ReadyWhen::kRunning;
  return told ? TaskState::kReady : TaskState::kRunning;
}

void JobCore::set_state(JobState state) {
  if (state_ == state) return;
  state_ = state;
  report_now_ = true;
}

void JobCore::record_event(Event event, std::vector<JobEffect> then) {
  std::vector<Event> events;
  events.push_back(std::move(event));
  record_events(std::move(events), std::move(then));
}

void JobCore::record_events(std::vector<Event> events, std::vector<JobEffect> then) {
  bool grows = false;
  for (const Event& event : events) {
    grows = grows || std::holds_alternative<SplitsLeased>(event) ||
            std::holds_alternative<BarrierMet>(event);
    record_.apply(event);
  }
  record_.ledger_ops.clear();  // applied already; kept during replay only
  gate_.stage({record_.id, false, std::move(events), std::move(then), {}});
  // Not after an end: what the task held is given back only then. Not without a ledger that should
  // be there: its state would be lost for good.
  const std::uint64_t after = std::max(settings_.snapshot_after, record_.snapshot_weight);
  if (grows && !ledger_error_ && record_.since_snapshot >= after) record_event(snapshot());
}

}  // namespace dlrun::cluster
