#include "runtime/cluster/core/agent_core.h"

#include <algorithm>

#include "runtime/base/assert.h"

namespace dlrun::cluster {

namespace {

std::string key_of(const char* kind, const TaskId& task, const std::string& name,
                   std::uint64_t number) {
  return std::string(kind) + "|" + to_string(task) + "|" + name + "|" + std::to_string(number);
}
std::string barrier_key(const TaskId& task, const std::string& name, std::uint64_t round) {
  return key_of("barrier", task, name, round);
}
std::string commit_key(const TaskId& task, std::uint64_t id) {
  return key_of("commit", task, "", id);
}
std::string request_key(const TaskId& task, std::uint64_t request) {
  return key_of("lease", task, "", request);
}

const TaskId* task_of(const FromAgent& message) {
  if (const auto* m = std::get_if<BarrierArrive>(&message)) return &m->task;
  if (const auto* m = std::get_if<InputFiles>(&message)) return &m->task;
  if (const auto* m = std::get_if<LeaseSplits>(&message)) return &m->task;
  if (const auto* m = std::get_if<CommitInputs>(&message)) return &m->task;
  return nullptr;
}

bool tells_done(const FromAgent& message) {
  const auto* lease = std::get_if<LeaseSplits>(&message);
  return lease != nullptr && !lease->done.empty();
}

}  // namespace

AgentCore::AgentCore(AgentSettings settings) : settings_(std::move(settings)) {}

// ---- the link

void AgentCore::recover(const FoundTask& found) {
  Task task;
  task.prepare = found.task;
  task.start = found.start;
  task.pid = found.pid;
  if (found.ready) task.ready = *found.ready;
  const bool started = found.start.has_value();
  task.state = !started      ? TaskState::kPrepared
               : found.ready ? TaskState::kReady
                             : TaskState::kRunning;
  if (found.end) {
    task.state = TaskState::kEnded;
    task.end = *found.end;
  }
  Epoch& newest = newest_epoch_[found.task.task.job];
  newest = std::max(newest, found.task.epoch);
  tasks_[found.task.task] = std::move(task);
}

AgentEffects AgentCore::start(Now now) {
  for (auto& [id, task] : tasks_)
    if (task.state == TaskState::kEnded) {
      task.resend_after = settings_.resend;
      task.resend_at = now.at + task.resend_after;
    }
  register_now(now);
  return take();
}

void AgentCore::register_now(Now now) {
  if (register_after_ == Duration::zero()) answer_from_ = register_sequence_ + 1;
  Register message{
      settings_.node,    settings_.incarnation, settings_.address, settings_.capacity, {},
      settings_.version, ++register_sequence_};
  for (const auto& [id, task] : tasks_) message.tasks.push_back(update_of(task));
  out_.push_back(SendToCoordinator{std::move(message)});
  register_after_ = register_after_ == Duration::zero()
                        ? settings_.register_retry_first
                        : std::min(register_after_ * 2, settings_.register_retry_max);
  register_at_ = now.at + register_after_;
}

void AgentCore::unregister(Now now) {
  if (!registered_) return;
  registered_ = false;
  register_after_ = Duration::zero();
  register_now(now);
}

AgentEffects AgentCore::on_link_up(Now now) {
  registered_ = false;
  register_after_ = Duration::zero();
  register_now(now);
  return take();
}

AgentEffects AgentCore::on_link_down(Now now) {
  if (registered_) {
    registered_ = false;
    register_after_ = Duration::zero();
    register_at_ = now.at + settings_.register_retry_first;
  }
  return take();
}

AgentEffects AgentCore::on_message(const ToAgent& message, Now now) {
  // a process that was stopped wakes up late
  if (registered_ && now.at >= ack_deadline_) unregister(now);
  std::visit([&](const auto& m) { on(m, now); }, message);
  pass_arrivals_on(now);
  return take();
}

void AgentCore::on(const RegisterAck& message, Now now) {
  if (message.term < term_ || message.sequence < answer_from_) return;
  const bool news = !registered_ || message.term != term_;
  term_ = message.term;
  epoch_floor_ = std::max(epoch_floor_, message.epoch_floor);
  lease_ = message.lease;
  heartbeat_ = message.heartbeat;
  registered_ = true;
  register_after_ = Duration::zero();
  ack_deadline_ = now.at + lease_ / 2;
  heartbeat_at_ = now.at + heartbeat_;
  for (const TaskId& id : message.unknown_tasks) {
    const auto it = tasks_.find(id);
    if (it != tasks_.end() && it->second.state != TaskState::kEnded)
      stop(it->second, Duration{0}, Cause::kCoordinator, now);
  }
  if (!news) return;
  out_.push_back(ShipLogsTo{message.log_endpoint, message.log_key});
  for (auto& [key, pending] : pending_) {  // what was said while the link was down
    out_.push_back(SendToCoordinator{pending.message});
    pending.resend_after = settings_.resend;
    pending.resend_at = now.at + pending.resend_after;
  }
}

void AgentCore::on(const HeartbeatAck& message, Now now) {
  if (message.term < term_) return;
  if (!message.known || message.term > term_) {
    unregister(now);
    return;
  }
  ack_deadline_ = now.at + lease_ / 2;
}

AgentEffects AgentCore::on_tick(Now now) {
  if (!registered_) {
    if (now.at >= register_at_) register_now(now);
    return take();
  }
  if (now.at >= ack_deadline_) {
    unregister(now);
    return take();
  }
  if (now.at >= heartbeat_at_) {
    out_.push_back(
        SendToCoordinator{Heartbeat{settings_.node, settings_.incarnation, ++heartbeat_sequence_}});
    heartbeat_at_ = now.at + heartbeat_;
  }
  for (auto& [id, task] : tasks_) {
    if (now.at >= task.progress_at) say_progress(task, now);
    if (task.state != TaskState::kEnded || now.at < task.resend_at) continue;
    update(task);
    task.resend_after = std::min(task.resend_after * 2, settings_.resend_max);
    task.resend_at = now.at + task.resend_after;
  }
  for (auto& [key, pending] : pending_) {
    if (now.at < pending.resend_at) continue;
    out_.push_back(SendToCoordinator{pending.message});
    pending.resend_after = std::min(pending.resend_after * 2, settings_.resend_max);
    pending.resend_at = now.at + pending.resend_after;
  }
  return take();
}

std::optional<TimePoint> AgentCore::next_wake() const {
  std::optional<TimePoint> wake;
  if (!registered_) {
    earlier(wake, register_at_);
    return wake;
  }
  earlier(wake, ack_deadline_);
  earlier(wake, heartbeat_at_);
  for (const auto& [id, task] : tasks_) {
    if (task.state == TaskState::kEnded) earlier(wake, task.resend_at);
    if (task.progress) earlier(wake, task.progress_at);
  }
  for (const auto& [key, pending] : pending_) earlier(wake, pending.resend_at);
  return wake;
}

// ---- commands

AgentCore::Task* AgentCore::find(const TaskId& id, Epoch epoch) {
  const auto it = tasks_.find(id);
  return it != tasks_.end() && it->second.prepare.epoch == epoch ? &it->second : nullptr;
}

void AgentCore::unknown(const TaskId& task, Epoch epoch) {
  TaskUpdate update;
  update.task = task;
  update.epoch = epoch;
  update.state = TaskState::kEnded;
  update.end.cause = Cause::kShimLost;
  update.end.detail = "not known to the agent of " + settings_.node.value;
  out_.push_back(SendToCoordinator{std::move(update)});
}

void AgentCore::on(const PrepareTask& message, Now now) {
  if (!registered_) return;
  if (Task* task = find(message.task, message.epoch)) return update(*task);
  const bool over =
      tombstones_.count({message.task, message.epoch}) != 0 && !settings_.bugs.has("no_tombstones");
  Epoch& newest = newest_epoch_[message.task.job];
  if (over || message.epoch < newest || message.epoch < epoch_floor_)
    return unknown(message.task, message.epoch);
  newest = message.epoch;
  Task& task = tasks_[message.task];
  task = {};
  task.prepare = message;
  if (tasks_.size() > settings_.tasks_max) {
    end(task,
        TaskEnd{.cause = Cause::kStartFailed,
                .detail = settings_.node.value + " holds too many tasks"},
        now);
    return;
  }
  out_.push_back(PrepareDir{message});
}

void AgentCore::on(const StartTask& message, Now) {
  if (!registered_) return;
  Task* task = find(message.task, message.epoch);
  if (task == nullptr) return unknown(message.task, message.epoch);
  if (!task->start) task->start = message;
  const bool fresh =
      task->state == TaskState::kPrepared && !task->spawning && task->stop_cause == Cause::kNone;
  if (fresh) return spawn(*task);
  update(*task);
}

void AgentCore::spawn(Task& task) {
  task.spawning = true;
  StartTask start = task.start.value_or(StartTask{task.prepare.task, task.prepare.epoch, {}, {}});
  out_.push_back(SpawnShim{task.prepare, std::move(start)});
}

void AgentCore::on(const StopTask& message, Now now) {
  Task* task = find(message.task, message.epoch);
  if (task == nullptr) {
    if (tasks_.count(message.task) == 0) {  // also one that is still on its way: it shall not start
      remember_gone(message.task, message.epoch);
    }
    return unknown(message.task, message.epoch);
  }
  if (task->state == TaskState::kEnded) return update(*task);
  stop(*task, message.grace, message.cause, now);
}

void AgentCore::stop(Task& task, Duration grace, Cause cause, Now now) {
  const bool again = task.stop_cause != Cause::kNone;
  if (again && grace >= task.stop_grace) return;  // on its way already
  if (!again) task.stop_cause = cause;
  task.stop_grace = grace;
  const bool runs = task.spawning || task.state >= TaskState::kRunning;
  if (runs) {
    if (task.state >= TaskState::kRunning)
      out_.push_back(SignalShim{task.prepare.task, grace, task.stop_cause});
    // while spawning: on_started signals it
    return;
  }
  end(task, TaskEnd{.cause = task.stop_cause, .signal = 15, .detail = "stopped before it ran"},
      now);
}

void AgentCore::on(const WorkerGone& message, Now) {
  Task* task = find(message.shard_task, message.epoch);
  if (task != nullptr && task->state >= TaskState::kRunning && task->state != TaskState::kEnded)
    out_.push_back(DeliverWorkerGone{message.shard_task, message.worker});
  out_.push_back(
      SendToCoordinator{WorkerGoneAck{message.shard_task, message.worker, message.epoch}});
}

void AgentCore::on(const BarrierDone& message, Now) {
  if (find(message.task, message.epoch) == nullptr) return;
  if (pending_.erase(barrier_key(message.task, message.name, message.round)) != 0)
    out_.push_back(DeliverBarrier{message.task, message.name, message.round});
}

void AgentCore::on(const LeaseReply& message, Now) {
  if (pending_.erase(request_key(message.task, message.request)) == 0) return;
  out_.push_back(DeliverLease{message});
  tell_end_when_all_is_told(message.task, message.epoch);
}

void AgentCore::on(const CommitDone& message, Now) {
  if (pending_.erase(commit_key(message.task, message.id)) != 0)
    out_.push_back(DeliverCommit{message});
}

void AgentCore::tell_end_when_all_is_told(const TaskId& id, Epoch epoch) {
  const Task* task = find(id, epoch);
  if (task != nullptr && task->state == TaskState::kEnded && !splits_pending(id)) update(*task);
}

void AgentCore::on(const CommitOutputs& message, Now) {
  const auto newest = newest_epoch_.find(message.task.job);
  const bool over = message.epoch < epoch_floor_ ||
                    (newest != newest_epoch_.end() && message.epoch < newest->second);
  if (over)
    return out_.push_back(SendToCoordinator{
        OutputsCommitted{message.task, message.epoch, Errc::kStaleEpoch, "its epoch is over"}});
  const auto [at, fresh] = publishing_.try_emplace({message.task, message.epoch}, 0);
  if (fresh)
    out_.push_back(PublishOutputs{message});
  else
    out_.push_back(
        SendToCoordinator{OutputsCommitted{message.task, message.epoch, {}, "", true, at->second}});
}

AgentEffects AgentCore::on_publishing(const TaskId& task, Epoch epoch, std::uint64_t progress,
                                      Now) {
  if (const auto it = publishing_.find({task, epoch}); it != publishing_.end())
    it->second = progress;
  return take();
}

AgentEffects AgentCore::on_published(const TaskId& task, Epoch epoch, const Status& status, Now) {
  publishing_.erase({task, epoch});
  out_.push_back(
      SendToCoordinator{OutputsCommitted{task, epoch, status ? Errc{} : status.error().code,
                                         status ? std::string() : status.error().context}});
  return take();
}

void AgentCore::on(const TaskEndAck& message, Now) {
  Task* task = find(message.task, message.epoch);
  if (task == nullptr || task->state != TaskState::kEnded) return;
  out_.push_back(CleanTask{message.task});
  tasks_.erase(message.task);
  remember_gone(message.task, message.epoch);
}

void AgentCore::remember_gone(const TaskId& task, Epoch epoch) {
  const std::pair<TaskId, Epoch> gone{task, epoch};
  if (tombstones_.insert(gone).second) tombstone_order_.push_back(gone);
  while (tombstone_order_.size() > settings_.tombstones_max) {
    tombstones_.erase(tombstone_order_.front());
    tombstone_order_.pop_front();
  }
  // The oldest jobs first; those of which something runs here stay.
  for (auto it = newest_epoch_.begin();
       newest_epoch_.size() > settings_.tombstones_max && it != newest_epoch_.end();) {
    const auto first = tasks_.lower_bound(TaskId{it->first, "", 0, {}});
    const bool in_use = first != tasks_.end() && first->first.job == it->first;
    it = in_use ? std::next(it) : newest_epoch_.erase(it);
  }
}

// ---- from shims and directories

AgentEffects AgentCore::on_prepared(const TaskId& id, const Status& status, Now now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.state != TaskState::kPreparing) return take();
  Task& task = it->second;
  if (!status) {
    end(task, TaskEnd{.cause = Cause::kStartFailed, .detail = status.error().context}, now);
    return take();
  }
  task.state = TaskState::kPrepared;
  if (task.prepare.start_at_once || task.start)
    spawn(task);
  else
    update(task);
  return take();
}

