#pragma once
/// runtime/cluster/core/api.h: what the REST server asks of the control plane, as values, and the interface between them.

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
  TaskEnd end;                        ///< the end that decided the job
  std::optional<TaskId> first_failed; ///< the first rank that failed
  std::string reason;                 ///< one line for a person
  int exit_code = 0;                  ///< for a final state
  std::vector<TaskView> tasks;        ///< latest generation; empty in lists
};

enum class NodeState : std::uint8_t { kUp = 0, kSuspect = 1, kLost = 2, kFenced = 3, kDraining = 4 };
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
};

/// One line of `dlrun events`; `sequence` is the EventLog's index.
struct EventView {
  std::uint64_t sequence = 0;
  WallTime at;
  JobId job;          ///< 0 = cluster
  std::string kind;   ///< "job_submitted", "node_lost", ...
  std::string text;   ///< for a person
};

struct SubmitJob { JobSpec spec; std::string idempotency_key; };
struct KillJob { JobId job; std::string reason; };
struct GetJob { JobId job; };
struct ListJobs { std::optional<JobState> state; std::string owner; JobId before; std::uint32_t limit = 50; };
struct ListNodes {};
struct WhyJob { JobId job; };
struct ListEvents { std::uint64_t after = 0; JobId job; std::uint32_t limit = 200; };
struct GetHealth {};
using ApiCall = std::variant<SubmitJob, KillJob, GetJob, ListJobs, ListNodes, WhyJob, ListEvents, GetHealth>;

struct SubmitAck { JobId job; bool existed = false; };  ///< existed: the Idempotency-Key was seen before
struct KillAck {};
struct JobList { std::vector<JobView> jobs; };           ///< newest first
struct NodeList { std::vector<NodeView> nodes; };
struct WhyAnswer { JobId job; JobState state{}; std::string summary; std::vector<sched::WhyLine> lines; };
struct EventList { std::vector<EventView> events; std::uint64_t last = 0; };
struct Health { std::uint64_t term = 0; bool reconciling = false; std::uint32_t nodes_up = 0, jobs_running = 0, jobs_pending = 0; std::uint64_t jobs_finished = 0; std::string version; };
using ApiReply = std::variant<SubmitAck, KillAck, JobView, JobList, NodeList, WhyAnswer, EventList, Health>;

/// Implemented by the coordinator's shell. Thread safe. `reply` runs exactly once, on a thread of the callee, within
/// `timeout` (kDeadlineExceeded then). A submit is answered after its event is on disk.
class ControlApi {
 public:
  using Reply = std::function<void(Result<ApiReply>)>;
  virtual ~ControlApi() = default;
  virtual void call(ApiCall request, Duration timeout, Reply reply) = 0;
  /// Calls `listener` (on a thread of the callee; must not block) after each durable event with its sequence, until the
  /// returned handle is destroyed.
  virtual std::shared_ptr<void> subscribe(std::function<void(std::uint64_t)> listener) = 0;
};

}  // namespace dlrun::cluster
