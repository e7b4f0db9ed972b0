#pragma once
/// runtime/cluster/core/event.h: what the control plane writes to the EventLog, as values. Every
/// table is a fold of these, in order of the log. runtime/wire encodes each as one record; the
/// record's `job` is job_of(event).
/// Order per job: JobSubmitted (JobPlaced JobStateChanged* TaskEnded* GenerationEnded)* JobEnded,
/// with JobKillRequested and the input records anywhere between. Nothing follows JobEnded; a reader
/// ignores what does.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/cluster/core/api.h"
#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

// ---- the cluster

/// A coordinator took over. Durable before it answers anybody: its epochs are above all earlier
/// ones.
struct TermStarted {
  std::uint64_t term = 0;
  friend bool operator==(const TermStarted&, const TermStarted&) = default;
};

struct SeenKey {
  std::string key;
  JobId job;
  std::uint64_t fingerprint = 0;
  friend bool operator==(const SeenKey&, const SeenKey&) = default;
};
/// Stands for the records of ended jobs that retention removed: a log may begin with it.
struct Baseline {
  std::uint64_t term = 0;
  JobId last_job;
  std::uint64_t jobs_finished = 0;
  std::vector<SeenKey> keys;  ///< idempotency keys, oldest first, bounded
  friend bool operator==(const Baseline&, const Baseline&) = default;
};

struct NodeJoined {
  NodeId node;
  Incarnation incarnation;
  std::string address;
  std::string version;
  sched::NodeCapacity capacity;
  friend bool operator==(const NodeJoined&, const NodeJoined&) = default;
};

struct NodeStateChanged {
  NodeId node;
  Incarnation incarnation;
  NodeState state = NodeState::kUp;
  std::string reason;
  friend bool operator==(const NodeStateChanged&, const NodeStateChanged&) = default;
};

// ---- one job

struct JobSubmitted {
  JobId job;
  JobSpec spec;
  std::string key;                ///< "<owner>\n<Idempotency-Key>"; "" = none
  std::uint64_t fingerprint = 0;  ///< of the spec
  WallTime at;
  friend bool operator==(const JobSubmitted&, const JobSubmitted&) = default;
};

struct PlacedTask {
  TaskId task;
  std::string address;  ///< of its node
  sched::Slot slot;
  friend bool operator==(const PlacedTask&, const PlacedTask&) = default;
};

/// Generation `generation` holds these slots under `epoch`. Durable before any agent hears of it.
struct JobPlaced {
  JobId job;
  Generation generation;
  Epoch epoch;
  std::vector<PlacedTask> tasks;  ///< by role in order of the spec, then by rank
  WallTime at;
  friend bool operator==(const JobPlaced&, const JobPlaced&) = default;
};

/// kRunning: every task of the generation has started. kStopping: `cause` ends it (only kTimeLimit,
/// kStartFailed and kPreempted come this way; failures and kills have records of their own).
struct JobStateChanged {
  JobId job;
  Generation generation;
  JobState state = JobState::kRunning;
  Cause cause = Cause::kNone;
  std::string reason;
  WallTime at;
  friend bool operator==(const JobStateChanged&, const JobStateChanged&) = default;
};

struct TaskEnded {
  TaskId task;
  Epoch epoch;
  TaskEnd end;
  WallTime at;
  friend bool operator==(const TaskEnded&, const TaskEnded&) = default;
};

struct JobKillRequested {
  JobId job;
  std::string reason;
  WallTime at;
  friend bool operator==(const JobKillRequested&, const JobKillRequested&) = default;
};

/// Every task of the generation has ended and the job goes back to the queue as generation + 1.
struct GenerationEnded {
  JobId job;
  Generation generation;
  Cause cause = Cause::kNone;
  std::string reason;
  WallTime at;
  friend bool operator==(const GenerationEnded&, const GenerationEnded&) = default;
};

/// The one final record: the whole view, so that a finished job is answered from this record alone.
/// view.spec.submit_env is left out.
struct JobEnded {
  JobView view;
  friend bool operator==(const JobEnded&, const JobEnded&) = default;
};

// ---- inputs: the operations on a job's ledger, replayed in order

