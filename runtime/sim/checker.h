#pragma once
/// runtime/sim/checker.h: the invariants, apart from the workload and from the cores: it sees only what is durable and what
/// really runs. Checked at each step that touches them; quiet() once at the end. The first violation is kept.
///
///   terms and epochs: terms rise; no epoch is given twice; a job's epochs rise
///   nothing of epoch e is accepted after e+1: no record of an older generation after JobPlaced
///   nothing runs without a durable placement, nor twice, nor before its whole gang is prepared
///   no port held by two running processes, CPUs of running processes within the node
///   one final state per job; none before all of its tasks have ended; recorded ends are what happened
///   an acknowledged submit is durable; one key, one job
///   a split is read by one process, unless the reader failed or its agent died with the news; all are read when a job succeeds; a barrier opens when all are there
///   every push acknowledged by a shard is in its rows exactly once, under the shard's epoch
///   after quiet: every acknowledged job has ended and nothing runs anywhere

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/core/event.h"

namespace dlrun::sim {

class Checker {
 public:
  void on_durable(const cluster::Event& event);
  void on_prepared(const TaskId& task, Epoch epoch) { prepared_.insert({task, epoch}); }
  void on_spawn(const cluster::PrepareTask& task, std::int64_t cpu_milli_of_node);
  void on_process_end(const TaskId& task, const cluster::TaskEnd& end);
  void on_cleaned(const TaskId& task, Epoch epoch);
  void on_submit_acked(const std::string& key, JobId job);
  void on_barrier_entered(const TaskId& task, const std::string& name, std::uint64_t round);
  void on_barrier_passed(const TaskId& task, const std::string& name, std::uint64_t round);
  /// What the agent of `node` knew of splits read is gone with it: those not durable may be read again.
  void on_agent_lost(const NodeId& node);
  void on_lease_answered(const TaskId& task, Epoch epoch);
  void on_split_read(const TaskId& task, const std::string& input, const io::Split& split);
  void on_push_accepted(const TaskId& shard, ClientId client, std::uint64_t sequence, std::uint64_t key, Epoch of_request,
                        Epoch of_shard);
  void on_row(const TaskId& shard, std::uint64_t key, float value);  ///< read back from a shard before it ends

  std::uint64_t rows_expected(const TaskId& shard) const;
  std::vector<std::uint64_t> keys_of(const TaskId& shard) const;
  const std::set<JobId>& acked() const { return acked_; }
  bool ended(JobId job) const;
  std::size_t running() const { return running_.size(); }
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
    std::map<std::string, std::uint64_t> splits;  ///< of an input, all passes
    std::optional<cluster::JobView> final_view;
    bool generation_over = false;
  };
  struct Running {
    Epoch epoch;
    NodeId node;
    std::vector<std::uint16_t> ports;
    std::int64_t cpu_milli = 0;
  };
  void check_current(JobId job, Generation generation, const char* what);
  void on_job_ended(Job& job, const cluster::JobView& view);

  std::map<JobId, Job> jobs_;
  std::uint64_t term_ = 0;
  std::set<Epoch> epochs_;
  std::set<std::pair<TaskId, Epoch>> prepared_, spawned_;
  std::map<TaskId, Running> running_;
  std::map<std::pair<NodeId, std::uint16_t>, TaskId> ports_;
  std::map<NodeId, std::int64_t> cpu_;
  std::map<TaskId, cluster::TaskEnd> process_ends_;
  std::set<JobId> acked_;
  std::map<std::string, JobId> keys_;
  std::map<std::pair<TaskId, std::string>, std::uint64_t> entered_;
  using InputOf = std::pair<std::pair<JobId, Generation>, std::string>;
  std::map<InputOf, std::map<std::pair<std::uint32_t, std::uint64_t>, TaskId>> readers_;  ///< by pass and split
  std::set<std::pair<TaskId, std::string>> finished_;  ///< durable: reader, and "input pass split"
  std::set<TaskId> excused_;                           ///< their agent died
  std::set<std::string> pushes_;
  std::map<TaskId, std::map<std::uint64_t, std::uint64_t>> rows_;  ///< shard -> key -> pushes accepted
  std::optional<std::string> violation_;
};

}  // namespace dlrun::sim
