#pragma once
/// runtime/cluster/core/job_core.h: one job, from its first placement to its one final state.
///
///    HELD <-----------------------------11-----------------------------+
///     | ^                                                              |
///    11 11                                                             |
///     v |                                                              |
///   PENDING -1-> ADMITTED -2-> STAGING -3-> STARTING -4-> RUNNING -5-> STOPPING -7-> all ended
///     ^ ^            |            |             |            |            ^       |   |   |
///     | |            +------------+------6------+------------+------------+       |   |   12
///     | |                                                                         |   |   v
///     | +--------------------------------8----------------------------------------+   9 COMMITTING
///     |                                                                           |   |   |
///     +--1-- PREEMPTED <-----------------------------14---------------------------+   |   13
///                                                                                     v   v
///   any without a place -10-> CANCELLED  SUCCEEDED FAILED CANCELLED TIMEOUT OOM LOST <+---+
///
///   1: Placed arrived: the gang holds slots under a new epoch.
///   2: PrepareTask went to each task's agent.
///   3: the gang barrier: every task is prepared. Roles without `after` start; others when the
///      roles they name are ready (a shard host by kReady with its endpoint, a process by running).
///      A gang of one is prepared and started by one message and passes 3 by itself.
///   4: every task of the generation has started.
///   5: by the end rules of its roles (end_rules.h) the job is done (what still runs may linger as
///      long as its role says, then it is stopped, which counts as success) or has failed (siblings
///      get `failure_grace`), or a kill (`grace`), or the time limit (`grace`).
///      A worker's failure waits `blame_window` for the end of a shard or role that it leans on:
///      that one is named then.
///   6: the same before RUNNING; also when the gang is not prepared, or not ready, in time.
///   7: all tasks have ended, or their nodes are lost.
///   8: the cause is in the restart policy of the role that failed first, or of the job, and
///      restarts are left: a new generation, under a new epoch, queued. Also when the first failed
///      because another program has a port that was leased to it (port_taken.h).
///   9: by the verdict and the first failed task's cause; JobEnded recorded.
///  10: killed before it was placed.
///  11: submitted or put on hold; released. A held job is queued nowhere.
///  12: the job is done, all its tasks have ended and there are outputs: CommitGranted is recorded.
///   From here no further generation follows, so nothing of this epoch can be published after the
///   next one began.
///  13: every agent concerned has put its outputs in their places, or one could not (FAILED), was
///   lost (LOST), did not answer within commit_timeout or did not get on within commit_stall
///   (FAILED), or a kill came and they are not there within `grace` (CANCELLED).
///  14: a requeue stopped it (as 5, with `grace`): a new generation, queued at once or held; it
///   uses up no restart.
///
/// Every command to an agent is repeated until the task's state shows that it took effect, every
/// report may arrive twice, late or out of order: task states only move forward within an epoch,
/// and other epochs are refused.
/// Errors: requests of another epoch are answered kStaleEpoch where they have an answer. Never
/// throws.
/// Bounds: kBarriersMax barrier names, one lease answer per consumer and input, one commit of each
/// task, repeats by backoff: see JobSettings.
/// Cost: O(roles) per event, O(tasks) when commands are due, when a barrier is met, and per report.
/// Threads: single owner (a job actor).

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/planted_bugs.h"
#include "runtime/cluster/core/barrier_set.h"
#include "runtime/cluster/core/deadline.h"
#include "runtime/cluster/core/job_record.h"
#include "runtime/cluster/core/now.h"
#include "runtime/cluster/core/persist_gate.h"
#include "runtime/cluster/core/tokens.h"

