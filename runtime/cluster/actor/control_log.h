#pragma once
/// runtime/cluster/actor/control_log.h: the EventLog as the control plane uses it: events in,
/// events out, and the answers that are read from it. No CAF. A job's row is folded here: one when
/// it is submitted, one when it has ended. A restart reads the cluster's own records and those of
/// unfinished jobs; what ended jobs left (ids, keys, count) becomes one Baseline.
/// Errors: those of the EventLog; kCorrupt names the record.
/// Threads: single owner (the store actor; before it, main).

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cluster/core/coordinator_core.h"
#include "runtime/store/event_log.h"

namespace dlrun::cluster {

class ControlLog {
 public:
  explicit ControlLog(std::unique_ptr<store::EventLog> log) : log_(std::move(log)) {}

  /// In an order that CoordinatorCore::apply takes. `keys_max`: idempotency keys of ended jobs that
  /// are remembered.
  Status replay(std::size_t keys_max, const std::function<void(const Event&)>& visit);
  /// One durable commit. Returns the index of the last event. What its events supersede is only
  /// noted.
  Result<std::uint64_t> append(const std::vector<Event>& events, std::uint64_t term, WallTime at);

  /// Something that was noted is still in the log.
  bool has_superseded() const { return !superseded_.empty(); }
  /// Removes it, some thousand records a call, in one commit of its own. Whoever waits for an
  /// append does not wait for this. On an error nothing is forgotten: call again. A replay notes
  /// anew what was left of unfinished jobs; what was left of others goes with retention.
  Status forget_superseded();

  Result<ApiReply> read(const ReadJob& query);
  Result<ApiReply> read(const ReadJobs& query);
  /// `last` of the answer is the last record looked at: with few events (or none) and `last` above
  /// `after`, ask on from it.
  Result<ApiReply> read(const ReadEvents& query);
  struct Retired {
    /// their records are gone: what else is kept of them may go too
    std::vector<std::uint64_t> jobs;
    std::size_t cluster_records = 0;  ///< terms, nodes that came and went
    bool more = false;                ///< call again soon
  };
  /// Forgets what is older than `before`: at most `jobs_max` finished jobs that ended by then, and
  /// the cluster's own records that a replay has no use for.
  Result<Retired> retire(WallTime before, std::uint32_t jobs_max);

 private:
  Result<store::JobRow> row_of(const JobEnded& event);
  /// Where the records of a live job begin that something may supersede; 0 = it has none.
  struct Growing {
    std::uint64_t files = 0;  ///< file tables: a snapshot leaves them
    std::uint64_t rest = 0;
  };
  /// Before which record of the job: a snapshot; the end of a generation or of the job.
  struct Superseded {
    Growing from;
    std::uint64_t by_snapshot = 0;
    std::uint64_t by_end = 0;
    std::vector<std::uint64_t> commits;  ///< records of inputs, by a later one or the job's end
  };
  void note(const Event& event, std::uint64_t index);
  void note_commit(const InputsCommitted& commit, std::uint64_t index);
  Status collect(JobId job, const Superseded& what, std::vector<std::uint64_t>& gone);

  std::unique_ptr<store::EventLog> log_;
  std::map<JobId, Growing> growing_;
  std::map<JobId, std::map<std::string, std::uint64_t>> commits_;  ///< the last, by role
  std::map<JobId, Superseded> superseded_;
};

}  // namespace dlrun::cluster
