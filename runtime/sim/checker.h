#pragma once
/// runtime/sim/checker.h: the invariants, apart from the workload and from the cores: it sees only
/// what is durable and what really runs. Checked at each step that touches them; quiet() once at
/// the end. The first violation is kept.
///
///   terms and epochs: terms rise; no epoch is given twice; a job's epochs rise
///   nothing of epoch e is accepted after e+1: no record of an older generation after JobPlaced
///   nothing runs without a durable placement, nor twice, nor before its whole gang is prepared
///   no port or CPU leased twice: neither by placements that are in force, nor by what runs
///   a node is lost only when nothing was heard of it for the time of a lease
///   one final state per job; none before all of its tasks have ended; recorded ends are what
///     happened
///   a shard that is lost ends its generation, and is told of
///   a gang starts again when, and only when, the cause of its first failure says so and a restart
///     is left
///   an acknowledged submit is durable; one key, one job
///   a lease is granted only to a task that is in force, an output published only under a grant of
///     its epoch
///   a barrier opens when all are there
///   inputs: input_checker.h; between workers and shards: ps_checker.h
///   in quiet: what the store says is in force is what agents run
///   after quiet: every acknowledged job has ended and nothing runs anywhere

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/core/event.h"
#include "runtime/sim/input_checker.h"
#include "runtime/sim/ps_checker.h"
#include "runtime/sim/sim_loop.h"

namespace dlrun::sim {

class Checker {
 public:
  explicit Checker(const SimLoop& loop)
      : loop_(loop),
        inputs_([this](std::string what) { violated(std::move(what)); }),
        ps_([this](std::string what) { violated(std::move(what)); }) {}
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  void on_durable(const cluster::Event& event);
  void on_prepared(const TaskId& task, Epoch epoch) { prepared_.insert({task, epoch}); }
  void on_node(const NodeId& node, std::int64_t cpu_milli) { capacity_[node] = cpu_milli; }
  void on_spawn(const cluster::PrepareTask& task);
  void on_process_end(const TaskId& task, const cluster::TaskEnd& end);
  void on_cleaned(const TaskId& task, Epoch epoch);
  void on_submit_acked(const std::string& key, JobId job);
  void on_barrier_entered(const TaskId& task, const std::string& name, std::uint64_t round);
  void on_barrier_passed(const TaskId& task, const std::string& name, std::uint64_t round);
  void on_published(const TaskId& task, Epoch epoch);  ///< an output, by its agent
  void on_lease_answered(const TaskId& task, Epoch epoch);
  /// A message of the node's living agent was taken by a coordinator that knows it as up.
  void on_heard(const NodeId& node) { heard_[node] = loop_.now(); }
  void on_declared_lost(const NodeId& node);  ///< at the decision; its record comes later

  InputChecker& inputs() { return inputs_; }
  PsChecker& ps() { return ps_; }
  using Tasks = std::set<std::pair<TaskId, Epoch>>;
  /// What the store says is in force: placed and not ended; `running`: of generations that run
  /// only.
  Tasks in_force(bool running) const;
  const std::set<JobId>& acked() const { return acked_; }
  bool ended(JobId job) const;
  std::size_t running() const { return running_.size(); }
  std::uint64_t shards_lost() const { return shards_lost_; }
  std::size_t final_states(cluster::JobState state) const;
  void violated(std::string what);
  const std::optional<std::string>& violation() const { return violation_; }

 private:
  struct Job {
    Generation generation;  ///< of the last placement
    Epoch epoch;
    std::vector<cluster::PlacedTask> tasks;
    cluster::JobSpec spec;
    std::map<TaskId, cluster::TaskEnd> ends;  ///< of the generation, durable
    std::optional<cluster::JobView> final_view;
    bool generation_over = false;
    bool running = false;  ///< JobStateChanged{kRunning} of the generation
    /// tasks that finish the job (end_rules.h) and whose end is not durable
    std::uint64_t workers_left = 0;
    bool commit_granted = false;
    bool published = false;
    bool kill_requested = false;
    bool decided = false;                            ///< why the generation ends is recorded
    std::optional<cluster::TaskEnded> first_failed;  ///< which decided it
    std::optional<TaskId> lost_shard;  ///< its end was recorded while workers were left
  };
  struct Running {
    Epoch epoch;
    NodeId node;
    std::vector<std::uint16_t> ports;
    std::int64_t cpu_milli = 0;
  };
  void check_current(JobId job, Generation generation, const char* what);
  void on_placed(const cluster::JobPlaced& placed);
  void on_task_ended(const cluster::TaskEnded& ended);
  void on_job_ended(Job& job, const cluster::JobView& view);
  /// The policy of the role that failed first, or of the job, wants another generation.
  static bool starts_again(const Job& job);
  void give_back(const Job& job, const cluster::PlacedTask& task);
  static std::int64_t cpu_of(const Job& job, const TaskId& task);
  /// As the job's spec has it; nullptr when it does not.
  static const cluster::RoleSpec* role_of(const Job& job, const TaskId& task);
  static bool finishes(const Job& job, const TaskId& task);
  static bool trains(const Job& job, const TaskId& task);

  std::map<JobId, Job> jobs_;
  std::uint64_t term_ = 0;
  std::set<Epoch> epochs_;
  std::set<std::pair<TaskId, Epoch>> prepared_, spawned_;
  std::map<TaskId, Running> running_;
  std::map<std::pair<NodeId, std::uint16_t>, TaskId> ports_;
  std::map<NodeId, std::int64_t> cpu_;
  std::map<TaskId, cluster::TaskEnd> process_ends_;
  std::uint64_t shards_lost_ = 0;  ///< while workers were left
  std::set<JobId> acked_;
  std::map<std::string, JobId> keys_;
  std::map<std::pair<TaskId, std::string>, std::uint64_t> entered_;
  std::map<std::pair<NodeId, std::uint16_t>, TaskId> port_leases_;  ///< of placements in force
  std::map<NodeId, std::int64_t> cpu_leases_;
  std::set<TaskId> leased_;  ///< whose part of the two above is held
  std::map<NodeId, std::int64_t> capacity_;
  std::map<NodeId, TimePoint> heard_;
  const SimLoop& loop_;
  InputChecker inputs_;
  PsChecker ps_;
  std::optional<std::string> violation_;
};

}  // namespace dlrun::sim