namespace dlrun::cluster {

struct JobSettings {
  Duration resend_first{std::chrono::milliseconds(500)};  ///< then doubled, to resend_max
  Duration resend_max{std::chrono::seconds(5)};
  Duration prepare_timeout{std::chrono::seconds(120)};
  Duration ready_timeout{std::chrono::seconds(120)};
  Duration report_interval{
      std::chrono::milliseconds(200)};  ///< least time between reports without a state change
  Duration persist_retry{std::chrono::seconds(1)};
  Duration service_grace{
      std::chrono::seconds(5)};  ///< TERM to KILL of services when the job succeeded
  /// Of the outputs of a job that succeeded: an agent that says nothing of them for so long, and
  /// one that says for so long that it is at the same place.
  Duration commit_timeout{std::chrono::seconds(120)};
  Duration commit_stall{std::chrono::minutes(30)};
  /// Records of leases and barriers to a snapshot; more where the last one was larger than they
  /// are together.
  std::uint64_t snapshot_after = 1024;
  /// How long the failure of a task waits for the end of one that it leans on, before it is
  /// recorded as the first.
  Duration blame_window{std::chrono::milliseconds(700)};
  PlantedBugs bugs;
};

/// Makes the ledger of a generation from the job's inputs. May return nullptr when the job has
/// none.
using LedgerFactory = std::function<std::unique_ptr<io::Ledger>(const std::vector<io::InputSpec>&)>;

// ---- coordinator -> job
struct Placed {
  JobPlaced placed;
};  ///< recorded already
struct TaskMessage {
  NodeId from;
  FromAgent message;
};  ///< any of FromAgent but Register and Heartbeat
/// The node registered: `tasks` are those of this job and epoch that it knows. new_process: another
/// incarnation than before.
struct NodeBack {
  NodeId node;
  std::string address;
  std::vector<TaskUpdate> tasks;
  bool new_process = false;
};
struct NodeGone {
  NodeId node;
  std::string reason;
};  ///< lost and fenced
struct Kill {
  JobKillRequested request;
};  ///< recorded already
struct Preempt {
  JobStateChanged stopping;
};  ///< recorded already
struct Hold {
  JobHeld held;
};  ///< recorded already
using JobInput = std::variant<Placed, TaskMessage, NodeBack, NodeGone, Kill, Preempt, Hold>;

// ---- what a job decides
/// To the agent that is connected now as this node; lost when it is not.
struct SendToAgent {
  NodeId node;
  ToAgent message;
};
/// To the coordinator, in order.
struct JobReport {
  JobView view;
};  ///< spec is left out
struct JobNeedsPlacement {
  JobId job;
  Generation generation;
};  ///< the old slots are free; GenerationEnded is durable
struct JobOver {
  JobView view;
};  ///< JobEnded is durable
using JobToCoordinator = std::variant<JobReport, JobNeedsPlacement, JobOver>;
using JobEffect = std::variant<Persist, SendToAgent, JobToCoordinator>;
using JobEffects = std::vector<JobEffect>;

class JobCore {
 public:
  /// A new job, or one rebuilt from the log. `tokens` outlives the core.
  JobCore(JobRecord record, JobSettings settings, const TokenIssuer& tokens,
          LedgerFactory make_ledger);

  /// Once, before anything else: a recovered job goes on from its record, and asks for what it
  /// cannot know.
  JobEffects start(Now now);
  JobEffects on_input(const JobInput& input, Now now);
  JobEffects on_tick(Now now);
  JobEffects on_persisted(std::uint64_t id, Now now);
  /// Nothing is lost: it is tried again.
  JobEffects on_persist_failed(std::uint64_t id, const Error& error, Now now);

  /// When on_tick should be called next; nullopt = only after another event.
  std::optional<TimePoint> next_wake() const;
  /// JobOver has been emitted: the actor may quit.
  bool over() const { return over_; }
  /// The coordinator has not yet been told all that happened.
  bool report_pending() const { return !over_ && !ending_ && (report_due_ || report_now_); }
  JobState state() const { return state_; }
  JobView view() const;  ///< spec left out. O(tasks)
  const JobRecord& record() const { return record_; }

