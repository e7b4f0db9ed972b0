#include "runtime/cluster/core/coordinator_core.h"

#include <algorithm>

#include "runtime/base/assert.h"
#include "runtime/base/overload.h"

namespace dlrun::cluster {

namespace {

/// The task and epoch that a message is about; nullptr for Register and Heartbeat.
const TaskId* task_in(const FromAgent& message, Epoch& epoch) {
  return std::visit(Overload{[](const Register&) -> const TaskId* { return nullptr; },
                             [](const Heartbeat&) -> const TaskId* { return nullptr; },
                             [&](const WorkerGoneAck& m) -> const TaskId* {
                               epoch = m.epoch;
                               return &m.shard_task;
                             },
                             [&](const auto& m) -> const TaskId* {
                               epoch = m.epoch;
                               return &m.task;
                             }},
                    message);
}

}  // namespace

CoordinatorCore::CoordinatorCore(CoordinatorSettings settings, sched::Placer& placer)
    : settings_(std::move(settings)),
      placer_(placer),
      membership_(settings_.membership),
      gate_(settings_.persist_retry) {}

// ---- replay

void CoordinatorCore::apply(const Event& event) {
  DLRUN_ASSERT(phase_ == Phase::kReplaying);
  if (const auto* e = std::get_if<TermStarted>(&event)) {
    term_ = std::max(term_, e->term);
  } else if (const auto* e = std::get_if<Baseline>(&event)) {
    term_ = std::max(term_, e->term);
    last_job_ = std::max(last_job_, e->last_job);
    jobs_finished_ = e->jobs_finished;
    for (const SeenKey& key : e->keys) remember_key(key);
  } else if (const auto* e = std::get_if<NodeJoined>(&event)) {
    replayed_nodes_[e->node] = *e;
  } else if (const auto* e = std::get_if<JobSubmitted>(&event)) {
    last_job_ = std::max(last_job_, e->job);
    replayed_.emplace(e->job, JobRecord(*e, std::make_shared<const JobSpec>(e->spec)));
    if (!e->key.empty()) remember_key({e->key, e->job, e->fingerprint});
  } else if (const auto* e = std::get_if<JobEnded>(&event)) {
    last_job_ = std::max(last_job_, e->view.id);
    replayed_.erase(e->view.id);
    ++jobs_finished_;
    finished_.push_back(e->view);
    if (finished_.size() > settings_.finished_cache_max) finished_.pop_front();
  } else if (const auto it = replayed_.find(job_of(event)); it != replayed_.end()) {
    it->second.apply(event);
  }
}

CoordinatorEffects CoordinatorCore::start(Now now) {
  DLRUN_ASSERT(phase_ == Phase::kReplaying);
  phase_ = Phase::kClaiming;
  if (!settings_.bugs.has("term_not_raised")) ++term_;
  stage({}, {TermStarted{term_}}, {});
  return flush(now);
}

void CoordinatorCore::claimed(Now now) {
  phase_ = Phase::kReconciling;
  std::set<NodeId> referenced;
  std::set<NodeId> awaited;
  for (const auto& [id, record] : replayed_)
    for (std::size_t i = 0; i < record.tasks.size(); ++i) {
      referenced.insert(record.tasks[i].slot.node);
      if (record.ends.count(i) == 0) awaited.insert(record.tasks[i].slot.node);
    }
  for (const NodeId& node : referenced) {
    NodeJoined joined;
    if (const auto it = replayed_nodes_.find(node); it != replayed_nodes_.end())
      joined = it->second;
    joined.node = joined.capacity.node = node;
    placer_.add_node(joined.capacity);
    placer_.set_schedulable(node, false, "not heard since the coordinator restarted");
    if (awaited.count(node) != 0) membership_.await(joined, now);
  }
  for (auto& [id, record] : replayed_) rebuild(std::move(record), now);
  for (const NodeId& node : referenced)
    if (awaited.count(node) == 0) placer_.remove_node(node);
  replayed_.clear();
  replayed_nodes_.clear();
  begin_serving_when_all_are_heard(now);
}

void CoordinatorCore::rebuild(JobRecord record, Now now) {
  LiveJob& job = jobs_[record.id];
  job.spec = record.spec;
  job.submitted = now.at;
  job.generation = record.generation;
  job.epoch = record.epoch;
  job.tasks = record.tasks;
  job.index = record.index;
  job.durable = true;
  job.kill_requested = record.kill_requested;
  job.held = record.held;
  job.held_why = record.held_why;
  job.queued = now.at;
  job.view.id = record.id;
  job.view.submitted = record.submitted;
  job.view.generation = record.generation;
  for (const auto& [index, ended] : record.ends)
    if (ended.end.cause == Cause::kNodeLost) job.lost_nodes.insert(record.tasks[index].slot.node);
  if (record.tasks.empty()) {
    job.needs_placement = !record.kill_requested && !record.held;
    job.view.state = record.held ? JobState::kHeld : JobState::kPending;
  } else {
    const auto [gang, placement] = gang_of(record, now.at);
    const Status adopted = placer_.adopt(gang, placement);
    if (!adopted && !record.kill_requested) {
      JobKillRequested kill{
          record.id, "its placement could not be taken over: " + adopted.error().context, now.wall};
      job.kill_requested = true;
      stage(record.id, {kill}, {ToJob{record.id, Kill{kill}}});
    }
  }
  out_.push_back(StartJob{std::move(record), true});
}

void CoordinatorCore::begin_serving_when_all_are_heard(Now now) {
  if (phase_ != Phase::kReconciling || membership_.awaiting()) return;
  phase_ = Phase::kServing;
  for (auto& [id, job] : jobs_)
    if (job.needs_placement) queue_gang(id, job);
  place_ready(now);
}

Baseline CoordinatorCore::baseline() const {
  Baseline base{term_, last_job_, jobs_finished_, {}};
  for (const std::string& key : key_order_) base.keys.push_back(keys_.at(key));
  return base;
}

void CoordinatorCore::remember_key(SeenKey key) {
  const std::string name = key.key;
  if (!keys_.insert_or_assign(name, std::move(key)).second) return;
  key_order_.push_back(name);
  if (key_order_.size() <= settings_.keys_max) return;
  keys_.erase(key_order_.front());
  key_order_.pop_front();
}

// ---- agents

CoordinatorEffects CoordinatorCore::on_agent(const NodeId& from, Incarnation incarnation,
                                             const FromAgent& message, Now now) {
  if (phase_ < Phase::kReconciling) return flush(now);  // agents ask again
  if (const auto* m = std::get_if<Register>(&message)) {
    on_register(*m, now);
    return flush(now);
  }
  std::optional<NodeChange> change;
  const bool known = membership_.on_heard(from, incarnation, now, change);
  if (change) node_changed(*change, now);
  if (const auto* m = std::get_if<Heartbeat>(&message)) {
    out_.push_back(SendToAgent{from, HeartbeatAck{term_, m->sequence, known}});
  } else if (!known) {
    const Membership::Node* node = membership_.find(from);
    const bool retired = node != nullptr && std::find(node->retired.begin(), node->retired.end(),
                                                      incarnation) != node->retired.end();
    if (!retired) out_.push_back(SendToAgent{from, HeartbeatAck{term_, 0, false}});
  } else {
    Epoch epoch;
    const TaskId* task = task_in(message, epoch);
    DLRUN_ASSERT(task != nullptr);
    route(from, *task, epoch, message, now);
  }
  return flush(now);
}

void CoordinatorCore::on_register(const Register& message, Now now) {
  const Membership::Joined joined = membership_.on_register(message, now);
  if (joined == Membership::Joined::kRefused) return;
  const NodeId& node = message.node;
  RegisterAck ack;
  ack.term = term_;
  ack.lease = settings_.membership.lost_after;
  ack.heartbeat = settings_.membership.heartbeat;
  ack.log_endpoint = settings_.log_endpoint;
  ack.log_key = settings_.log_key;
  std::set<std::pair<TaskId, Epoch>> stale;
  std::map<JobId, std::vector<TaskUpdate>> reported;
  for (const TaskUpdate& update : message.tasks) {
    if (task_is_live(update.task, update.epoch, node)) {
      reported[update.task.job].push_back(update);
    } else if (update.state == TaskState::kEnded) {
      acknowledge_end(node, update);
    } else {
      stale.insert({update.task, update.epoch});
      if (!settings_.bugs.has("unknown_tasks_left_running"))
        ack.unknown_tasks.push_back(update.task);
    }
  }
  placer_.add_node(membership_.find(node)->capacity);
  if (joined != Membership::Joined::kSame) {
    const Membership::Node& now_known = *membership_.find(node);
    stage({},
          {NodeJoined{node, message.incarnation, message.address, message.version,
                      now_known.capacity}},
          {});
  }
  if (settings_.bugs.has("returning_node_not_fenced") ||
      settings_.bugs.has("unknown_tasks_left_running"))
    stale.clear();
  fence(node, stale, now);
  if (joined == Membership::Joined::kBack &&
      // what the log shows between lost and up
      membership_.find(node)->state == NodeState::kFenced)
    node_changed({node, NodeState::kFenced, "ends what it runs under epochs that are over"}, now);
  const Membership::Node& known = *membership_.find(node);
  placer_.set_schedulable(node, known.state == NodeState::kUp, std::string(to_string(known.state)));
  ack.sequence = message.sequence;
  ack.epoch_floor = lowest_live_epoch(node);
  out_.push_back(SendToAgent{node, std::move(ack)});
  const bool new_process = joined != Membership::Joined::kSame;
  for (auto& [id, job] : jobs_) {
    const bool here = job.index.uses(node);
    if (here && job.lost_nodes.count(node) == 0)
      out_.push_back(
          ToJob{id, NodeBack{node, message.address, std::move(reported[id]), new_process}});
  }
  begin_serving_when_all_are_heard(now);
  place_ready(now);
}

Epoch CoordinatorCore::lowest_live_epoch(const NodeId& node) const {
  Epoch lowest{term_, epoch_counter_ + 1};
  for (const auto& [id, job] : jobs_) {
    if (job.epoch == Epoch{} || job.epoch >= lowest || job.lost_nodes.count(node) != 0) continue;
    const bool here = job.index.uses(node);
    if (here) lowest = job.epoch;
  }
  return lowest;
}

bool CoordinatorCore::task_is_live(const TaskId& task, Epoch epoch, const NodeId& node) const {
  const auto it = jobs_.find(task.job);
  if (it == jobs_.end()) return false;
  const LiveJob& job = it->second;
  if (job.epoch != epoch || job.lost_nodes.count(node) != 0) return false;
  const auto at = job.index.find(task.role, task.rank);
  return at && job.tasks[*at].task == task && job.tasks[*at].slot.node == node;
}

void CoordinatorCore::route(const NodeId& from, const TaskId& task, Epoch epoch,
                            const FromAgent& message, Now now) {
  const bool stale_wanted =
      (settings_.bugs.has("accept_stale_lease") && std::holds_alternative<LeaseSplits>(message)) ||
      (settings_.bugs.has("accept_stale_update") && std::holds_alternative<TaskUpdate>(message));
  const bool to_job =
      task_is_live(task, epoch, from) || (stale_wanted && jobs_.count(task.job) != 0);
  if (to_job)
    out_.push_back(ToJob{task.job, TaskMessage{from, message}});
  else
    refuse_stale(from, message, now);
}

void CoordinatorCore::refuse_stale(const NodeId& from, const FromAgent& message, Now now) {
  const std::string why = "its epoch is over";
  std::visit(
      Overload{[&](const TaskUpdate& m) {
                 if (m.state != TaskState::kEnded) {
                   fence(from, {{m.task, m.epoch}}, now);
                   out_.push_back(SendToAgent{
                       from, StopTask{m.task, m.epoch, Duration{0}, Cause::kCoordinator}});
                   return;
                 }
                 acknowledge_end(from, m);
                 if (membership_.fenced_task_ended(from, m.task, m.epoch))
                   node_changed({from, NodeState::kUp, "what ran there has ended"}, now);
               },
               [&](const LeaseSplits& m) {
                 out_.push_back(SendToAgent{
                     from, LeaseReply{m.task, m.epoch, m.request, Errc::kStaleEpoch, why, {}}});
               },
               [&](const CommitInputs& m) {
                 out_.push_back(SendToAgent{
                     from, CommitDone{m.task, m.epoch, m.id, 0, Errc::kStaleEpoch, why}});
               },
               [&](const InputFiles& m) {
                 out_.push_back(SendToAgent{
                     from, LeaseReply{m.task, m.epoch, m.request, Errc::kStaleEpoch, why, {}}});
               },
               [](const auto&) {}},
      message);
}

void CoordinatorCore::acknowledge_end(const NodeId& node, const TaskUpdate& update) {
  const auto it = jobs_.find(update.task.job);
  if (it != jobs_.end() && it->second.epoch == update.epoch)
    out_.push_back(ToJob{update.task.job, TaskMessage{node, update}});
  else
    out_.push_back(SendToAgent{node, TaskEndAck{update.task, update.epoch}});
}

void CoordinatorCore::fence(const NodeId& node, const std::set<std::pair<TaskId, Epoch>>& tasks,
                            Now now) {
  if (!membership_.fence(node, tasks, now.at)) return;
  const NodeState state = membership_.find(node)->state;
  node_changed({node, state,
                state == NodeState::kFenced ? "ends what it runs under epochs that are over" : ""},
               now);
}

void CoordinatorCore::node_changed(const NodeChange& change, Now now) {
  const Membership::Node* node = membership_.find(change.node);
  stage({}, {NodeStateChanged{change.node, node->incarnation, change.state, change.reason}}, {});
  if (change.state == NodeState::kLost) {
    node_lost(change.node, change.reason, now);
    return;
  }
  const bool up = change.state == NodeState::kUp;
  placer_.set_schedulable(change.node, up, std::string(to_string(change.state)));
  if (up) place_ready(now);
}

void CoordinatorCore::node_lost(const NodeId& node, const std::string& reason, Now now) {
  placer_.remove_node(node);
  for (auto& [id, job] : jobs_) {
    const bool here = job.index.uses(node);
    if (!here || !job.lost_nodes.insert(node).second) continue;
    out_.push_back(ToJob{id, NodeGone{node, "is lost: " + reason}});
  }
  begin_serving_when_all_are_heard(now);
}

// ---- jobs

CoordinatorEffects CoordinatorCore::on_job(const JobToCoordinator& message, Now now) {
  std::visit(Overload{[&](const JobReport& m) {
                        const auto it = jobs_.find(m.view.id);
                        if (it == jobs_.end()) return;
                        // One of before the placement would take it back.
                        LiveJob& job = it->second;
                        if (m.view.generation > job.generation || m.view.epoch >= job.epoch)
                          job.view = m.view;
                        if (settings_.bugs.has("slots_released_early") &&
                            m.view.state == JobState::kStopping)
                          placer_.release(m.view.id);
                      },
                      [&](const JobNeedsPlacement& m) { on_needs_placement(m, now); },
                      [&](const JobOver& m) { on_job_over(m, now); }},
             message);
  return flush(now);
}

void CoordinatorCore::on_needs_placement(const JobNeedsPlacement& message, Now now) {
  const auto it = jobs_.find(message.job);
  if (it == jobs_.end()) return;
  LiveJob& job = it->second;
  placer_.release(message.job);
  job.generation = message.generation;
  job.epoch = {};
  job.tasks.clear();
  job.index = {};
  job.lost_nodes.clear();
  job.queued = now.at;
  if (!job.kill_requested && !job.held) queue_gang(message.job, job);
  place_ready(now);
}

void CoordinatorCore::on_job_over(const JobOver& message, Now now) {
  const JobId id = message.view.id;
  if (jobs_.erase(id) == 0) return;
  placer_.release(id);
  ++jobs_finished_;
  ++ended_by_state_[message.view.state];
  finished_.push_back(message.view);
  if (finished_.size() > settings_.finished_cache_max) finished_.pop_front();
  out_.push_back(EndJob{id});
  place_ready(now);
}

sched::GangRequest CoordinatorCore::gang(JobId id, const LiveJob& job) const {
  return gang_of(*job.spec, id, job.generation, job.submitted, job.share);
}

void CoordinatorCore::queue_gang(JobId id, LiveJob& job) {
  job.needs_placement = phase_ != Phase::kServing;
  if (job.needs_placement) return;
  job.share = 0;  // the smallest waits; when its turn comes it gets the largest that fits
  const Status queued = placer_.submit(gang(id, job));
  DLRUN_ASSERT(queued.has_value());
}

/// A larger one fits only where a smaller does, so the size is found by halving. Those ahead of it
/// in the queue did not fit the room that it holds now, and get no other by its being given back:
/// the next placement is its own.
std::optional<sched::Placement> CoordinatorCore::widen(JobId id, LiveJob& job,
                                                       sched::Placement smallest) {
  std::uint32_t widest = 0;
  for (const RoleSpec& role : job.spec->roles)
    widest = std::max(widest, role.count_max - role.count_min);
  if (widest == 0) return smallest;
  placer_.release(id);
  std::uint32_t fits = 0;
  for (std::uint32_t low = 1, high = widest; low <= high;) {
    const std::uint32_t middle = low + (high - low) / 2;
    job.share = static_cast<double>(middle) / widest;
    if (placer_.has_room(gang(id, job))) {
      fits = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  job.share = static_cast<double>(fits) / widest;
  const Status queued = placer_.submit(gang(id, job));
  DLRUN_ASSERT(queued.has_value());
  return placer_.next();
}

void CoordinatorCore::place_ready(Now now) {
  if (phase_ != Phase::kServing) return;
  while (std::optional<sched::Placement> placement = placer_.next()) {
    auto it = jobs_.find(placement->job);
    DLRUN_ASSERT(it != jobs_.end());
    placement = widen(it->first, it->second, std::move(*placement));
    if (!placement) return;
    it = jobs_.find(placement->job);
    DLRUN_ASSERT(it != jobs_.end());
    LiveJob& job = it->second;
    const sched::GangRequest request = gang(it->first, job);
    DLRUN_ASSERT(request.tasks.size() == placement->slots.size());
    JobPlaced placed;
    placed.job = it->first;
    placed.generation = job.generation;
    placed.epoch = Epoch{term_, ++epoch_counter_};
    placed.at = now.wall;
    for (std::size_t i = 0; i < request.tasks.size(); ++i) {
      const sched::TaskDemand& demand = request.tasks[i];
      const Membership::Node* node = membership_.find(placement->slots[i].node);
      DLRUN_ASSERT(node != nullptr);
      placed.tasks.push_back({TaskId{it->first, demand.role, demand.rank, job.generation},
                              node->address, std::move(placement->slots[i])});
    }
    job.epoch = placed.epoch;
    job.tasks = placed.tasks;
    job.index = TaskIndex(*job.spec, job.tasks);
    job.lost_nodes.clear();
    job.view.state = JobState::kAdmitted;  // until the job itself reports
    job.view.epoch = placed.epoch;
    job.view.generation = job.generation;
    job.view.tasks.clear();
    out_.push_back(Waited{now.at - job.queued});
    const JobId id = it->first;
    stage(id, {placed}, {ToJob{id, Placed{placed}}});
  }
}

void CoordinatorCore::drop_job(JobId id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return;
  placer_.release(id);
  for (auto key = keys_.begin(); key != keys_.end();) {
    if (key->second.job == id) {
      std::erase(key_order_, key->first);
      key = keys_.erase(key);
    } else {
      ++key;
    }
  }
  jobs_.erase(it);
}

// ---- time and store

CoordinatorEffects CoordinatorCore::on_tick(Now now) {
  gate_.on_tick(now.at);
  if (phase_ >= Phase::kReconciling) {
    for (const NodeChange& change : membership_.on_tick(now)) node_changed(change, now);
    for (const auto& [node, task] : membership_.fences_due(now.at))
      out_.push_back(
          SendToAgent{node, StopTask{task.first, task.second, Duration{0}, Cause::kCoordinator}});
    place_ready(now);
  }
  return flush(now);
}

CoordinatorEffects CoordinatorCore::on_persisted(std::uint64_t id, Now now) {
  const std::size_t before = out_.size();
  if (!gate_.on_persisted(id, out_)) return flush(now);
  store_refuses_.reset();
  for (std::size_t i = before; i < out_.size(); ++i)
    if (const auto* started = std::get_if<StartJob>(&out_[i]))
      if (const auto it = jobs_.find(started->record.id); it != jobs_.end())
        it->second.durable = true;
  if (phase_ == Phase::kClaiming) claimed(now);
  return flush(now);
}

CoordinatorEffects CoordinatorCore::on_persist_failed(std::uint64_t id, const Error& error,
                                                      Now now) {
  store_refuses_ = error.context;
  Out instead;  // replies that were prepared before it was known what the store would say
  for (JobId job : gate_.on_failed(id, now.at, instead)) drop_job(job);
  for (CoordinatorEffect& effect : instead) {
    if (auto* answer = std::get_if<ReplyApi>(&effect); answer && !answer->reply)
      answer->reply =
          fail(error.code, "nothing was submitted: the store refuses: " + error.context);
    out_.push_back(std::move(effect));
  }
  place_ready(now);
  return flush(now);
}

std::optional<TimePoint> CoordinatorCore::next_wake() const {
  std::optional<TimePoint> wake = gate_.next_wake();
  if (phase_ >= Phase::kReconciling)
    if (const auto at = membership_.next_wake()) earlier(wake, *at);
  return wake;
}

void CoordinatorCore::stage(JobId job, std::vector<Event> events, Out then, bool droppable,
                            Out on_failure) {
  gate_.stage({job, droppable, std::move(events), std::move(then), std::move(on_failure)});
}

CoordinatorEffects CoordinatorCore::flush(Now) {
  gate_.flush(out_);
  Out out = std::move(out_);
  out_.clear();
  return out;
}

void CoordinatorCore::reply(std::uint64_t id, Result<ApiReply> answer) {
  out_.push_back(ReplyApi{id, std::move(answer)});
}

void CoordinatorCore::refuse(std::uint64_t id, Errc code, std::string context) {
  out_.push_back(ReplyApi{id, fail(code, std::move(context))});
}

}  // namespace dlrun::cluster
