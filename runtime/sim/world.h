#pragma once
/// runtime/sim/world.h: a whole cluster in one thread: the coordinator (CoordinatorCore, the
/// scheduler, a JobCore per running job) over a SimStore, some SimNodes over a SimNetwork, people
/// who submit and kill, and faults. run() plays one seed: a stormy part, then everything heals and
/// must come to rest.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/cluster/core/coordinator_core.h"
#include "runtime/sim/checker.h"
#include "runtime/sim/sim_channel.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_loop.h"
#include "runtime/sim/sim_mover.h"
#include "runtime/sim/sim_network.h"
#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_store.h"
#include "scheduler/core/scheduler_core.h"

namespace dlrun::sim {

struct WorldSettings {
  std::uint64_t seed = 1;
  std::uint32_t nodes = 4;
  std::uint32_t jobs = 14;
  Duration storm{std::chrono::seconds(150)};
  Duration rest{std::chrono::seconds(240)};
  bool faults = true;
  PlantedBugs bugs;
  /// WorldResult::trace: what became durable and what agents and coordinator said, line by line
  bool keep_trace = false;
};

struct WorldResult {
  std::optional<std::string> violation;
  std::vector<std::string> trace;
  std::uint64_t log_digest = 0;
  std::uint64_t log_records = 0;
  std::uint64_t steps = 0;
  std::size_t acked = 0, succeeded = 0, failed = 0, cancelled = 0, lost = 0;
  std::uint64_t coordinator_crashes = 0, agent_crashes = 0, machine_crashes = 0, feeder_crashes = 0,
                process_crashes = 0, partitions = 0, clocks_set = 0;
  std::uint64_t shards_lost = 0, stores_slow = 0, stores_full = 0;
  std::uint64_t pushes = 0, pulls = 0, slots_moved = 0, splits = 0, commits = 0;
  std::uint64_t packets_lost = 0, packets_doubled = 0, packets_late = 0, packets_cut = 0,
                packets_damaged = 0, packets_refused = 0;
};

class World final : public NodeWorld {
 public:
  explicit World(WorldSettings settings);
  ~World() override;
  WorldResult run();

  SimLoop& loop() override { return loop_; }
  SimNetwork& network() override { return network_; }
  Checker& checker() override { return checker_; }
  const PlantedBugs& bugs() const override { return settings_.bugs; }
  void to_coordinator(const NodeId& from, Incarnation incarnation,
                      cluster::FromAgent message) override;
  SimSockets& sockets() override { return sockets_; }
  PsChecker& ps_checker() override { return checker_.ps(); }
  ShardHost* host_at(const std::string& endpoint) override;
  void ask_view(const NodeId& from, const PsJob& job,
                std::function<void(ps::PsView)> answer) override;
  void violated(std::string what) override { checker_.violated(std::move(what)); }

 private:
  struct Tokens final : cluster::TokenIssuer {
    cluster::Token issue(std::string_view purpose, Epoch epoch) const override;
  };
  struct JobHost {
    cluster::JobCore core;
    std::optional<TimePoint> armed;
  };
  /// A person's wish that is repeated until it is answered.
  struct Wish {
    cluster::ApiCall call;
    std::string key;
    bool done = false;
  };

  // coordinator's process
  cluster::Now now() const { return clock_->both(); }
  void new_clock();
  void start_coordinator();
  void crash_coordinator();
  void perform(cluster::CoordinatorEffects effects);
  void perform_job(JobId id, cluster::JobEffects effects);
  void append(std::vector<cluster::Event> events, std::function<void(Status)> done);
  void send_to_agent(const cluster::SendToAgent& effect);
  void answer(const cluster::ReplyApi& reply);
  void arm();
  void arm_job(JobId id);

  // people and faults
  void plan_workload();
  void plan_faults();
  void wish(std::size_t index);
  cluster::JobSpec random_spec();
  std::optional<std::vector<cluster::Cause>> random_causes(std::uint64_t role) const;
  void fault();
  void stranger();
  void calm_down();
  void compare_store_and_nodes();
  void check_rest();
  void trace(std::string line);

  WorldSettings settings_;
  SimLoop loop_;
  SimNetwork network_;
  Checker checker_;
  SimSockets sockets_;
  SlotMover mover_;
  SimStore store_;
  std::unique_ptr<SimClock> clock_;  ///< the coordinator's machine's
  Tokens tokens_;
  std::map<NodeId, std::unique_ptr<SimNode>> nodes_;
  std::unique_ptr<sched::SchedulerCore> placer_;
  std::unique_ptr<cluster::CoordinatorCore> coordinator_;
  std::map<JobId, std::unique_ptr<JobHost>> jobs_;
  std::uint64_t life_ = 0;  ///< of the coordinator
  std::optional<TimePoint> armed_;
  std::map<NodeId, Incarnation> agent_incarnations_;
  std::set<NodeId> lost_;  ///< in the eyes of the coordinator
  std::vector<Wish> wishes_;
  std::map<std::uint64_t, std::size_t> calls_;  ///< call -> wish
  std::uint64_t last_call_ = 0;
  std::vector<std::string> shards_seen_;  ///< endpoints
  Checker::Tasks not_running_, not_in_force_;
  bool calm_ = false;
  WorldResult result_;
};

}  // namespace dlrun::sim
