#pragma once
/// runtime/cluster/core/api.h: what the REST server asks of the control plane, as values, and the
/// interface between them.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

struct TaskView {
  TaskId task;
  NodeId node;
  TaskState state = TaskState::kWaiting;
  TaskEnd end;
  std::int64_t pid = 0;
  std::vector<std::uint16_t> ports;
  double progress = -1;  ///< -1 = none reported
  WallTime started, ended;
  friend bool operator==(const TaskView&, const TaskView&) = default;
};

struct JobView {
  JobId id;
  JobSpec spec;
  JobState state = JobState::kPending;
  Generation generation;
  Epoch epoch;
  WallTime submitted, started, ended;
  double progress = -1;
  std::string progress_text;
  TaskEnd end;                         ///< the end that decided the job
  std::optional<TaskId> first_failed;  ///< the first rank that failed
  std::string reason;                  ///< one line for a person
  int exit_code = 0;                   ///< for a final state
  std::vector<TaskView> tasks;         ///< latest generation; empty in lists
  friend bool operator==(const JobView&, const JobView&) = default;
};

enum class NodeState : std::uint8_t {
  kUp = 0,
  kSuspect = 1,
  kLost = 2,
  kFenced = 3,
  kDraining = 4
};
std::string_view to_string(NodeState state);  ///< "up", "suspect", ...

struct NodeView {
  NodeId id;
  NodeState state = NodeState::kUp;
  Incarnation incarnation;
  std::string address;
  std::string version;
  sched::NodeCapacity capacity;
  sched::Usage used;
  WallTime last_heard;
  friend bool operator==(const NodeView&, const NodeView&) = default;
};

/// One line of `dlrun events`; `sequence` is the EventLog's index.
struct EventView {
  std::uint64_t sequence = 0;
  WallTime at;
  JobId job;         ///< 0 = cluster
  std::string kind;  ///< "job_submitted", "node_lost", ...
  std::string text;  ///< for a person
  friend bool operator==(const EventView&, const EventView&) = default;
};

struct SubmitJob {
  JobSpec spec;
  std::string idempotency_key;
  friend bool operator==(const SubmitJob&, const SubmitJob&) = default;
};
struct KillJob {
  JobId job;
  std::string reason;
  friend bool operator==(const KillJob&, const KillJob&) = default;
};
/// A job without a place: hold keeps it from being placed, release queues it again. Release of one
/// that is not held is kFailedPrecondition: nothing was done.
struct HoldJob {
  JobId job;
  bool hold = true;
  std::string reason;
  friend bool operator==(const HoldJob&, const HoldJob&) = default;
};
/// A job with a place gives it up (TERM, its grace, KILL) and is queued again, or held.
struct RequeueJob {
  JobId job;
  bool hold = false;
  std::string reason;
  friend bool operator==(const RequeueJob&, const RequeueJob&) = default;
};
struct GetJob {
  JobId job;
  friend bool operator==(const GetJob&, const GetJob&) = default;
};
struct ListJobs {
  std::optional<JobState> state;
  std::string owner;
  JobId before;
  std::uint32_t limit = 50;
  friend bool operator==(const ListJobs&, const ListJobs&) = default;
};
struct ListNodes {
  friend bool operator==(const ListNodes&, const ListNodes&) = default;
};
struct WhyJob {
  JobId job;
  friend bool operator==(const WhyJob&, const WhyJob&) = default;
};
struct ListEvents {
  std::uint64_t after = 0;
  JobId job;
  std::uint32_t limit = 200;
  friend bool operator==(const ListEvents&, const ListEvents&) = default;
};
struct GetHealth {
  friend bool operator==(const GetHealth&, const GetHealth&) = default;
};
/// The node is lost from now on, whatever its lease says; one that is not known is no error. It
/// comes back by registering.
struct ExpelNode {
  NodeId node;
  std::string reason;
  friend bool operator==(const ExpelNode&, const ExpelNode&) = default;
};
using ApiCall = std::variant<SubmitJob, KillJob, GetJob, ListJobs, ListNodes, WhyJob, ListEvents,
                             GetHealth, HoldJob, RequeueJob, ExpelNode>;

struct SubmitAck {
  JobId job;
  bool existed = false;
  friend bool operator==(const SubmitAck&, const SubmitAck&) = default;
};  ///< existed: the Idempotency-Key was seen before
struct KillAck {
  std::string note;  ///< for a person: what will not be as with any kill; "" = nothing
  friend bool operator==(const KillAck&, const KillAck&) = default;
};
/// To HoldJob and RequeueJob.
struct JobAck {
  friend bool operator==(const JobAck&, const JobAck&) = default;
};
struct JobList {
  std::vector<JobView> jobs;
  friend bool operator==(const JobList&, const JobList&) = default;
};  ///< newest first
struct NodeList {
  std::vector<NodeView> nodes;
  friend bool operator==(const NodeList&, const NodeList&) = default;
};
struct WhyAnswer {
  JobId job;
  JobState state{};
  std::string summary;
  std::vector<sched::WhyLine> lines;
  friend bool operator==(const WhyAnswer&, const WhyAnswer&) = default;
};
struct EventList {
  std::vector<EventView> events;
  std::uint64_t last = 0;
  friend bool operator==(const EventList&, const EventList&) = default;
};
struct Health {
  std::uint64_t term = 0;
  bool reconciling = false;
  std::uint32_t nodes_up = 0, jobs_running = 0, jobs_pending = 0;
  std::uint64_t jobs_finished = 0;
  std::map<JobState, std::uint32_t> jobs_by_state;   ///< those that are not over
  std::map<JobState, std::uint64_t> ended_by_state;  ///< since this process started
  std::map<NodeState, std::uint32_t> nodes_by_state;
  Duration oldest_wait{0};  ///< of the job that waits longest for a place
  std::string version;
  friend bool operator==(const Health&, const Health&) = default;
};
struct ExpelAck {
  friend bool operator==(const ExpelAck&, const ExpelAck&) = default;
};
using ApiReply = std::variant<SubmitAck, KillAck, JobView, JobList, NodeList, WhyAnswer, EventList,
                              Health, JobAck, ExpelAck>;

/// Implemented by the coordinator's shell. Thread safe. `reply` runs exactly once, on a thread of
/// the callee, within `timeout` (kDeadlineExceeded then). A submit is answered after its event is
/// on disk.
class ControlApi {
 public:
  using Reply = std::function<void(Result<ApiReply>)>;
  virtual ~ControlApi() = default;
  virtual void call(ApiCall request, Duration timeout, Reply reply) = 0;
  /// Calls `listener` (on a thread of the callee; must not block) after something of the job (0 =
  /// the cluster) was recorded or reported, and after the answers to calls show it, until the
  /// returned handle is destroyed.
  virtual std::shared_ptr<void> subscribe(std::function<void(JobId)> listener) = 0;
};

}  // namespace dlrun::cluster