AgentEffects AgentCore::on_started(const TaskId& id, std::int64_t pid, Now,
                                   const std::string& warning) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.state == TaskState::kEnded) return take();
  Task& task = it->second;
  const bool news = task.state < TaskState::kRunning || task.pid != pid || task.warning != warning;
  task.pid = pid;
  task.warning = warning;
  runs(task, TaskState::kRunning);
  if (news) update(task);
  return take();
}

/// Its shim says so, or the program itself: whichever is heard first. A stop that was asked while
/// it was being started is carried out now.
void AgentCore::runs(Task& task, TaskState state) {
  const bool first = task.state < TaskState::kRunning;
  task.spawning = false;
  task.state = std::max(task.state, state);
  if (first && task.stop_cause != Cause::kNone)
    out_.push_back(SignalShim{task.prepare.task, task.stop_grace, task.stop_cause});
}

AgentEffects AgentCore::on_exit(const TaskId& id, const TaskEnd& how, Now now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.state == TaskState::kEnded) return take();
  end(it->second, how, now);
  pass_arrivals_on(now);
  return take();
}

/// A program that a stop ended by its signal ended for the stop's cause; one that ended by itself
/// keeps its own.
void AgentCore::end(Task& task, TaskEnd how, Now now) {
  if (task.stop_cause != Cause::kNone && how.cause == Cause::kSignal) how.cause = task.stop_cause;
  say_progress(task, now);  // the last word of a program is told too
  task.progress.reset();
  task.spawning = false;
  task.arrivals.clear();
  task.state = TaskState::kEnded;
  task.end = std::move(how);
  task.resend_after = settings_.resend;
  task.resend_at = now.at + task.resend_after;
  const TaskId& id = task.prepare.task;
  std::erase_if(pending_, [&](const auto& entry) {
    const TaskId* of = task_of(entry.second.message);
    return of != nullptr && *of == id && !tells_done(entry.second.message);
  });
  // what the coordinator must still learn of a task that ended: that its splits are done
  for (auto& [key, pending] : pending_)
    if (auto* lease = std::get_if<LeaseSplits>(&pending.message); lease && lease->task == id) {
      lease->splits_max = 0;
      lease->resync = false;
      lease->held.clear();
    }
  update(task);
}

