#pragma once
/// runtime/cluster/core/agent_core.h: a node's side of the control plane: the table of its tasks,
/// and the link to the coordinator that may be cut at any moment.
///
/// The link:   Unregistered -1-> Registered -2-> Unregistered
///   1: RegisterAck. 2: no HeartbeatAck for `lease`, or HeartbeatAck{known = false} or of a higher
///   term, or on_link_down().
///      Tasks run on; Register is repeated with backoff. Nothing is prepared or started before the
///      answer: by then the coordinator may have given this node's ports to others.
/// A task:     (new) -1-> Preparing -2-> Prepared -3-> Starting -4-> Running -5-> Ready
///                       each -6-> Stopping -7-> Ended -8-> (forgotten)
///   1: PrepareTask of an epoch not below the newest seen of its job. 2: on_prepared. 3: StartTask,
///      or start_at_once. 4: on_started. 5: on_ready. 6: StopTask, or RegisterAck.unknown_tasks.
///   7: on_exit, or nothing ran yet. 8: TaskEndAck; until then TaskUpdate{kEnded} is repeated.
///      Forgotten tasks are remembered as tombstones, so that a late repeat of PrepareTask starts
///      nothing twice.
/// Commands may come twice and out of order: each answers with the task's state. A command for a
/// task that is not here is answered kEnded (kShimLost).
/// Errors: requests from processes of an epoch that is over get kStaleEpoch. Never throws.
/// Bounds: tasks_max, tombstones_max, requests_max. A lease or a file table beyond requests_max is
/// refused; an arrival at a barrier has no answer that says no, so it waits with its task until
/// there is room, kArrivalsMax names at most (a client has no more calls open).
/// Threads: single owner (the agent actor).

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/planted_bugs.h"
#include "runtime/cluster/core/msg.h"
#include "runtime/cluster/core/now.h"

namespace dlrun::cluster {

struct AgentSettings {
  NodeId node;
  Incarnation incarnation;
  std::string address;
  std::string version;
  sched::NodeCapacity capacity;
  Duration register_retry_first{
      std::chrono::milliseconds(200)};  ///< then doubled, to register_retry_max
  Duration register_retry_max{std::chrono::seconds(5)};
  /// ends, barriers, leases, splits done: first repeat, then doubled
  Duration resend{std::chrono::seconds(1)};
  Duration resend_max{std::chrono::seconds(10)};
  Duration progress_interval{std::chrono::milliseconds(200)};  ///< least time between two of a task
  std::uint32_t tasks_max = 4096;
  std::uint32_t tombstones_max = 8192;
  std::uint32_t requests_max = 4096;  ///< open arrivals, file tables and leases
  PlantedBugs bugs;
};

// ---- what an agent decides
struct SendToCoordinator {
  FromAgent message;
};  ///< lost when the link is down
/// Make the directory, write `task` in it so that a later agent finds it, check the program; then
/// on_prepared().
struct PrepareDir {
  PrepareTask task;
};
/// Write `start` beside it, open the task's socket, run the shim; then on_started() or
/// on_exit(kStartFailed).
struct SpawnShim {
  PrepareTask task;
  StartTask start;
};
/// TERM to the tree, `grace`, KILL; the end comes as on_exit(). 0 = KILL at once.
struct SignalShim {
  TaskId task;
  Duration grace{0};
  Cause cause = Cause::kUserKill;
};
/// The end is acknowledged: close the socket, remove the work directory (logs stay as retention
/// says).
struct CleanTask {
  TaskId task;
};
// to a process through its socket
struct DeliverBarrier {
  TaskId task;
  std::string name;
  std::uint64_t round = 0;
};
struct DeliverCommit {
  CommitDone done;
};  ///< to the process of the task that asked
struct DeliverLease {
  LeaseReply reply;
};  ///< to the feeder of the consumer reply.task, also the answer to files
struct DeliverWorkerGone {
  TaskId shard_task;
  TaskId worker;
};
/// Put the outputs in their places, each whole or not at all; then on_published(). May come again:
/// what is there already stands. Meanwhile on_publishing() says how far it is: a commit that is
/// asked for again is answered so, as large outputs take their time.
struct PublishOutputs {
  CommitOutputs commit;
};
/// Once per RegisterAck.
struct ShipLogsTo {
  std::string endpoint, key;
};
using AgentEffect =
    std::variant<SendToCoordinator, PrepareDir, SpawnShim, SignalShim, CleanTask, DeliverBarrier,
                 DeliverLease, DeliverWorkerGone, PublishOutputs, ShipLogsTo, DeliverCommit>;
using AgentEffects = std::vector<AgentEffect>;

/// A task found on disk by a new agent process: its shim runs, or left its end.
struct FoundTask {
  PrepareTask task;
  std::optional<StartTask> start;  ///< as SpawnShim gave it; none: was prepared, never started
  std::int64_t pid = 0;
  std::optional<TaskEnd> end;  ///< the shim's record
  std::optional<TaskReadyInfo> ready;
};

class AgentCore {
 public:
  static constexpr std::size_t kArrivalsMax = 1024;

  explicit AgentCore(AgentSettings settings);

  /// Before start(), for each task found on disk.
  void recover(const FoundTask& found);
  AgentEffects start(Now now);  ///< the first Register

  AgentEffects on_message(const ToAgent& message, Now now);
  AgentEffects on_link_up(Now now);    ///< a hint: register at once
  AgentEffects on_link_down(Now now);  ///< a hint: register again when it is back
  AgentEffects on_tick(Now now);
  std::optional<TimePoint> next_wake() const;

