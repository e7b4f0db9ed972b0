#pragma once
/// runtime/cluster/core/job_record.h: what the log says about one job that has not ended: a fold of
/// its events. JobCore applies each event to its record when it decides it, the coordinator when it
/// replays the log: the same code, so a recovered job stands where the log left it. Also: the gang
/// that a job asks the scheduler for.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/cluster/core/end_rules.h"
#include "runtime/cluster/core/event.h"
#include "runtime/cluster/core/task_index.h"

namespace dlrun::cluster {

/// Why a generation ends. Set once per generation, by the first of the events that can set it.
enum class Verdict : std::uint8_t {
  kNone = 0,
  kDone = 1,        ///< by the end rules of its roles: what still runs may linger, and is stopped
  kFailed = 2,      ///< by the same; `first_failed` names the task
  kKilled = 3,      ///< a user asked
  kTimeout = 4,     ///< the job's time limit
  kNotStarted = 5,  ///< the gang was not prepared or ready in time
  kPreempted = 6,   ///< it gives its place up: back to the queue
};

/// TaskEnded: what the task held goes back.
using LedgerOp = std::variant<InputFilesSet, SplitsLeased, TaskEnded, JobSnapshot>;

inline constexpr std::size_t kBarriersMax = 1024;  ///< names remembered per job

struct EndedTask {
  TaskEnd end;
  WallTime at;
};

struct JobRecord {
  JobId id;
  std::shared_ptr<const JobSpec> spec;
  WallTime submitted, started;
  WallTime placed_at;  ///< of the generation: where its time limit counts from
  Generation generation{1};
  Epoch epoch;                            ///< of the generation; {0,0} = not placed
  std::vector<PlacedTask> tasks;          ///< empty = not placed
  TaskIndex index;                        ///< of `tasks`
  std::map<std::size_t, EndedTask> ends;  ///< by index in `tasks`
  EndTally tally;                         ///< of `ends`
  std::set<std::pair<std::size_t, std::string>> warned;
  bool running_seen = false;  ///< kRunning was recorded for this generation
  Verdict verdict = Verdict::kNone;
  WallTime done_at;                         ///< of kDone: where lingering counts from
  std::optional<std::size_t> first_failed;  ///< index in `tasks`
  bool kill_requested = false;
  bool held = false;            ///< not placed until released
  std::string held_why;         ///< as the user said; "" = nothing, or since its submit
  bool requeued = false;        ///< the last generation was preempted, and none was placed since
  std::uint32_t preempted = 0;  ///< generations that were: they use up no restart
  std::uint32_t moved = 0;      ///< generations that a taken port ended: nor do the first kMovesMax
  bool commit_granted = false;  ///< of this generation; none follows
  std::string reason;           ///< of the verdict, for a person
  using BarrierKey = std::pair<std::string, std::string>;  ///< role, name
  std::map<BarrierKey, std::uint64_t> barriers_met;        ///< the last round met
  /// of the first meeting; the oldest beyond kBarriersMax go
  std::deque<BarrierKey> barrier_order;
  /// By role; across generations.
  std::map<std::string, InputsCommitted> commits;
  std::vector<LedgerOp> ledger_ops;  ///< of this generation; kept during replay only
  /// Leases and barriers recorded in this generation since it began or its last snapshot.
  std::uint64_t since_snapshot = 0;
  /// As many such records are as large as the last snapshot of this generation.
  std::uint64_t snapshot_weight = 0;

  /// Events of another job, generation or epoch change nothing.
  void apply(const Event& event);
  std::optional<std::size_t> index_of(const TaskId& task) const;  ///< O(roles)
  const RoleSpec& role_of(std::size_t task) const;                ///< of tasks[task]
  /// The generation ends because of a port that another program has, and gets other ports.
  bool moves() const;
  /// Where the input begins in a new generation: what the last commit says of it. nullptr = anew.
  const io::LedgerState* committed(const std::string& input) const;
  /// Generations before this one that a failure ended.
  std::uint32_t restarts_used() const { return generation.value - 1 - preempted - moved; }
  bool all_ended() const { return !tasks.empty() && ends.size() == tasks.size(); }

  JobRecord() = default;
  JobRecord(const JobSubmitted& event, std::shared_ptr<const JobSpec> spec_in);
};

/// The gang of `generation`: per role `count` tasks, count_min <= count <= count_max, the same
/// share of the range for each role: share 0 = all count_min, 1 = all count_max. A process role of
/// a job of several processes leases at least one port per task.
sched::GangRequest gang_of(const JobSpec& spec, JobId job, Generation generation,
                           TimePoint submitted, double share);
/// The gang that `placed` was given for, and its placement: for Placer::adopt.
std::pair<sched::GangRequest, sched::Placement> gang_of(const JobRecord& record,
                                                        TimePoint submitted);

/// The outputs that record.tasks[index] writes: those of its role, when it is rank 0.
std::vector<OutputSpec> outputs_of(const JobRecord& record, std::size_t index);
/// Where the output is written until it takes its place: beside it, so that a rename moves it.
std::string staging_path(const OutputSpec& output, const TaskId& task);
/// "DLRUN_OUTPUT_" and the name in capitals; other characters than letters and digits become '_'.
std::string output_variable(const OutputSpec& output);

/// FNV-1a over every field of the spec: tells a repeat of a submit from another submit under the
/// same key.
std::uint64_t fingerprint(const JobSpec& spec);

}  // namespace dlrun::cluster
