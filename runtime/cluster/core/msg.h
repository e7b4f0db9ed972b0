#pragma once
/// runtime/cluster/core/msg.h: jobs, tasks and nodes as values, and what coordinator and agent say
/// to each other. runtime/wire encodes each message in an Envelope; nothing here knows how.
/// Units: durations ns (Duration), sizes bytes.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/core/msg.h"
#include "ps/core/msg.h"
#include "runtime/base/ids.h"
#include "runtime/base/time.h"
#include "scheduler/core/msg.h"

namespace dlrun::cluster {

// ---- jobs

enum class RoleKind : std::uint8_t { kBatch = 0, kService = 1 };
/// kProcess: argv is a program. kShardHost: dlrun's own parameter shard (argv empty).
enum class RoleProgram : std::uint8_t { kProcess = 0, kShardHost = 1 };
/// When a task counts as ready, for the roles that come after it. kRunning: its program runs.
/// kTold: it has said so (dlrun_ready). kPort: its first leased port takes connections. A shard
/// host always says so itself.
enum class ReadyWhen : std::uint8_t { kRunning = 0, kTold = 1, kPort = 2 };
/// What the end of a role's tasks means for its job: the rows of end_rules.h. kByKind: batch =
/// kAll, service = kOutlives.
enum class EndRule : std::uint8_t {
  kByKind = 0,
  kAll = 1,
  kDecides = 2,
  kQuorum = 3,
  kTolerant = 4,
  kAwaited = 5,
  kIgnored = 6,
  kServes = 7,
  kOutlives = 8,
};
enum class EnvPolicy : std::uint8_t {
  kClean = 0,
  kInherit = 1
};  ///< inherit: the submitter's, in JobSpec::submit_env

using EnvList = std::vector<std::pair<std::string, std::string>>;  ///< values may hold '=', '|',
                                                                   ///< newlines, any byte but NUL

/// What setrlimit bounds for each program of a role: name -> soft and hard limit, ~0 = unlimited.
using Rlimits = std::map<std::string, std::uint64_t>;
inline constexpr std::array<std::string_view, 6> kRlimitNames{"core",   "fsize", "memlock",
                                                              "nofile", "nproc", "stack"};

enum class Cause : std::uint8_t {
  kNone = 0,
  kExit = 1,    ///< the program ended; code
  kSignal = 2,  ///< the program was ended by a signal; signal
  kOom = 3,     ///< the memory limit; peak_bytes, limit_bytes
  kTimeLimit = 4,
  kUserKill = 5,
  kSibling = 6,  ///< stopped because another rank failed
  kNodeLost = 7,
  kShimLost = 8,
  kStartFailed = 9,  ///< could not be started: detail says why
  kPreempted = 10,
  kCoordinator = 11,  ///< refused or ended by the control plane: detail says why
  kStopped = 12,      ///< its peers are done: it was told to stop, and that is a good end
};

struct RoleSpec {
  std::string name;
  RoleKind kind = RoleKind::kBatch;
  RoleProgram program = RoleProgram::kProcess;
  std::uint32_t count_min = 1;
  std::uint32_t count_max = 1;
  std::vector<std::string> argv;
  EnvList env;
  std::string cwd;  ///< must exist on the node; "" = JobSpec::cwd where it exists there, else the
                    ///< task's work directory
  sched::Resources resources;
  sched::Labels require;
  std::vector<std::string> after;  ///< roles that must be ready before this one's program runs
  ReadyWhen ready = ReadyWhen::kRunning;
  Duration time_limit{0};  ///< of each of its programs, from its start; 0 = the job's
  /// Causes after which an end of this role starts the gang again; absent = RestartPolicy::on.
  std::optional<std::vector<Cause>> restart_on;
  Rlimits rlimits;
  EndRule end = EndRule::kByKind;
  std::uint32_t quorum = 0;             ///< kQuorum: good ends wanted, at most all; 0 = all
  std::uint32_t failures_permille = 0;  ///< kTolerant: this share fails the job; 0 = a half
  /// Once the job is done: how long it may go on by itself. Absent = the rule's.
  std::optional<Duration> linger;
  friend bool operator==(const RoleSpec&, const RoleSpec&) = default;
};

/// A folder that appears whole, and only when the job is done by its end rules (under some of
/// these also with failed tasks). Rank 0 of `role` writes into the folder that DLRUN_OUTPUT_<NAME>
/// names, beside `path` on its node; the job actor grants the rename at the end (COMMITTING). The
/// outputs of one role appear together or not at all; when those of another role cannot, the job is
/// FAILED and these stay.
struct OutputSpec {
  std::string name;
  std::string path;  ///< absolute
  std::string role;
  friend bool operator==(const OutputSpec&, const OutputSpec&) = default;
};

struct RestartPolicy {
  std::uint32_t restarts_max = 0;  ///< new generations after the first
  std::vector<Cause> on = {Cause::kNodeLost, Cause::kShimLost};
  friend bool operator==(const RestartPolicy&, const RestartPolicy&) = default;
};

struct JobSpec {
  std::string name;
  std::string owner;
  std::string project = "default";
  std::int32_t priority = 0;
  std::vector<RoleSpec> roles;
  std::vector<io::InputSpec> inputs;
  RestartPolicy restart;
  Duration time_limit{0};                    ///< 0 = none
  Duration grace{std::chrono::seconds(30)};  ///< TERM to KILL on a user's kill
  Duration failure_grace{
      std::chrono::seconds(2)};  ///< TERM to KILL of the siblings of a failed rank
  EnvPolicy env_policy = EnvPolicy::kInherit;
  EnvList submit_env;
  std::string cwd;    ///< the submitter's directory
  bool hold = false;  ///< submitted as HELD: waits for a release
  std::vector<OutputSpec> outputs;
  std::string framework;  ///< name of an adapter (framework/adapter.h); "" = none
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

/// design 9. The picture with its transitions is in job_core.h.
enum class JobState : std::uint8_t {
  kPending = 0,
  kAdmitted = 1,
  kStaging = 2,
  kStarting = 3,
  kRunning = 4,
  kStopping = 5,
  kCommitting = 6,
  kSucceeded = 7,
  kFailed = 8,
  kCancelled = 9,
  kTimeout = 10,
  kOom = 11,
  kLost = 12,
  kHeld = 13,
  kPreempted = 14,
};
constexpr bool is_final(JobState s) { return s >= JobState::kSucceeded && s <= JobState::kLost; }
std::string_view to_string(JobState state);  ///< "PENDING"
std::string_view to_string(Cause cause);     ///< "exit", "signal", "oom", ...

enum class TaskState : std::uint8_t {
  kWaiting = 0,
  kPreparing = 1,
  kPrepared = 2,
  kRunning = 3,
  kReady = 4,
  kStopping = 5,
  kEnded = 6
};
std::string_view to_string(TaskState state);

/// How a task ended. One terminal path: every end, from whatever side, becomes one of these.
struct TaskEnd {
  Cause cause = Cause::kNone;
  std::int32_t code = 0;    ///< kExit
  std::int32_t signal = 0;  ///< kSignal and the kills
  std::uint64_t peak_bytes = 0;
  std::uint64_t limit_bytes = 0;
  std::string detail;  ///< for a person
  bool ok() const { return (cause == Cause::kExit && code == 0) || cause == Cause::kStopped; }
  friend bool operator==(const TaskEnd&, const TaskEnd&) = default;
};

/// The exit code that `dlrun run` and `dlrun wait` return for this end: the user's own, or 128 +
/// signal.
int exit_code(const TaskEnd& end);

// ---- coordinator -> agent

using Token = std::array<std::uint8_t, 32>;

struct RegisterAck {
  std::uint64_t term = 0;
  Duration lease{0};  ///< the agent must be heard within this
  Duration heartbeat{0};
  std::string log_endpoint;           ///< where logs are shipped (data plane)
  std::string log_key;                ///< the coordinator's CURVE public key (Z85)
  std::vector<TaskId> unknown_tasks;  ///< kill these: they belong to no live epoch
  /// no live epoch of this node is below: refuse PrepareTask of those
  Epoch epoch_floor;
  std::uint64_t sequence = 0;  ///< of the Register that this answers
  friend bool operator==(const RegisterAck&, const RegisterAck&) = default;
};

/// A small file that a task finds in its work directory when its program starts.
struct TaskFile {
  std::string name;  ///< a plain file name
  std::string bytes;
  std::vector<std::string> variables;  ///< of the task's environment; their value is its path
  friend bool operator==(const TaskFile&, const TaskFile&) = default;
};

/// Makes the work directory, starts nothing (but see start_at_once). Answer: TaskUpdate{kPrepared},
/// or kEnded with kStartFailed.
struct PrepareTask {
  TaskId task;
  Epoch epoch;
  std::string job_name;
  std::string owner;
  RoleProgram program = RoleProgram::kProcess;
  std::vector<std::string> argv;
  EnvList env;  ///< complete but for what the agent adds (paths, sockets)
  std::string cwd;
  sched::Resources resources;
  sched::Slot slot;
  Token token{};            ///< what the task's programs must show at the agent's socket
  std::uint32_t world = 1;  ///< ranks of this role
  std::vector<io::InputSpec> inputs;
  Duration time_limit{0};
  bool start_at_once = false;  ///< a gang of one needs no barrier: Prepare and Start in one message
  ReadyWhen ready = ReadyWhen::kRunning;
  std::vector<OutputSpec> outputs;  ///< of this task
  bool cwd_required = false;  ///< cwd was asked for: where it is missing the task does not start
  Rlimits rlimits;
  Duration grace{std::chrono::seconds(30)};  ///< TERM to KILL at the time limit
  /// What its role committed last, in an earlier generation; 0 = nothing.
  std::uint64_t commit_number = 0;
  std::string commit_tag;
  std::vector<TaskFile> files;  ///< of a task that starts at once
  friend bool operator==(const PrepareTask&, const PrepareTask&) = default;
};

/// Runs the prepared program. Sent when the whole gang is prepared and the roles in `after` are
/// ready.
struct StartTask {
  TaskId task;
  Epoch epoch;
  EnvList env;    ///< rendezvous variables, appended to PrepareTask::env
  ps::PsView ps;  ///< empty shards = none
  std::vector<TaskFile> files;
  friend bool operator==(const StartTask&, const StartTask&) = default;
};

struct StopTask {
  TaskId task;
  Epoch epoch;
  Duration grace{0};  ///< TERM, this long, KILL
  Cause cause = Cause::kUserKill;
  friend bool operator==(const StopTask&, const StopTask&) = default;
};

/// A worker is gone (left well or died): its clocks leave every shard's set. Sent to the agents of
/// the job's shards.
struct WorkerGone {
  TaskId shard_task;  ///< to whom
  TaskId worker;
  Epoch epoch;
  friend bool operator==(const WorkerGone&, const WorkerGone&) = default;
};

struct BarrierDone {
  TaskId task;
  Epoch epoch;
  std::string name;
  std::uint64_t round = 0;
  friend bool operator==(const BarrierDone&, const BarrierDone&) = default;
};
/// Of the commit `id`. `error` zero: it is on record, `number` says which of the job's it is.
struct CommitDone {
  TaskId task;
  Epoch epoch;
  std::uint64_t id = 0;
  std::uint64_t number = 0;
  Errc error{};
  std::string error_context;
  friend bool operator==(const CommitDone&, const CommitDone&) = default;
};
struct LeaseReply {
  TaskId task;
  Epoch epoch;
  std::uint64_t request = 0;
  Errc error{};
  std::string error_context;
  io::LeaseAnswer answer;
  friend bool operator==(const LeaseReply&, const LeaseReply&) = default;
};
/// The task's end was recorded; the agent may forget it and clean its directory.
struct TaskEndAck {
  TaskId task;
  Epoch epoch;
  friend bool operator==(const TaskEndAck&, const TaskEndAck&) = default;
};
/// Answers each Heartbeat. `known` false, or a term above the registered one: register again.
struct HeartbeatAck {
  std::uint64_t term = 0;
  std::uint64_t sequence = 0;
  bool known = true;
  friend bool operator==(const HeartbeatAck&, const HeartbeatAck&) = default;
};

/// The job has succeeded and its grant is on disk: put what `task` wrote in its place. Repeated
/// until OutputsCommitted.
struct CommitOutputs {
  TaskId task;
  Epoch epoch;
  std::vector<OutputSpec> outputs;
  friend bool operator==(const CommitOutputs&, const CommitOutputs&) = default;
};

using ToAgent = std::variant<RegisterAck, PrepareTask, StartTask, StopTask, WorkerGone, BarrierDone,
                             LeaseReply, TaskEndAck, HeartbeatAck, CommitOutputs, CommitDone>;

// ---- agent -> coordinator

/// Where a native task or a feeder listens, told when it is ready; empty = not there. tcp:
/// "tcp://10.0.0.1:5"; ipc: the path of a Unix socket, for its own node.
struct TaskReadyInfo {
  std::string tcp;
  std::string ipc;
  friend bool operator==(const TaskReadyInfo&, const TaskReadyInfo&) = default;
};

/// Everything the coordinator must know of one task; sent on each change and in Register. kEnded is
/// repeated until TaskEndAck.
struct TaskUpdate {
  TaskId task;
  Epoch epoch;
  TaskState state = TaskState::kPreparing;
  TaskEnd end;  ///< when kEnded
  TaskReadyInfo ready;
  std::int64_t pid = 0;
  std::string warning;  ///< what the node could not do as asked; it runs all the same
  friend bool operator==(const TaskUpdate&, const TaskUpdate&) = default;
};

struct Register {
  NodeId node;
  Incarnation incarnation;
  std::string address;  ///< by the route to the coordinator
  sched::NodeCapacity capacity;
  std::vector<TaskUpdate> tasks;
  std::string version;
  std::uint64_t sequence = 0;  ///< counts this incarnation's tries
  friend bool operator==(const Register&, const Register&) = default;
};

struct Heartbeat {
  NodeId node;
  Incarnation incarnation;
  std::uint64_t sequence = 0;
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
struct Progress {
  TaskId task;
  Epoch epoch;
  double fraction = 0;
  std::string text;
  friend bool operator==(const Progress&, const Progress&) = default;
};
/// `round` counts how often the process entered this name, from 1, so that a repeat is told from
/// the next entry. Repeated until BarrierDone of the same round. The ranks of one role meet.
struct BarrierArrive {
  TaskId task;
  Epoch epoch;
  std::string name;
  std::uint64_t round = 0;
  friend bool operator==(const BarrierArrive&, const BarrierArrive&) = default;
};
struct InputFiles {
  TaskId task;
  Epoch epoch;
  std::string input;
  std::vector<io::FileEntry> files;
  std::uint64_t request = 0;
  friend bool operator==(const InputFiles&, const InputFiles&) = default;
};
/// `request` rises per consumer and input: a repeat of the last gets the same answer, an older one
/// none. `done`: read and released, until an answer says that it is recorded. splits_max 0: the
/// news alone.
struct LeaseSplits {
  TaskId task;
  Epoch epoch;
  std::string input;
  std::uint32_t splits_max = 1;
  std::uint64_t request = 0;
  bool resync = false;
  std::vector<io::SplitKey> held;
  std::vector<io::SplitKey> done;
  std::vector<io::StepReport> steps;  ///< lanes: the pass before and this one
  friend bool operator==(const LeaseSplits&, const LeaseSplits&) = default;
};  ///< resync, held: call Ledger::resync first

/// A rank stands at a commit: it has taken `inputs`. `id` is one of this call alone, repeated until
/// CommitDone of it.
struct CommitInputs {
  TaskId task;
  Epoch epoch;
  std::uint64_t id = 0;
  std::string tag;
  std::vector<io::InputCursor> inputs;  ///< those that it opened
  friend bool operator==(const CommitInputs&, const CommitInputs&) = default;
};

/// The agent has passed WorkerGone on to the shard host.
struct WorkerGoneAck {
  TaskId shard_task;
  TaskId worker;
  Epoch epoch;
  friend bool operator==(const WorkerGoneAck&, const WorkerGoneAck&) = default;
};

/// `under_way`: not yet; `progress` files and folders are done so far. Else, `error` zero: all
/// outputs of the task are in their places; or none is, but those that the error says could not be
/// taken back.
struct OutputsCommitted {
  TaskId task;
  Epoch epoch;
  Errc error{};
  std::string error_context;
  bool under_way = false;
  std::uint64_t progress = 0;
  friend bool operator==(const OutputsCommitted&, const OutputsCommitted&) = default;
};

using FromAgent = std::variant<Register, Heartbeat, TaskUpdate, Progress, BarrierArrive, InputFiles,
                               LeaseSplits, WorkerGoneAck, OutputsCommitted, CommitInputs>;

}  // namespace dlrun::cluster