  // from shims and directories
  AgentEffects on_prepared(const TaskId& task, const Status& status, Now now);
  /// `warning`: what the node could not do as asked; "" = nothing.
  AgentEffects on_started(const TaskId& task, std::int64_t pid, Now now,
                          const std::string& warning = {});
  AgentEffects on_exit(const TaskId& task, const TaskEnd& end, Now now);
  /// `progress`: files and folders that are done.
  AgentEffects on_publishing(const TaskId& task, Epoch epoch, std::uint64_t progress, Now now);
  AgentEffects on_published(const TaskId& task, Epoch epoch, const Status& status, Now now);
  // from processes
  AgentEffects on_ready(const TaskId& task, const TaskReadyInfo& info, Now now);
  AgentEffects on_progress(const TaskId& task, double fraction, const std::string& text, Now now);
  AgentEffects on_barrier(const TaskId& task, const std::string& name, std::uint64_t round,
                          Now now);
  AgentEffects on_files(const TaskId& consumer, const std::string& input,
                        std::vector<io::FileEntry> files, std::uint64_t request, Now now);
  AgentEffects on_lease(const TaskId& consumer, const std::string& input, std::uint32_t splits_max,
                        std::uint64_t request, bool resync, std::vector<io::SplitKey> held,
                        std::vector<io::SplitKey> done, Now now,
                        std::vector<io::StepReport> steps = {});
  /// `id`: of this call alone. One of a task at a time: an older one is given up.
  AgentEffects on_commit(const TaskId& task, std::uint64_t id, std::string tag,
                         std::vector<io::InputCursor> inputs, Now now);

  struct Task {
    PrepareTask prepare;
    std::optional<StartTask> start;
    TaskState state = TaskState::kPreparing;  ///< kPrepared also while the shim is being started
    bool spawning = false;
    Cause stop_cause = Cause::kNone;  ///< a stop was asked
    Duration stop_grace{0};
    std::int64_t pid = 0;
    TaskReadyInfo ready;
    std::optional<Progress> progress;  ///< the latest, not said yet
    TimePoint progress_at{};           ///< when the next may be said
    std::string warning;
    /// At barriers, not passed on yet: name -> round.
    std::map<std::string, std::uint64_t> arrivals;
    TaskEnd end;
    TimePoint resend_at;  ///< of the end
    Duration resend_after{0};
  };
  const std::map<TaskId, Task>& tasks() const { return tasks_; }
  bool registered() const { return registered_; }
  std::size_t tombstones() const { return tombstones_.size(); }
  std::uint64_t term() const { return term_; }

 private:
  struct Pending {  ///< a message repeated until answered
    FromAgent message;
    TimePoint resend_at;
    Duration resend_after{0};
  };

  void on(const RegisterAck& message, Now now);
  void on(const PrepareTask& message, Now now);
  void on(const StartTask& message, Now now);
  void on(const StopTask& message, Now now);
  void on(const WorkerGone& message, Now now);
  void on(const BarrierDone& message, Now now);
  void on(const LeaseReply& message, Now now);
  void on(const TaskEndAck& message, Now now);
  void on(const HeartbeatAck& message, Now now);
  void on(const CommitOutputs& message, Now now);
  void on(const CommitDone& message, Now now);

  void spawn(Task& task);
  void runs(Task& task, TaskState state);
  void stop(Task& task, Duration grace, Cause cause, Now now);
  void end(Task& task, TaskEnd end, Now now);
  void update(const Task& task);  ///< sends its TaskUpdate
  void say_progress(Task& task, Now now);
  void remember_gone(const TaskId& task, Epoch epoch);
  void unknown(const TaskId& task, Epoch epoch);
  void register_now(Now now);
  void unregister(Now now);
  TaskUpdate update_of(const Task& task) const;
  bool splits_pending(const TaskId& id) const;
  void tell_end_when_all_is_told(const TaskId& id, Epoch epoch);
  Task* find(const TaskId& task, Epoch epoch);
  /// False: requests_max are open, and it is not asked.
  bool repeat(std::string key, FromAgent message, Now now);
  void refuse(const TaskId& consumer, Epoch epoch, std::uint64_t request);  ///< after that
  void pass_arrivals_on(Now now);                                           ///< as there is room
  AgentEffects take();

  AgentSettings settings_;
  bool registered_ = false;
  std::uint64_t term_ = 0;
  Duration lease_{0}, heartbeat_{0};
  std::uint64_t heartbeat_sequence_ = 0;
  TimePoint heartbeat_at_, ack_deadline_, register_at_;
  std::uint64_t register_sequence_ = 0;
  std::uint64_t answer_from_ = 0;  ///< an ack of an earlier Register is of a link that was given up
  Epoch epoch_floor_;
  Duration register_after_{0};
  std::map<TaskId, Task> tasks_;
  std::map<JobId, Epoch> newest_epoch_;  ///< bounded by tombstones_max
  /// -> progress; bounded by the tasks of the node
  std::map<std::pair<TaskId, Epoch>, std::uint64_t> publishing_;
  std::set<std::pair<TaskId, Epoch>> tombstones_;
  std::deque<std::pair<TaskId, Epoch>> tombstone_order_;
  std::map<std::string, Pending> pending_;
  std::set<TaskId> with_arrivals_;  ///< whose `arrivals` may hold some
  AgentEffects out_;
};

}  // namespace dlrun::cluster
