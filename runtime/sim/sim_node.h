#pragma once
/// runtime/sim/sim_node.h: one machine: a disk of task directories, clocks of its own, processes
/// under shims, a feeder, and an agent (AgentCore) that may die and come back while the processes
/// go on. A process talks to its agent as over its socket: what it asked is asked again until it is
/// answered.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/cluster/core/agent_core.h"
#include "runtime/sim/checker.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_feeder.h"
#include "runtime/sim/sim_program.h"
#include "runtime/sim/sim_ps.h"

namespace dlrun::sim {

/// What a node needs of the world around it.
class NodeWorld : public PsWorld {
 public:
  virtual Checker& checker() = 0;
  /// Over the network, to whichever coordinator lives when it arrives, unless another one lived
  /// when it was sent.
  virtual void to_coordinator(const NodeId& from, Incarnation incarnation,
                              cluster::FromAgent message) = 0;
};

class SimNode final : public FeederNode {
 public:
  SimNode(NodeWorld& world, sched::NodeCapacity capacity);

  void start_agent();
  void crash_agent();
  /// Power off: agent, feeder and processes are gone; what was on disk stays; the monotonic clock
  /// starts anew.
  void crash_machine();
  void crash_feeder();
  void start_feeder();
  /// kill -9 of one of the processes, or of its shim.
  void crash_process();
  bool agent_alive() const { return agent_.has_value(); }
  /// Changes when the agent does: a message for another life is lost.
  std::uint64_t life() const { return life_; }
  void deliver(const cluster::ToAgent& message);

  const NodeId& id() const { return capacity_.node; }
  SimClock& clock() { return *clock_; }
  /// Tasks whose process runs.
  std::set<std::pair<TaskId, Epoch>> running() const;
  std::size_t tasks_known() const { return agent_ ? agent_->tasks().size() : 0; }
  /// The shard that listens there; nullptr = none.
  ShardHost* host_at(const std::string& endpoint);

  // FeederNode
  SimLoop& loop() override { return world_.loop(); }
  Checker& checker() override { return world_.checker(); }
  bool ask_agent(
      const TaskId& task,
      const std::function<cluster::AgentEffects(cluster::AgentCore&, cluster::Now)>& call) override;
  void split_for(const TaskId& consumer, const io::Split& split) override;
  void input_ended(const TaskId& consumer) override;

 private:
  struct OnDisk {
    cluster::PrepareTask task;
    std::optional<cluster::StartTask> start;
    std::int64_t pid = 0;
    std::optional<cluster::TaskEnd> end;
  };
  enum class Doing : std::uint8_t { kBarrier, kRead, kCommit, kTrain, kRun, kServe };
  struct Process {
    cluster::PrepareTask task;
    cluster::StartTask start;
    SimProgram program;
    Doing doing = Doing::kRun;
    std::uint64_t round = 0;
    bool input_read = false;
    bool trained = false;
    std::uint64_t reading = 0;  ///< counts the splits it was given
    std::vector<io::SplitKey> taken;
    std::uint64_t commits = 0;  ///< entered
    std::unique_ptr<PsWorker> worker;
    std::unique_ptr<ShardHost> shard;
    std::string endpoint;
  };

  void perform(cluster::AgentEffects effects);
  void perform(const cluster::SendToCoordinator& effect);
  void perform(const cluster::PrepareDir& effect);
  void perform(const cluster::SpawnShim& effect);
  void perform(const cluster::SignalShim& effect);
  void perform(const cluster::CleanTask& effect);
  void perform(const cluster::DeliverBarrier& effect);
  void perform(const cluster::DeliverLease& effect);
  void perform(const cluster::DeliverWorkerGone& effect);
  void perform(const cluster::PublishOutputs& effect);
  void perform(const cluster::ShipLogsTo&) {}
  void perform(const cluster::DeliverCommit& effect);
  void arm();

  // processes; each step finds its process again by pid, for it may be gone
  void run_process(const cluster::PrepareTask& task, const cluster::StartTask& start);
  void next_step(std::int64_t pid);
  void poll(std::int64_t pid);
  /// The process is through with a split that the feeder of that life gave it.
  void take_split(std::int64_t pid, std::uint64_t reading, const TaskId& consumer,
                  const io::Split& split, std::uint64_t feeder);
  static std::uint64_t commit_id(std::int64_t pid, const Process& process) {
    return static_cast<std::uint64_t>(pid) << 32 | process.commits;
  }
  void ask(Process& process);
  void end_process(std::int64_t pid, cluster::TaskEnd end);
  std::optional<std::int64_t> pid_of(const TaskId& task) const;
  void new_clock();

  NodeWorld& world_;
  sched::NodeCapacity capacity_;
  std::shared_ptr<SimClock> clock_;
  std::optional<cluster::AgentCore> agent_;
  std::optional<TimePoint> armed_;
  std::uint64_t life_ = 0;
  std::map<TaskId, OnDisk> disk_;
  std::map<std::int64_t, Process> processes_;
  std::unique_ptr<SimFeeder> feeder_;
  std::uint64_t feeder_life_ = 0;
  std::int64_t last_pid_ = 100;
};

}  // namespace dlrun::sim