struct InputFilesSet {
  JobId job;
  Generation generation;
  std::string input;
  std::vector<io::FileEntry> files;
  friend bool operator==(const InputFilesSet&, const InputFilesSet&) = default;
};
/// One request of a consumer: what it finished, and so many splits more (0 = none).
struct SplitsLeased {
  TaskId consumer;
  std::string input;
  std::uint32_t splits_max = 1;
  std::uint64_t request = 0;
  bool resync = false;
  std::vector<io::SplitKey> held;
  std::vector<io::SplitKey> done;  ///< before the resync
  friend bool operator==(const SplitsLeased&, const SplitsLeased&) = default;
};

/// The ranks of `role` committed what they took of their inputs, at one point of the program: the
/// next generation begins there. Durable before any of them is told; stands for every earlier one
/// of the role, and outlives its generation.
struct InputsCommitted {
  JobId job;
  Generation generation;
  std::string role;
  std::uint64_t number = 0;  ///< of the job's commits, from 1
  std::string tag;
  struct Entered {
    std::uint32_t rank = 0;
    std::uint64_t id = 0;  ///< of its call: a repeat is told from the next
    friend bool operator==(const Entered&, const Entered&) = default;
  };
  std::vector<Entered> ranks;
  /// Of every input that the role ever committed: of those not named now, as before.
  std::vector<io::LedgerState> inputs;
  WallTime at;
  friend bool operator==(const InputsCommitted&, const InputsCommitted&) = default;
};

/// The ranks of `role` met at barrier `name` for the `round`-th time. Durable before any of them is
/// told.
struct BarrierMet {
  JobId job;
  Generation generation;
  std::string role;
  std::string name;
  std::uint64_t round = 0;
  friend bool operator==(const BarrierMet&, const BarrierMet&) = default;
};

/// Where the generation stands with its inputs and barriers: what SplitsLeased and BarrierMet have
/// said since it began, in one record. Recorded now and then, so that what a restart reads of a job
/// does not grow with its age.
struct JobSnapshot {
  JobId job;
  Generation generation;
  std::vector<io::LedgerState> inputs;
  /// The last answer to each consumer: it may have been lost on its way.
  struct Answer {
    TaskId consumer;
    std::string input;
    std::uint64_t request = 0;
    io::LeaseState state = io::LeaseState::kWait;
    std::vector<io::SplitKey> splits;
    friend bool operator==(const Answer&, const Answer&) = default;
  };
  std::vector<Answer> answers;
  struct Barrier {
    std::string role;
    std::string name;
    std::uint64_t round = 0;  ///< the last met
    friend bool operator==(const Barrier&, const Barrier&) = default;
  };
  std::vector<Barrier> barriers;  ///< by their first meeting
  friend bool operator==(const JobSnapshot&, const JobSnapshot&) = default;
};

/// held: it is not placed until released.
struct JobHeld {
  JobId job;
  bool held = true;
  std::string reason;
  WallTime at;
  friend bool operator==(const JobHeld&, const JobHeld&) = default;
};

/// The job is done by its end rules and all its tasks have ended: this generation's outputs may
/// take their places. No other generation follows.
struct CommitGranted {
  JobId job;
  Generation generation;
  WallTime at;
  friend bool operator==(const CommitGranted&, const CommitGranted&) = default;
};

/// The node could not do something as asked (a memory limit without a cgroup); the task runs all
/// the same. Once per task and text.
struct TaskWarned {
  TaskId task;
  Epoch epoch;
  std::string text;
  WallTime at;
  friend bool operator==(const TaskWarned&, const TaskWarned&) = default;
};

using Event = std::variant<TermStarted, Baseline, NodeJoined, NodeStateChanged, JobSubmitted,
                           JobPlaced, JobStateChanged, TaskEnded, JobKillRequested, GenerationEnded,
                           JobEnded, InputFilesSet, SplitsLeased, BarrierMet, JobHeld,
                           CommitGranted, TaskWarned, JobSnapshot, InputsCommitted>;

JobId job_of(const Event& event);              ///< {0} = cluster
std::string_view kind_of(const Event& event);  ///< "job_submitted", ...
std::string text_of(const Event& event);       ///< one line for a person
/// False for records that only machines read (inputs, commits, barriers, snapshots, baselines).
bool is_for_people(const Event& event);
/// `earlier` says nothing any more once `later`, of the same job and behind it in the log, is
/// durable: it may go. Never for what people read.
bool is_superseded(const Event& earlier, const Event& later);
/// `event` supersedes others.
bool supersedes(const Event& event);

}  // namespace dlrun::cluster