 private:
  enum class Want : std::uint8_t { kNothing, kPrepared, kStarted, kEnded };
  struct Task {
    TaskState state = TaskState::kWaiting;
    Want want = Want::kNothing;
    bool unverified = false;  ///< recovered or its agent restarted: its state must be heard again
    TaskReadyInfo ready;
    std::int64_t pid = 0;
    double progress = -1;
    WallTime started;
    TimePoint resend_at;
    Duration resend_after{0};
    Duration grace{0};  ///< of the stop
    Cause stop_cause = Cause::kNone;
    bool end_durable = false;
    /// shard hosts: workers whose WorkerGone is not acknowledged
    std::set<std::size_t> gone_unacked;
    TimePoint gone_resend_at;
    std::optional<TaskEnd>
        failed;  ///< ended; not recorded before `blame_at`, or an end that explains it
    TimePoint blame_at;
  };
  /// What start_what_may() asks of a role, kept up by set_task_state(): no event walks all tasks.
  struct Role {
    std::uint32_t live = 0;     ///< not ended
    std::uint32_t unready = 0;  ///< below ready_state()
    bool started = false;       ///< its tasks are wanted to run
    bool stopped = false;       ///< it lingers no longer
  };
  struct Commit {
    TimePoint resend_at;
    Duration resend_after{0};
    std::uint64_t progress = 0;  ///< as its agent said last
    Deadline silent;             ///< nothing was heard of it
    Deadline stalled;            ///< it is under way and stands still
  };

  // events
  void on(const Placed& input, Now now);
  void on(const TaskMessage& input, Now now);
  void on(const NodeBack& input, Now now);
  void on(const NodeGone& input, Now now);
  void on(const Kill& input, Now now);
  void on(const Preempt& input, Now now);
  void on(const Hold& input, Now now);
  void on_task(const NodeId& from, const TaskUpdate& update, Now now);
  void on_task(const NodeId& from, const Progress& progress, Now now);
  void on_task(const NodeId& from, const BarrierArrive& arrive, Now now);
  void on_task(const NodeId& from, const InputFiles& files, Now now);
  void on_task(const NodeId& from, const LeaseSplits& lease, Now now);
  void on_task(const NodeId& from, const WorkerGoneAck& ack, Now now);
  void on_task(const NodeId& from, const OutputsCommitted& committed, Now now);
  void on_task(const NodeId& from, const CommitInputs& commit, Now now);
  void on_task(const NodeId&, const Register&, Now) {}
  void on_task(const NodeId&, const Heartbeat&, Now) {}

  // decisions
  /// level-triggered: from record and tasks to what is wanted of each task
  void evaluate(Now now);
  void begin_generation(Now now);
  /// end_task(), or a little later when another task may be the reason. Who sees a dead shard first
  /// must not be named for it: records are in the order of causes.
  void take_end(std::size_t index, const TaskEnd& end, Now now);
  void end_failed(Now now);  ///< those whose time is over, or all once the verdict is there
  bool leans_on_another(std::size_t index) const;
  void end_task(std::size_t index, TaskEnd end, Now now);
  void finish_generation(Now now);
  void commit_outputs(Now now);
  void give_up_commits(Now now);  ///< those whose time is over end the job
  void next_generation(Cause cause, Now now);
  void set_want(std::size_t index, Want want, Now now);
  void stop_all(Cause cause, Duration grace, Now now);
  void stop_tasks(TaskIndex::Range range, Cause cause, Duration grace, Now now);
  void stop_what_lingered(Now now);  ///< of a job that is done
  TimePoint linger_over(std::size_t role) const;
  void start_what_may(Now now);
  void give_up_start(std::string reason, Now now);
  void end_job(JobState state, TaskEnd end, Now now);
  void send_due(Now now);
  void send_tasks_due(Now now);  ///< and finds the next `due_at_`. O(tasks)
  void send_command(std::size_t index, Now now);
  bool satisfied(const Task& task) const;
  void set_task_state(std::size_t index, TaskState state);
  void count_tasks();  ///< anew, from `tasks_`
  bool all_in(TaskState least) const;
  bool may_start(const RoleSpec& role) const;
  void check_barrier(const BarrierSet::Key& key);
  void check_barriers(const std::string& role);
  void check_commit(const std::string& role, Now now);
  void refuse_commit(const std::string& role, Errc code, const std::string& why);
  void refuse_commits(const std::string& why);      ///< of every role
  std::uint32_t world_of(std::size_t index) const;  ///< ranks of its role
  void make_ledger();
  void replay(const InputFilesSet& op);
  void replay(const SplitsLeased& op);
  void replay(const TaskEnded& op);
  void replay(const JobSnapshot& op);
  JobSnapshot snapshot() const;
  Error no_ledger() const;
  bool take_done(const TaskId& consumer, const std::string& input,
                 const std::vector<io::SplitKey>& done);
  void drop_consumer(std::size_t index);
  bool is_late_lease(const JobEffect& effect) const;
  void tell_gone(std::size_t worker, Now now);
  void set_state(JobState state);
  JobEffects flush(Now now);

