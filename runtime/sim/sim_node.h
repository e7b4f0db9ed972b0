#pragma once
/// runtime/sim/sim_node.h: one machine: a disk of task directories, processes under shims, and an agent (AgentCore) that
/// may die and come back while the processes go on. A process talks to its agent as over its socket: what it asked is asked
/// again until it is answered.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ps/core/shard_core.h"
#include "runtime/cluster/core/agent_core.h"
#include "runtime/sim/checker.h"
#include "runtime/sim/sim_loop.h"
#include "runtime/sim/sim_network.h"
#include "runtime/sim/sim_program.h"

namespace dlrun::sim {

/// What a node needs of the world around it.
class NodeWorld {
 public:
  virtual ~NodeWorld() = default;
  virtual SimLoop& loop() = 0;
  virtual SimNetwork& network() = 0;
  virtual Checker& checker() = 0;
  virtual const cluster::PlantedBugs& bugs() const = 0;
  /// Over the network, to whichever coordinator lives when it arrives, unless another one lived when it was sent.
  virtual void to_coordinator(const NodeId& from, Incarnation incarnation, cluster::FromAgent message) = 0;
  /// Over the network to the shard that listens at `endpoint`; `reply` runs back on the asker's node.
  virtual void to_shard(const NodeId& from, const std::string& endpoint, ps::RequestHeader request,
                        std::vector<std::uint64_t> keys, std::vector<float> values,
                        std::function<void(const ps::ReplyHeader&)> reply) = 0;
};

class SimNode {
 public:
  SimNode(NodeWorld& world, sched::NodeCapacity capacity) : world_(world), capacity_(std::move(capacity)) {}

  void start_agent();
  void crash_agent();
  /// Power off: agent and processes are gone; what was on disk stays.
  void crash_machine();
  bool agent_alive() const { return agent_.has_value(); }
  /// Changes when the agent does: a message for another life is lost.
  std::uint64_t life() const { return life_; }
  void deliver(const cluster::ToAgent& message);

  const NodeId& id() const { return capacity_.node; }
  std::size_t processes() const { return processes_.size(); }
  std::size_t tasks_known() const { return agent_ ? agent_->tasks().size() : 0; }
  /// A shard process that listens here.
  ps::ShardCore* shard_at(const std::string& endpoint, TaskId& task, Epoch& epoch);

 private:
  struct OnDisk {
    cluster::PrepareTask task;
    std::optional<cluster::StartTask> start;
    std::int64_t pid = 0;
    std::optional<cluster::TaskEnd> end;
  };
  enum class Doing : std::uint8_t { kBarrier, kFiles, kLease, kPush, kRun, kServe };
  struct Process {
    cluster::PrepareTask task;
    cluster::StartTask start;
    SimProgram program;
    Doing doing = Doing::kRun;
    std::uint64_t round = 0;
    std::uint64_t request = 0;
    std::uint64_t pushed = 0;
    std::uint64_t push_key = 0;
    std::set<ShardId> tables_made;
    ClientId client;
    std::optional<ps::ShardCore> shard;
    std::string endpoint;
    std::set<TaskId> left;  ///< shard: workers that were reported gone
    bool stopping = false;
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
  void perform(const cluster::LinkUp&) {}
  void arm();
  template <class Call>
  void with_agent(Call call);

  // processes; each step finds its process again by pid, for it may be gone
  void run_process(const cluster::PrepareTask& task, const cluster::StartTask& start);
  void next_step(std::int64_t pid);
  void poll(std::int64_t pid);
  void ask(Process& process);
  void push(std::int64_t pid, Process& process);
  void end_process(std::int64_t pid, cluster::TaskEnd end);
  void read_back(Process& process);
  std::optional<std::int64_t> pid_of(const TaskId& task) const;

  NodeWorld& world_;
  sched::NodeCapacity capacity_;
  std::optional<cluster::AgentCore> agent_;
  std::optional<TimePoint> armed_;
  std::uint64_t life_ = 0;
  std::map<TaskId, OnDisk> disk_;
  std::map<std::int64_t, Process> processes_;
  std::int64_t last_pid_ = 100;
};

}  // namespace dlrun::sim
