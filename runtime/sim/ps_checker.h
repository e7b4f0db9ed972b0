#pragma once
/// runtime/sim/ps_checker.h: what must hold between the workers and the shards of one generation of
/// a job, from what both sides said on the wire. Every push of the simulated programs adds 1 to
/// each of its keys, so a row counts the pushes that are in it.
///
///   a push is taken only under the shard's own map, by the version of the wire that is spoken, and
///     not from a worker that the shard was told is gone
///   ASP, SSP: a row read is what was acknowledged when the pull was sent, plus what was by its end
///   SSP(s): whoever reads at clock c, no member's clock is below c - s
///   BSP: a row read at clock c is exactly the acknowledged pushes of clocks < c
///   a row at the end of its shard: every acknowledged push once (BSP: at least those of clocks
///     that
///     every member has left), wherever its slot has been
///   a replica that heard only of what may change a shard is as the shard (sim_replica.h)

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/ids.h"

namespace dlrun::sim {

/// One generation of a job.
using PsJob = std::pair<JobId, Generation>;

class PsChecker {
 public:
  explicit PsChecker(std::function<void(std::string)> violated) : violated_(std::move(violated)) {}

  /// Placed: who counts for its clocks.
  void on_generation(const PsJob& job, std::vector<ps::WorkerId> workers);
  void on_schema(const PsJob& job, const ps::TableSchema& schema) { jobs_[job].schema = schema; }
  /// The process has ended, or its end is recorded.
  void on_worker_over(const TaskId& worker);

  // at a shard
  void on_map(const TaskId& shard, Epoch map) { shards_[shard].map = map; }
  void on_worker_gone_told(const TaskId& shard, ps::WorkerId worker) {
    shards_[shard].gone.insert(worker);
  }
  void on_push_accepted(const TaskId& shard, const ps::RequestHeader& request,
                        std::span<const std::uint64_t> keys);
  void on_row(const TaskId& shard, std::uint64_t key, float value);
  std::vector<std::uint64_t> keys_of(const PsJob& job) const;

  // at a worker
  void on_clock_told(const TaskId& worker, std::uint64_t clock);
  void on_clock_done(const TaskId& worker, std::uint64_t clock);  ///< every shard has said so
  void on_left(const TaskId& worker);                             ///< every shard has said so
  bool is_over(const TaskId& worker) const;
  /// What on_pulled() wants to know of the moment when the pull was sent.
  std::vector<std::uint64_t> on_pull(const PsJob& job, std::span<const std::uint64_t> keys) const;
  void on_pulled(const TaskId& worker, std::uint64_t clock, std::span<const std::uint64_t> keys,
                 std::span<const float> values, const std::vector<std::uint64_t>& before);

  std::uint64_t pushes() const { return pushes_; }
  std::uint64_t pulls() const { return pulls_; }

 private:
  struct Job {
    ps::TableSchema schema;
    struct Member {
      std::uint64_t told = 0;  ///< its clock, as a shard may have heard it
      std::uint64_t done = 0;  ///< as every shard has heard it
      bool over = false;
      bool left = false;
    };
    std::map<ps::WorkerId, Member> members;
    /// key -> clock -> acknowledged pushes
    std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> rows;
    std::set<std::tuple<ClientId, std::uint64_t, std::uint64_t>> seen;  ///< client, sequence, key
    std::uint64_t count(std::uint64_t key, std::uint64_t below = ~0ull) const;
    std::uint64_t low() const;  ///< told, of those not over
  };
  struct Shard {
    Epoch map;
    std::set<ps::WorkerId> gone;
  };
  Job::Member* member(const TaskId& worker);
  std::function<void(std::string)> violated_;
  std::map<PsJob, Job> jobs_;
  std::map<TaskId, Shard> shards_;
  std::uint64_t pushes_ = 0;
  std::uint64_t pulls_ = 0;
};

inline PsJob ps_job(const TaskId& task) { return {task.job, task.generation}; }

}  // namespace dlrun::sim