  // making messages
  Epoch epoch() const { return record_.epoch; }
  const NodeId& node_of(std::size_t index) const { return record_.tasks[index].slot.node; }
  PrepareTask prepare_of(std::size_t index) const;
  StartTask start_of(std::size_t index) const;
  const ps::PsView& ps_view() const;
  bool gang_of_one() const { return record_.tasks.size() == 1; }
  bool is_shard_host(std::size_t index) const;
  /// What the task's state must be before it counts as ready.
  TaskState ready_state(std::size_t index) const;
  JobState waiting_state() const;  ///< of a job without a place
  /// It trains (end_rules.h): its clocks are in the shards' sets (ps_view).
  bool is_worker(std::size_t index) const;
  /// The task, when message is of this epoch and the task runs; otherwise nullopt and why in
  /// `error`.
  std::optional<std::size_t> live_task(const TaskId& task, Epoch epoch, Errc& error,
                                       std::string& context) const;
  void refuse_lease(const NodeId& to, const TaskId& task, Epoch epoch, std::uint64_t request,
                    Errc code, std::string context);

  /// A snapshot follows when it is time.
  void record_event(Event event, std::vector<JobEffect> then = {});
  /// All on disk, or none.
  void record_events(std::vector<Event> events, std::vector<JobEffect> then);
  void send(std::size_t index, ToAgent message);
  void send_after_durable(std::size_t index, ToAgent message);

  JobRecord record_;
  JobSettings settings_;
  const TokenIssuer& tokens_;
  LedgerFactory make_ledger_;
  std::unique_ptr<io::Ledger> ledger_;
  std::optional<Error> ledger_error_;  ///< why a job with inputs has no ledger
  std::vector<Task> tasks_;
  std::vector<Role> roles_;                    ///< by index in the spec, once placed
  std::array<std::uint32_t, 7> in_state_{};    ///< tasks by TaskState
  std::size_t failed_ = 0;                     ///< tasks with Task::failed
  TimePoint due_at_{};                         ///< nothing is to be sent to a task before
  mutable std::optional<ps::PsView> ps_view_;  ///< until a task tells other sockets
  BarrierSet barriers_;
  /// Who stands at a commit, by role and index. A core that is rebuilt begins without: agents
  /// repeat themselves.
  std::map<std::string, std::map<std::size_t, CommitInputs>> committing_;
  std::map<std::size_t, CommitDone> refused_;  ///< the last of a task, for its repeats
  std::map<std::size_t, Commit> commits_;      ///< by index of the task; those not yet answered
  std::set<std::string> inputs_set_;
  std::map<std::pair<std::size_t, std::string>, LeaseReply>
      answered_;  ///< the last, by consumer and input
  PersistGate<JobEffect> gate_;
  JobEffects out_;
  JobState state_ = JobState::kPending;
  std::optional<TimePoint> time_limit_at_;
  Deadline prepare_deadline_, ready_deadline_;
  Deadline commit_kill_;              ///< a kill waits so long for the outputs
  std::optional<TimePoint> done_at_;  ///< of the verdict kDone
  std::string progress_text_;
  bool report_due_ = false;
  bool report_now_ = false;
  TimePoint next_report_at_{};
  bool over_ = false;
  bool ending_ = false;  ///< JobEnded is staged
};

}  // namespace dlrun::cluster
