#include "runtime/cluster/core/msg.h"

#include "runtime/cluster/core/api.h"

namespace dlrun::cluster {

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::kPending:
      return "PENDING";
    case JobState::kAdmitted:
      return "ADMITTED";
    case JobState::kStaging:
      return "STAGING";
    case JobState::kStarting:
      return "STARTING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kStopping:
      return "STOPPING";
    case JobState::kCommitting:
      return "COMMITTING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
    case JobState::kTimeout:
      return "TIMEOUT";
    case JobState::kOom:
      return "OOM";
    case JobState::kLost:
      return "LOST";
    case JobState::kHeld:
      return "HELD";
    case JobState::kPreempted:
      return "PREEMPTED";
  }
  return "UNKNOWN";
}

std::string_view to_string(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return "none";
    case Cause::kExit:
      return "exit";
    case Cause::kSignal:
      return "signal";
    case Cause::kOom:
      return "oom";
    case Cause::kTimeLimit:
      return "time_limit";
    case Cause::kUserKill:
      return "user_kill";
    case Cause::kSibling:
      return "sibling";
    case Cause::kNodeLost:
      return "node_lost";
    case Cause::kShimLost:
      return "shim_lost";
    case Cause::kStartFailed:
      return "start_failed";
    case Cause::kPreempted:
      return "preempted";
    case Cause::kCoordinator:
      return "coordinator";
    case Cause::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string_view to_string(TaskState state) {
  switch (state) {
    case TaskState::kWaiting:
      return "waiting";
    case TaskState::kPreparing:
      return "preparing";
    case TaskState::kPrepared:
      return "prepared";
    case TaskState::kRunning:
      return "running";
    case TaskState::kReady:
      return "ready";
    case TaskState::kStopping:
      return "stopping";
    case TaskState::kEnded:
      return "ended";
  }
  return "unknown";
}

std::string_view to_string(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return "up";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kLost:
      return "lost";
    case NodeState::kFenced:
      return "fenced";
    case NodeState::kDraining:
      return "draining";
  }
  return "unknown";
}

int exit_code(const TaskEnd& end) {
  switch (end.cause) {
    case Cause::kNone:
      return 0;
    case Cause::kExit:
      return end.code;
    case Cause::kSignal:
      return 128 + end.signal;
    case Cause::kOom:
      return 137;
    case Cause::kTimeLimit:
      return 124;
    case Cause::kUserKill:
      return 130;
    case Cause::kSibling:
      return 143;
    case Cause::kNodeLost:
    case Cause::kShimLost:
      return 121;
    case Cause::kStartFailed:
      return 127;
    case Cause::kPreempted:
      return 122;
    case Cause::kCoordinator:
      return 123;
    case Cause::kStopped:
      return 0;
  }
  return 123;
}

}  // namespace dlrun::cluster
