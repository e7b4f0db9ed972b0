#pragma once
/// runtime/cluster/core/api.h: what the REST server asks of the control plane, as values, and the
/// interface between them.

#include <cstdint>
#include <functional>
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
using ApiCall =
    std::variant<SubmitJob, KillJob, GetJob, ListJobs, ListNodes, WhyJob, ListEvents, GetHealth>;

struct SubmitAck {
  JobId job;
  bool existed = false;
  friend bool operator==(const SubmitAck&, const SubmitAck&) = default;
};  ///< existed: the Idempotency-Key was seen before
struct KillAck {
  friend bool operator==(const KillAck&, const KillAck&) = default;
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
  std::string version;
  friend bool operator==(const Health&, const Health&) = default;
};
using ApiReply =
    std::variant<SubmitAck, KillAck, JobView, JobList, NodeList, WhyAnswer, EventList, Health>;

/// Implemented by the coordinator's shell. Thread safe. `reply` runs exactly once, on a thread of
/// the callee, within `timeout` (kDeadlineExceeded then). A submit is answered after its event is
/// on disk.
class ControlApi {
 public:
  using Reply = std::function<void(Result<ApiReply>)>;
  virtual ~ControlApi() = default;
  virtual void call(ApiCall request, Duration timeout, Reply reply) = 0;
  /// Calls `listener` (on a thread of the callee; must not block) after each durable event with its
  /// sequence, until the returned handle is destroyed.
  virtual std::shared_ptr<void> subscribe(std::function<void(std::uint64_t)> listener) = 0;
};

}  // namespace dlrun::cluster
