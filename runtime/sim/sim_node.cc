#include "runtime/sim/sim_node.h"

#include <algorithm>

namespace dlrun::sim {

using namespace dlrun::cluster;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// ---- the agent -----------------------------------------------------------------------------------------------------

void SimNode::start_agent() {
  ++life_;
  AgentSettings settings;
  settings.node = id();
  settings.incarnation = Incarnation{world_.loop().rng().next() | 1};
  settings.address = "10.0.0." + id().value;
  settings.version = "sim";
  settings.capacity = capacity_;
  settings.bugs = world_.bugs();
  agent_.emplace(std::move(settings));
  armed_.reset();
  for (auto& [task, found] : disk_) {
    const bool runs = pid_of(task).has_value();
    if (found.start && !runs && !found.end)  // the machine went down under it
      found.end = TaskEnd{.cause = Cause::kShimLost, .detail = "its shim is gone"};
    agent_->recover(FoundTask{found.task, found.start, found.pid, found.end, std::nullopt});
  }
  perform(agent_->start(world_.loop().now()));
}

void SimNode::crash_agent() {
  world_.checker().on_agent_lost(id());
  agent_.reset();
  ++life_;
}

void SimNode::crash_machine() {
  crash_agent();
  for (auto& [pid, process] : processes_)
    world_.checker().on_process_end(process.task.task, TaskEnd{.cause = Cause::kShimLost});
  processes_.clear();
}

void SimNode::deliver(const ToAgent& message) {
  if (agent_) perform(agent_->on_message(message, world_.loop().now()));
}

template <class Call>
void SimNode::with_agent(Call call) {
  if (agent_) perform(call(*agent_, world_.loop().now()));
}

void SimNode::perform(AgentEffects effects) {
  for (AgentEffect& effect : effects) std::visit([this](auto& e) { perform(e); }, effect);
  arm();
}

void SimNode::arm() {
  if (!agent_) return;
  const auto wake = agent_->next_wake();
  if (!wake || (armed_ && *armed_ <= *wake)) return;
  const TimePoint at = std::max(*wake, world_.loop().now().at + milliseconds(1));
  armed_ = at;
  world_.loop().at(at, [this, life = life_, at] {
    if (life != life_ || !agent_ || armed_ != at) return;
    armed_.reset();
    perform(agent_->on_tick(world_.loop().now()));
  });
}

void SimNode::perform(const SendToCoordinator& effect) {
  world_.to_coordinator(id(), Incarnation{life_}, effect.message);
}

void SimNode::perform(const PrepareDir& effect) {
  world_.loop().after(world_.loop().between(microseconds(200), milliseconds(20)), [this, life = life_, task = effect.task] {
    if (life != life_ || !agent_) return;
    disk_[task.task] = OnDisk{task, std::nullopt, 0, std::nullopt};
    world_.checker().on_prepared(task.task, task.epoch);
    perform(agent_->on_prepared(task.task, Status{}, world_.loop().now()));
  });
}

void SimNode::perform(const SpawnShim& effect) {
  world_.loop().after(world_.loop().between(microseconds(200), milliseconds(10)), [this, life = life_, effect] {
    if (life != life_ || !agent_) return;
    run_process(effect.task, effect.start);
    const TaskId task = effect.task.task;
    world_.loop().after(world_.loop().between(microseconds(50), milliseconds(5)), [this, life, task] {
      if (life != life_ || !agent_) return;
      const auto found = disk_.find(task);
      if (found != disk_.end()) perform(agent_->on_started(task, found->second.pid, world_.loop().now()));
    });
  });
}

void SimNode::perform(const SignalShim& effect) {
  const auto pid = pid_of(effect.task);
  if (!pid) return;
  Process& process = processes_.at(*pid);
  const auto die = [this, pid = *pid](int signal) {
    end_process(pid, TaskEnd{.cause = Cause::kSignal, .signal = signal});
  };
  if (effect.grace == Duration::zero()) {
    world_.loop().after(world_.loop().between(milliseconds(1), milliseconds(400)), [die] { die(9); });
  } else if (!process.program.ignore_term) {
    process.stopping = true;
    const Duration takes = world_.loop().between(milliseconds(1), milliseconds(50));
    if (process.shard)  // ends in good order
      world_.loop().after(takes, [this, pid = *pid] { end_process(pid, TaskEnd{.cause = Cause::kExit}); });
    else
      world_.loop().after(takes, [die] { die(15); });
  } else {
    world_.loop().after(effect.grace, [die] { die(9); });
  }
}

void SimNode::perform(const CleanTask& effect) {
  const auto found = disk_.find(effect.task);
  if (found == disk_.end()) return;
  world_.checker().on_cleaned(effect.task, found->second.task.epoch);
  disk_.erase(found);
}

void SimNode::perform(const DeliverBarrier& effect) {
  const auto pid = pid_of(effect.task);
  if (!pid) return;
  Process& process = processes_.at(*pid);
  if (process.doing != Doing::kBarrier || process.round != effect.round) return;
  world_.checker().on_barrier_passed(effect.task, effect.name, effect.round);
  next_step(*pid);
}

void SimNode::perform(const DeliverLease& effect) {
  const LeaseReply& reply = effect.reply;
  const auto pid = pid_of(reply.task);
  if (!pid) return;
  Process& process = processes_.at(*pid);
  if (process.request != reply.request || (process.doing != Doing::kLease && process.doing != Doing::kFiles)) return;
  if (reply.error != Errc{}) return;  // its epoch is over: it will be stopped
  ++process.request;
  if (process.doing == Doing::kFiles) {
    process.doing = Doing::kLease;
  } else if (reply.answer.state == io::LeaseState::kEndOfInput) {
    return next_step(*pid);
  } else {
    for (const io::Split& split : reply.answer.splits) {
      world_.checker().on_split_read(reply.task, process.program.input, split);
      with_agent([&](AgentCore& a, Now now) {
        return a.on_split_done(reply.task, process.program.input, split.id, split.pass, now);
      });
    }
  }
  // reading takes its time: some leases are open when a node is lost
  const Duration reading = world_.loop().between(milliseconds(5), milliseconds(4000));
  world_.loop().after(reading, [this, pid = *pid] {
    const auto it = processes_.find(pid);
    if (it != processes_.end()) ask(it->second);
  });
}

void SimNode::perform(const DeliverWorkerGone& effect) {
  if (const auto pid = pid_of(effect.shard_task)) processes_.at(*pid).left.insert(effect.worker);
}

// ---- processes -----------------------------------------------------------------------------------------------------

std::optional<std::int64_t> SimNode::pid_of(const TaskId& task) const {
  for (const auto& [pid, process] : processes_)
    if (process.task.task == task) return pid;
  return std::nullopt;
}

void SimNode::run_process(const PrepareTask& task, const StartTask& start) {
  const auto found = disk_.find(task.task);
  if (found == disk_.end()) return;
  const std::int64_t pid = ++last_pid_;
  found->second.start = start;
  found->second.pid = pid;
  world_.checker().on_spawn(task, capacity_.cpu_milli);
  Process& process = processes_[pid];
  process.task = task;
  process.start = start;
  process.program = program_of(task.argv);
  process.client = ClientId{mix64(std::hash<TaskId>{}(task.task) ^ (task.epoch.term << 32) ^ task.epoch.counter)};
  process.request = world_.loop().rng().next() >> 8;
  if (task.program == RoleProgram::kShardHost) {
    process.doing = Doing::kServe;
    process.endpoint = "sim://" + id().value + "/" + to_string(task.task);
    ps::ShardSettings settings;
    settings.shard = ShardId{task.task.rank};
    settings.token = start.ps.token;
    settings.workers = start.ps.workers;
    process.shard.emplace(settings, start.ps.map);
  } else {
    next_step(pid);
  }
  world_.loop().after(milliseconds(5), [this, pid] { poll(pid); });
}

/// Barriers, then input, then pushes, then running, then the end.
void SimNode::next_step(std::int64_t pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  Process& p = it->second;
  const TaskId task = p.task.task;
  if (p.round < p.program.barriers) {
    ++p.round;
    p.doing = Doing::kBarrier;
    world_.checker().on_barrier_entered(task, "epoch", p.round);
    world_.loop().after(world_.loop().between(milliseconds(1), milliseconds(60)), [this, pid] {
      const auto found = processes_.find(pid);
      if (found != processes_.end() && found->second.doing == Doing::kBarrier) ask(found->second);
    });
  } else if (!p.program.input.empty() && p.doing != Doing::kLease) {
    p.doing = Doing::kFiles;
    ask(p);
  } else if (p.pushed < p.program.pushes && !p.start.ps.shards.empty()) {
    p.doing = Doing::kPush;
    p.push_key = world_.loop().rng().below(1000);
    push(pid, p);
  } else {
    p.doing = Doing::kRun;
    if (p.program.hang) return;
    const TaskEnd end = p.program.signal != 0 ? TaskEnd{.cause = Cause::kSignal, .signal = p.program.signal}
                                              : TaskEnd{.cause = Cause::kExit, .code = p.program.code};
    world_.loop().after(milliseconds(p.program.run_ms), [this, pid, end] { end_process(pid, end); });
  }
}

/// The socket may have been closed by an agent that died: what waits is asked again.
void SimNode::poll(std::int64_t pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  ask(it->second);
  world_.loop().after(milliseconds(700), [this, pid] { poll(pid); });
}

void SimNode::ask(Process& p) {
  const TaskId task = p.task.task;
  with_agent([&](AgentCore& agent, Now now) -> AgentEffects {
    const auto known = agent.tasks().find(task);
    if (known == agent.tasks().end() || known->second.state < TaskState::kRunning) return {};
    switch (p.doing) {
      case Doing::kBarrier: return agent.on_barrier(task, "epoch", p.round, now);
      case Doing::kFiles: {
        std::vector<io::FileEntry> files;
        for (int i = 0; i < 3; ++i) files.push_back({"sim:/data/" + std::to_string(i), 5u << 20, "etag"});
        return agent.on_files(task, p.program.input, std::move(files), p.request, now);
      }
      case Doing::kLease: return agent.on_lease(task, p.program.input, 2, p.request, false, {}, now);
      case Doing::kServe:
        if (known->second.state == TaskState::kReady) return {};
        return agent.on_ready(task, TaskReadyInfo{p.endpoint, ""}, now);
      case Doing::kRun: return agent.on_progress(task, 0.5, "running", now);
      case Doing::kPush: return {};
    }
    return {};
  });
}

/// One push at a time to the shard of its key, repeated with the same sequence until it is answered.
void SimNode::push(std::int64_t pid, Process& p) {
  const ps::PsView& view = p.start.ps;
  const ShardId owner = view.map.owner[ps::slot_of(0, p.push_key)];
  ps::RequestHeader request;
  request.token = view.token;
  request.epoch = view.map.epoch;
  request.client = p.client;
  request.worker = ps::kNoWorker;
  request.dim = 1;
  request.budget = std::chrono::seconds(5);
  const std::uint64_t sequence = p.pushed + 1;
  const bool make_table = p.tables_made.count(owner) == 0;
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  if (make_table) {
    request.kind = ps::Kind::kCreateTable;
    ps::TableSchema schema;
    schema.name = "counts";
    schema.learning_rate = 1.0f;
    schema.consistency = ps::Consistency::kAsp;
    request.schema = schema;
  } else {
    request.kind = ps::Kind::kPush;
    request.sequence = sequence;
    request.n = 1;
    keys = {p.push_key};
    values = {-1.0f};  // SGD with rate 1: the row counts the pushes
  }
  request.request = sequence * 2 + (make_table ? 0 : 1);
  const auto answered = [this, pid, owner, sequence, make_table](const ps::ReplyHeader& reply) {
    const auto it = processes_.find(pid);
    if (it == processes_.end() || it->second.doing != Doing::kPush || it->second.pushed + 1 != sequence) return;
    if (reply.error != 0) return;  // asked again by the timer
    if (make_table) {
      if (it->second.tables_made.insert(owner).second) push(pid, it->second);
      return;
    }
    ++it->second.pushed;
    next_step(pid);
  };
  world_.to_shard(id(), view.shards[owner.value].tcp, request, std::move(keys), std::move(values), answered);
  world_.loop().after(milliseconds(400), [this, pid, sequence, make_table, owner] {
    const auto it = processes_.find(pid);
    if (it == processes_.end() || it->second.doing != Doing::kPush || it->second.pushed + 1 != sequence) return;
    if (make_table == (it->second.tables_made.count(owner) == 0)) push(pid, it->second);
  });
}

void SimNode::read_back(Process& p) {
  for (std::uint64_t key : world_.checker().keys_of(p.task.task)) {
    ps::RequestHeader request;
    request.kind = ps::Kind::kPull;
    request.token = p.start.ps.token;
    request.epoch = p.start.ps.map.epoch;
    request.client = ClientId{1};
    request.n = 1;
    request.dim = 1;
    request.budget = std::chrono::seconds(5);
    ps::Effects effects;
    const std::uint64_t keys[] = {key};
    p.shard->on_request(1, request, keys, {}, world_.loop().now().at, effects);
    const auto* reply = effects.empty() ? nullptr : std::get_if<ps::Reply>(&effects.front());
    if (reply == nullptr || reply->header.error != 0 || reply->values.size() != 1)
      world_.checker().violated("a shard does not answer a pull of its own key");
    else
      world_.checker().on_row(p.task.task, key, reply->values[0]);
  }
}

void SimNode::end_process(std::int64_t pid, TaskEnd end) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  Process& p = it->second;
  if (p.shard) read_back(p);
  const TaskId task = p.task.task;
  const auto found = disk_.find(task);
  if (found != disk_.end()) found->second.end = end;
  world_.checker().on_process_end(task, end);
  processes_.erase(it);
  world_.loop().after(world_.loop().between(microseconds(50), milliseconds(5)), [this, life = life_, task, end] {
    if (life == life_ && agent_) perform(agent_->on_exit(task, end, world_.loop().now()));
  });
}

ps::ShardCore* SimNode::shard_at(const std::string& endpoint, TaskId& task, Epoch& epoch) {
  for (auto& [pid, process] : processes_)
    if (process.shard && process.endpoint == endpoint) {
      task = process.task.task;
      epoch = process.task.epoch;
      return &*process.shard;
    }
  return nullptr;
}

}  // namespace dlrun::sim