TaskUpdate AgentCore::update_of(const Task& task) const {
  TaskUpdate update;
  update.task = task.prepare.task;
  update.epoch = task.prepare.epoch;
  update.state = task.state;
  // its end waits until what it finished reading is recorded: else its splits would be read again
  if (task.state == TaskState::kEnded && splits_pending(task.prepare.task))
    update.state = TaskState::kStopping;
  if (update.state == TaskState::kEnded) update.end = task.end;
  update.ready = task.ready;
  update.pid = task.pid;
  update.warning = task.warning;
  return update;
}

bool AgentCore::splits_pending(const TaskId& id) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const auto& entry) {
    const TaskId* of = task_of(entry.second.message);
    return of != nullptr && *of == id && tells_done(entry.second.message);
  });
}

void AgentCore::update(const Task& task) { out_.push_back(SendToCoordinator{update_of(task)}); }

// ---- from processes

AgentEffects AgentCore::on_ready(const TaskId& id, const TaskReadyInfo& info, Now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.state == TaskState::kEnded) return take();
  it->second.ready = info;
  runs(it->second, TaskState::kReady);
  update(it->second);
  return take();
}

void AgentCore::say_progress(Task& task, Now now) {
  if (!task.progress || !registered_) return;
  out_.push_back(SendToCoordinator{std::move(*task.progress)});
  task.progress.reset();
  task.progress_at = now.at + settings_.progress_interval;
}

