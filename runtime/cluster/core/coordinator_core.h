#pragma once
/// runtime/cluster/core/coordinator_core.h: the coordinator: its term, the nodes, the table of
/// running jobs, placement decisions with their epochs, and the answers to REST.
///
///   Replaying -1-> Claiming -2-> Reconciling -3-> Serving
///   apply() for each record of the log; then
///   1: start(): TermStarted is staged.
///   2: it is durable: agents may register, the API answers, jobs are rebuilt.
///   3: every node that held tasks has registered or is lost: scheduling begins. A fresh cluster
///      passes 3 at once.
///
/// A submit and, when it fits now, its placement share one durable commit. Each running job is a
/// JobCore of its own (its actor); this core routes what agents say about tasks to it and hears
/// JobToCoordinator back (docs/adr/0002).
/// Errors to the API: kInvalidArgument (names the field), kAlreadyExists (key used for another
/// spec), kOverloaded, kResourceExhausted (the store refuses; the reason), kNotFound,
/// kFailedPrecondition (kill of a finished job), kUnavailable (not yet claimed the term). Never
/// throws.
/// Bounds: jobs_live_max, keys_max, finished_cache_max.
/// Threads: single owner (the coordinator actor).

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runtime/cluster/core/job_core.h"
#include "runtime/cluster/core/membership.h"
#include "runtime/cluster/core/spec_check.h"

namespace dlrun::cluster {

struct CoordinatorSettings {
  MembershipSettings membership;
  SpecLimits limits;
  std::uint32_t jobs_live_max = 10'000;
  std::uint32_t keys_max = 10'000;
  std::uint32_t finished_cache_max = 32;
  Duration persist_retry{std::chrono::seconds(1)};
  std::string log_endpoint, log_key;  ///< handed to agents in RegisterAck
  std::string version;
  PlantedBugs bugs;
};

struct ReplyApi {
  std::uint64_t call = 0;
  Result<ApiReply> reply;
};
/// The shell answers these from the store: JobEnded records, and events through
/// kind_of/text_of/is_for_people.
struct ReadJob {
  std::uint64_t call = 0;
  JobId job;
};  ///< JobView, or kNotFound
struct ReadJobs {
  std::uint64_t call = 0;
  ListJobs query;
  std::vector<JobView> live;
};  ///< merge, newest first, limit
struct ReadEvents {
  std::uint64_t call = 0;
  ListEvents query;
};
/// Make the job's core from `record` and call start(). recovered: rebuilt from the log.
struct StartJob {
  JobRecord record;
  bool recovered = false;
};
struct ToJob {
  JobId job;
  JobInput input;
};
struct EndJob {
  JobId job;
};  ///< its core may go
/// For the metrics: a generation got its place after so long in the queue.
struct Waited {
  Duration wait{0};
};
using CoordinatorEffect = std::variant<Persist, SendToAgent, ReplyApi, ReadJob, ReadJobs,
                                       ReadEvents, StartJob, ToJob, EndJob, Waited>;
using CoordinatorEffects = std::vector<CoordinatorEffect>;

class CoordinatorCore {
 public:
  /// `placer` outlives the core and is used by nobody else.
  CoordinatorCore(CoordinatorSettings settings, sched::Placer& placer);

  /// Before start(): each record of the log, in order.
  void apply(const Event& event);
  /// Claims the next term. Everything else is refused until it is durable.
  CoordinatorEffects start(Now now);

  CoordinatorEffects on_call(std::uint64_t call, const ApiCall& request, Now now);
  /// `incarnation`: of the registered connection the message came by; for Register and Heartbeat
  /// that of the message.
  CoordinatorEffects on_agent(const NodeId& from, Incarnation incarnation, const FromAgent& message,
                              Now now);
  CoordinatorEffects on_job(const JobToCoordinator& message, Now now);
  CoordinatorEffects on_tick(Now now);
  CoordinatorEffects on_persisted(std::uint64_t id, Now now);
  CoordinatorEffects on_persist_failed(std::uint64_t id, const Error& error, Now now);
  std::optional<TimePoint> next_wake() const;

  std::uint64_t term() const { return term_; }
  bool serving() const { return phase_ == Phase::kServing; }
  const Membership& membership() const { return membership_; }
  /// What a log may begin with once the records of all ended jobs are gone.
  Baseline baseline() const;
  std::size_t live_jobs() const { return jobs_.size(); }

