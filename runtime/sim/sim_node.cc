#include "runtime/sim/sim_node.h"

#include <algorithm>

namespace dlrun::sim {

using namespace dlrun::cluster;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// ---- the agent

SimNode::SimNode(NodeWorld& world, sched::NodeCapacity capacity)
    : world_(world), capacity_(std::move(capacity)), feeder_(std::make_unique<SimFeeder>(*this)) {
  new_clock();
}

/// Up to two percent fast or slow, and as if it had been up for up to a day.
void SimNode::new_clock() {
  SplitMix64& rng = world_.loop().rng();
  const auto skew = static_cast<std::int64_t>(rng.below(40'000)) - 20'000;
  clock_ = std::make_shared<SimClock>(world_.loop(), world_.bugs(), skew,
                                      milliseconds(rng.below(86'400'000)));
}

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
  start_feeder();
  for (auto& [task, found] : disk_) {
    const bool runs = pid_of(task).has_value();
    if (found.start && !runs && !found.end)  // the machine went down under it
      found.end = TaskEnd{.cause = Cause::kShimLost, .detail = "its shim is gone"};
    agent_->recover(FoundTask{found.task, found.start, found.pid, found.end, std::nullopt});
  }
  perform(agent_->start(clock_->both()));
}

void SimNode::crash_agent() {
  agent_.reset();
  ++life_;
}

void SimNode::crash_machine() {
  crash_agent();
  crash_feeder();
  for (auto& [pid, process] : processes_)
    world_.checker().on_process_end(process.task.task, TaskEnd{.cause = Cause::kShimLost});
  processes_.clear();
  new_clock();
}

void SimNode::crash_feeder() {
  feeder_.reset();
  ++feeder_life_;
}

void SimNode::start_feeder() {
  if (!feeder_) feeder_ = std::make_unique<SimFeeder>(*this);
}

void SimNode::crash_process() {
  if (processes_.empty()) return;
  auto it = processes_.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(world_.loop().rng().below(processes_.size())));
  const bool shim = world_.loop().chance(0.3);
  end_process(it->first, shim ? TaskEnd{.cause = Cause::kShimLost, .detail = "its shim is gone"}
                              : TaskEnd{.cause = Cause::kSignal, .signal = 9});
}

void SimNode::deliver(const ToAgent& message) {
  if (agent_) perform(agent_->on_message(message, clock_->both()));
}

bool SimNode::ask_agent(const TaskId& task,
                        const std::function<AgentEffects(AgentCore&, Now)>& call) {
  if (!agent_) return false;
  const auto known = agent_->tasks().find(task);
  if (known == agent_->tasks().end() || known->second.state < TaskState::kRunning) return false;
  perform(call(*agent_, clock_->both()));
  return true;
}

void SimNode::perform(AgentEffects effects) {
  for (AgentEffect& effect : effects) std::visit([this](auto& e) { perform(e); }, effect);
  arm();
}

void SimNode::arm() {
  if (!agent_) return;
  const auto wake = agent_->next_wake();
  if (!wake || (armed_ && *armed_ <= *wake)) return;
  armed_ = *wake;
  const TimePoint at = std::max(clock_->true_time_of(*wake), world_.loop().now() + milliseconds(1));
  world_.loop().at(at, [this, life = life_, wake = *wake] {
    if (life != life_ || !agent_ || armed_ != wake) return;
    armed_.reset();
    perform(agent_->on_tick(clock_->both()));
  });
}

void SimNode::perform(const SendToCoordinator& effect) {
  world_.to_coordinator(id(), Incarnation{life_}, effect.message);
}

void SimNode::perform(const PrepareDir& effect) {
  world_.loop().after(world_.loop().between(microseconds(200), milliseconds(20)),
                      [this, life = life_, task = effect.task] {
                        if (life != life_ || !agent_) return;
                        disk_[task.task] = OnDisk{task, std::nullopt, 0, std::nullopt};
                        world_.checker().on_prepared(task.task, task.epoch);
                        perform(agent_->on_prepared(task.task, Status{}, clock_->both()));
                      });
}

void SimNode::perform(const SpawnShim& effect) {
  world_.loop().after(
      world_.loop().between(microseconds(200), milliseconds(10)), [this, life = life_, effect] {
        if (life != life_ || !agent_) return;
        run_process(effect.task, effect.start);
        const TaskId task = effect.task.task;
        world_.loop().after(
            world_.loop().between(microseconds(50), milliseconds(5)), [this, life, task] {
              if (life != life_ || !agent_) return;
              const auto found = disk_.find(task);
              if (found != disk_.end())
                perform(agent_->on_started(task, found->second.pid, clock_->both()));
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
    world_.loop().after(world_.loop().between(milliseconds(1), milliseconds(400)),
                        [die] { die(9); });
  } else if (!process.program.ignore_term) {
    const Duration takes = world_.loop().between(milliseconds(1), milliseconds(50));
    if (process.shard)  // ends in good order
      world_.loop().after(takes,
                          [this, pid = *pid] { end_process(pid, TaskEnd{.cause = Cause::kExit}); });
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
  if (feeder_) feeder_->on_reply(effect.reply);
}

void SimNode::perform(const DeliverWorkerGone& effect) {
  const auto pid = pid_of(effect.shard_task);
  if (pid && processes_.at(*pid).shard) processes_.at(*pid).shard->worker_gone(effect.worker);
}

/// Some take their time: asked for again, they are under way.
void SimNode::perform(const PublishOutputs& effect) {
  const CommitOutputs& commit = effect.commit;
  const bool slow = mix64(commit.task.job.value + 1000 * commit.epoch.counter) % 8 == 0;
  const Duration most = milliseconds(slow ? 40'000 : 20);
  world_.loop().after(
      world_.loop().between(microseconds(200), most), [this, life = life_, commit = effect.commit] {
        if (life != life_ || !agent_) return;
        world_.checker().on_published(commit.task, commit.epoch);
        perform(agent_->on_published(commit.task, commit.epoch, Status{}, clock_->both()));
      });
}

// ---- input

/// Reading takes its time: some leases are open when a node is lost.
void SimNode::split_for(const TaskId& consumer, const io::Split& split) {
  const auto pid = pid_of(consumer);
  if (!pid) return;
  const std::uint64_t reading = ++processes_.at(*pid).reading;
  world_.loop().after(world_.loop().between(milliseconds(5), milliseconds(4000)),
                      [this, pid = *pid, reading, consumer, split, feeder = feeder_life_] {
                        take_split(pid, reading, consumer, split, feeder);
                      });
}

void SimNode::take_split(std::int64_t pid, std::uint64_t reading, const TaskId& consumer,
                         const io::Split& split, std::uint64_t feeder) {
  const auto it = processes_.find(pid);
  if (it == processes_.end() || it->second.reading != reading) return;
  if (!feeder_ || feeder_life_ != feeder) return;
  Process& p = it->second;
  if (p.doing == Doing::kCommit) {  // it takes nothing while it stands there
    world_.loop().after(milliseconds(50), [this, pid, reading, consumer, split, feeder] {
      take_split(pid, reading, consumer, split, feeder);
    });
    return;
  }
  p.taken.push_back({split.id, split.pass});
  feeder_->released(consumer);
  if (p.program.commit_every == 0 || p.taken.size() % p.program.commit_every != 0) return;
  p.doing = Doing::kCommit;
  ++p.commits;
  ask(p);
}

void SimNode::perform(const DeliverCommit& effect) {
  const auto pid = pid_of(effect.done.task);
  if (!pid) return;
  Process& p = processes_.at(*pid);
  if (p.doing != Doing::kCommit || effect.done.id != commit_id(*pid, p)) return;
  const Errc error = effect.done.error;
  if (error != Errc{} && error != Errc::kFailedPrecondition && error != Errc::kStaleEpoch &&
      error != Errc::kOverloaded)
    world_.checker().violated("a commit of " + to_string(effect.done.task) +
                              " was refused: " + effect.done.error_context);
  p.doing = Doing::kRead;
  if (p.input_read)
    next_step(*pid);
  else
    ask(p);
}

void SimNode::input_ended(const TaskId& consumer) {
  const auto pid = pid_of(consumer);
  if (!pid) return;
  Process& p = processes_.at(*pid);
  if (p.doing != Doing::kRead && p.doing != Doing::kCommit) return;
  p.input_read = true;
  if (p.doing == Doing::kRead) next_step(*pid);
}

// ---- processes

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
  world_.checker().on_spawn(task);
  Process& process = processes_[pid];
  process.task = task;
  process.start = start;
  process.program = program_of(task.argv);
  if (task.program == RoleProgram::kShardHost) {
    process.doing = Doing::kServe;
    process.endpoint =
        "sim://" + id().value + "/" + to_string(task.task) + "@" + to_string(task.epoch);
    process.shard = std::make_unique<ShardHost>(world_, id(), clock_, start, process.endpoint);
  } else {
    next_step(pid);
  }
  world_.loop().after(milliseconds(5), [this, pid] { poll(pid); });
}

/// Barriers, then input, then training, then running, then the end.
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
  } else if (!p.program.input.empty() && !p.input_read) {
    p.doing = Doing::kRead;
    ask(p);
  } else if (p.program.pushes > 0 && !p.start.ps.shards.empty() && !p.trained) {
    p.doing = Doing::kTrain;
    p.worker =
        std::make_unique<PsWorker>(world_, id(), clock_, p.start, p.program, [this, pid](int code) {
          world_.loop().after(Duration{0}, [this, pid, code] {
            const auto found = processes_.find(pid);
            if (found == processes_.end()) return;
            found->second.worker.reset();
            found->second.trained = true;
            if (code != 0) return end_process(pid, TaskEnd{.cause = Cause::kExit, .code = code});
            next_step(pid);
          });
        });
  } else {
    p.doing = Doing::kRun;
    if (p.program.hang) return;
    const TaskEnd end = p.program.signal != 0
                            ? TaskEnd{.cause = Cause::kSignal, .signal = p.program.signal}
                            : TaskEnd{.cause = Cause::kExit, .code = p.program.code};
    world_.loop().after(milliseconds(p.program.run_ms),
                        [this, pid, end] { end_process(pid, end); });
  }
}

/// The socket may have been closed by an agent or a feeder that died: what waits is asked again.
void SimNode::poll(std::int64_t pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  ask(it->second);
  world_.loop().after(milliseconds(700), [this, pid] { poll(pid); });
}

void SimNode::ask(Process& p) {
  const TaskId task = p.task.task;
  if (p.doing == Doing::kRead) {
    if (feeder_) feeder_->attach(task, p.program.input, p.taken);
    return;
  }
  ask_agent(task, [&](AgentCore& agent, Now now) -> AgentEffects {
    switch (p.doing) {
      case Doing::kBarrier:
        return agent.on_barrier(task, "epoch", p.round, now);
      case Doing::kServe:
        if (agent.tasks().at(task).state == TaskState::kReady) return {};
        return agent.on_ready(task, TaskReadyInfo{p.endpoint, ""}, now);
      case Doing::kRun:
        return agent.on_progress(task, 0.5, "running", now);
      case Doing::kCommit: {
        io::InputCursor cursor;
        cursor.input = p.program.input;
        for (const io::SplitKey& key : p.taken)
          cursor.splits.push_back({key.split_id, 1, key.pass, 1});
        return agent.on_commit(task, commit_id(*pid_of(task), p), "", {std::move(cursor)}, now);
      }
      case Doing::kTrain:
      case Doing::kRead:
        return {};
    }
    return {};
  });
}

void SimNode::end_process(std::int64_t pid, TaskEnd end) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) return;
  Process& p = it->second;
  if (p.shard) p.shard->read_back();
  const TaskId task = p.task.task;
  const auto found = disk_.find(task);
  if (found != disk_.end()) found->second.end = end;
  if (feeder_) feeder_->detach(task);
  world_.checker().on_process_end(task, end);
  processes_.erase(it);
  world_.loop().after(world_.loop().between(microseconds(50), milliseconds(5)),
                      [this, life = life_, task, end] {
                        if (life == life_ && agent_)
                          perform(agent_->on_exit(task, end, clock_->both()));
                      });
}

ShardHost* SimNode::host_at(const std::string& endpoint) {
  for (auto& [pid, process] : processes_)
    if (process.shard && process.endpoint == endpoint) return process.shard.get();
  return nullptr;
}

std::set<std::pair<TaskId, Epoch>> SimNode::running() const {
  std::set<std::pair<TaskId, Epoch>> tasks;
  for (const auto& [pid, process] : processes_)
    tasks.insert({process.task.task, process.task.epoch});
  return tasks;
}

}  // namespace dlrun::sim