AgentEffects AgentCore::on_progress(const TaskId& id, double fraction, const std::string& text,
                                    Now now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.state == TaskState::kEnded) return take();
  Task& task = it->second;
  task.progress = Progress{id, task.prepare.epoch, fraction, text};
  if (now.at >= task.progress_at) say_progress(task, now);
  return take();
}

AgentEffects AgentCore::on_barrier(const TaskId& id, const std::string& name, std::uint64_t round,
                                   Now now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.state == TaskState::kEnded) return take();
  Task& task = it->second;
  if (repeat(barrier_key(id, name, round), BarrierArrive{id, task.prepare.epoch, name, round}, now))
    return take();
  const bool kept = task.arrivals.count(name) != 0 || task.arrivals.size() < kArrivalsMax;
  if (kept) task.arrivals[name] = round;
  with_arrivals_.insert(id);
  const std::string why = "its node has " + std::to_string(settings_.requests_max) +
                          " requests open: an arrival at a barrier " +
                          (kept ? "waits for room" : "was not passed on");
  if (task.warning != why) {
    task.warning = why;
    update(task);
  }
  return take();
}

void AgentCore::pass_arrivals_on(Now now) {
  for (auto id = with_arrivals_.begin();
       id != with_arrivals_.end() && pending_.size() < settings_.requests_max;) {
    const auto it = tasks_.find(*id);
    if (it == tasks_.end() || it->second.arrivals.empty()) {
      id = with_arrivals_.erase(id);
      continue;
    }
    Task& task = it->second;
    const auto first = task.arrivals.begin();
    repeat(barrier_key(*id, first->first, first->second),
           BarrierArrive{*id, task.prepare.epoch, first->first, first->second}, now);
    task.arrivals.erase(first);
  }
}