 private:
  enum class Phase : std::uint8_t { kReplaying, kClaiming, kReconciling, kServing };
  struct LiveJob {
    std::shared_ptr<const JobSpec> spec;
    JobView view;  ///< spec left out
    TimePoint submitted;
    Generation generation{1};
    Epoch epoch;  ///< {0,0} = not placed
    std::vector<PlacedTask> tasks;
    TaskIndex index;              ///< of `tasks`
    std::set<NodeId> lost_nodes;  ///< of the epoch: their tasks are over
    bool durable = false;         ///< JobSubmitted is on disk
    bool kill_requested = false;
    bool held = false;
    std::string held_why;          ///< JobHeld::reason
    bool needs_placement = false;  ///< waits for the end of the reconcile window
    double share = 0;              ///< of the ranges of its counts, as queued or placed
    TimePoint queued;              ///< since when this generation waits
  };
  using Out = CoordinatorEffects;

  void call(std::uint64_t id, const SubmitJob& request, Now now);
  void call(std::uint64_t id, const KillJob& request, Now now);
  void call(std::uint64_t id, const HoldJob& request, Now now);
  void call(std::uint64_t id, const RequeueJob& request, Now now);
  void call(std::uint64_t id, const GetJob& request, Now now);
  void call(std::uint64_t id, const ListJobs& request, Now now);
  void call(std::uint64_t id, const ListNodes& request, Now now);
  void call(std::uint64_t id, const WhyJob& request, Now now);
  void call(std::uint64_t id, const ListEvents& request, Now now);
  void call(std::uint64_t id, const GetHealth& request, Now now);
  void call(std::uint64_t id, const ExpelNode& request, Now now);

  void on_register(const Register& message, Now now);
  void route(const NodeId& from, const TaskId& task, Epoch epoch, const FromAgent& message,
             Now now);
  void node_lost(const NodeId& node, const std::string& reason, Now now);
  void node_changed(const NodeChange& change, Now now);
  void queue_gang(JobId id, LiveJob& job);
  void place_ready(Now now);
  /// The placement of the largest size that fits now, of a job whose counts are ranges and whose
  /// smallest was just placed.
  std::optional<sched::Placement> widen(JobId id, LiveJob& job, sched::Placement smallest);
  /// The job when it runs or waits; else nullptr, and the call is answered.
  LiveJob* find_live(std::uint64_t call, JobId job);
  void claimed(Now now);
  void rebuild(JobRecord record, Now now);
  void begin_serving_when_all_are_heard(Now now);
  void fence(const NodeId& node, const std::set<std::pair<TaskId, Epoch>>& tasks, Now now);
  /// Of a task that is over: at once when its epoch is, else by the job, which waits until its end
  /// is durable.
  void acknowledge_end(const NodeId& node, const TaskUpdate& update);
  void refuse_stale(const NodeId& from, const FromAgent& message, Now now);
  void on_job_over(const JobOver& message, Now now);
  void on_needs_placement(const JobNeedsPlacement& message, Now now);
  void drop_job(JobId id);
  /// Of the jobs with live tasks on the node; the next to be given when there is none.
  Epoch lowest_live_epoch(const NodeId& node) const;
  bool task_is_live(const TaskId& task, Epoch epoch, const NodeId& node) const;
  JobView full_view(const LiveJob& job) const;
  /// One line: why it is not placed.
  std::string why_pending(JobId id, const LiveJob& job) const;
  sched::GangRequest gang(JobId id, const LiveJob& job) const;
  void remember_key(SeenKey key);
  void reply(std::uint64_t id, Result<ApiReply> reply);
  void refuse(std::uint64_t id, Errc code, std::string context);
  void stage(JobId job, std::vector<Event> events, Out then, bool droppable = false,
             Out on_failure = {});
  Out flush(Now now);

  CoordinatorSettings settings_;
  sched::Placer& placer_;
  Phase phase_ = Phase::kReplaying;
  std::uint64_t term_ = 0;
  std::uint64_t epoch_counter_ = 0;
  JobId last_job_;
  std::uint64_t jobs_finished_ = 0;
  std::map<JobState, std::uint64_t> ended_by_state_;
  Membership membership_;
  std::map<JobId, JobRecord> replayed_;          ///< until start()
  std::map<NodeId, NodeJoined> replayed_nodes_;  ///< until start()
  std::map<JobId, LiveJob> jobs_;
  std::unordered_map<std::string, SeenKey> keys_;
  std::deque<std::string> key_order_;
  std::deque<JobView> finished_;  ///< newest last
  PersistGate<CoordinatorEffect> gate_;
  std::optional<std::string> store_refuses_;
  Out out_;
};

}  // namespace dlrun::cluster