AgentEffects AgentCore::on_files(const TaskId& consumer, const std::string& input,
                                 std::vector<io::FileEntry> files, std::uint64_t request, Now now) {
  const auto it = tasks_.find(consumer);
  if (it == tasks_.end() || it->second.state == TaskState::kEnded) {
    out_.push_back(DeliverLease{LeaseReply{
        consumer, {}, request, Errc::kStaleEpoch, to_string(consumer) + " does not run here", {}}});
    return take();
  }
  // As with leases: an older request has been given up.
  std::erase_if(pending_, [&](const auto& entry) {
    const auto* older = std::get_if<InputFiles>(&entry.second.message);
    return older != nullptr && older->task == consumer && older->input == input &&
           older->request != request;
  });
  const Epoch epoch = it->second.prepare.epoch;
  if (!repeat(request_key(consumer, request),
              InputFiles{consumer, epoch, input, std::move(files), request}, now))
    refuse(consumer, epoch, request);
  return take();
}

AgentEffects AgentCore::on_lease(const TaskId& consumer, const std::string& input,
                                 std::uint32_t splits_max, std::uint64_t request, bool resync,
                                 std::vector<io::SplitKey> held, std::vector<io::SplitKey> done,
                                 Now now, std::vector<io::StepReport> steps) {
  const auto it = tasks_.find(consumer);
  if (it == tasks_.end() || (it->second.state == TaskState::kEnded && splits_max > 0)) {
    out_.push_back(DeliverLease{LeaseReply{
        consumer, {}, request, Errc::kStaleEpoch, to_string(consumer) + " does not run here", {}}});
    return take();
  }
  // The feeder asks one at a time: an older request has been given up, and said late its resync
  // would undo this one.
  std::erase_if(pending_, [&](const auto& entry) {
    const auto* older = std::get_if<LeaseSplits>(&entry.second.message);
    return older != nullptr && older->task == consumer && older->input == input &&
           older->request != request;
  });
  const Epoch epoch = it->second.prepare.epoch;
  if (!repeat(request_key(consumer, request),
              LeaseSplits{consumer, epoch, input, splits_max, request, resync, std::move(held),
                          std::move(done), std::move(steps)},
              now))
    refuse(consumer, epoch, request);
  return take();
}

AgentEffects AgentCore::on_commit(const TaskId& id, std::uint64_t commit, std::string tag,
                                  std::vector<io::InputCursor> inputs, Now now) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.state == TaskState::kEnded) {
    out_.push_back(DeliverCommit{
        CommitDone{id, {}, commit, 0, Errc::kStaleEpoch, to_string(id) + " does not run here"}});
    return take();
  }
  std::erase_if(pending_, [&](const auto& entry) {
    const auto* older = std::get_if<CommitInputs>(&entry.second.message);
    return older != nullptr && older->task == id && older->id != commit;
  });
  const Epoch epoch = it->second.prepare.epoch;
  if (!repeat(commit_key(id, commit),
              CommitInputs{id, epoch, commit, std::move(tag), std::move(inputs)}, now))
    out_.push_back(DeliverCommit{
        CommitDone{id, epoch, commit, 0, Errc::kOverloaded,
                   "this node has " + std::to_string(settings_.requests_max) + " requests open"}});
  return take();
}

bool AgentCore::repeat(std::string key, FromAgent message, Now now) {
  if (pending_.size() >= settings_.requests_max && pending_.count(key) == 0) return false;
  if (registered_) out_.push_back(SendToCoordinator{message});
  pending_[std::move(key)] =
      Pending{std::move(message), now.at + settings_.resend, settings_.resend};
  return true;
}

void AgentCore::refuse(const TaskId& consumer, Epoch epoch, std::uint64_t request) {
  out_.push_back(DeliverLease{
      LeaseReply{consumer,
                 epoch,
                 request,
                 Errc::kOverloaded,
                 "this node has " + std::to_string(settings_.requests_max) + " requests open",
                 {}}});
}

AgentEffects AgentCore::take() {
  AgentEffects out = std::move(out_);
  out_.clear();
  return out;
}

}  // namespace dlrun::cluster
