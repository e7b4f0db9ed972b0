#pragma once
/// runtime/cluster/core/port_taken.h: a task that was not started because another program of its
/// node has a port that was leased to the task. The scheduler cannot know: it leases ports of a
/// range, and asks no machine. The agent finds it before anything runs; the job is placed again,
/// with the next ports of the range, kMovesMax times in its life, and uses up no restart.

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

inline constexpr std::int32_t kPortTakenCode = 98;  ///< TaskEnd::code, with kStartFailed
inline constexpr std::uint32_t kMovesMax = 3;

inline bool port_taken(const TaskEnd& end) {
  return end.cause == Cause::kStartFailed && end.code == kPortTakenCode;
}

inline TaskEnd port_taken_end(std::uint16_t port, const NodeId& node) {
  TaskEnd end;
  end.cause = Cause::kStartFailed;
  end.code = kPortTakenCode;
  end.detail = "port " + std::to_string(port) + " on node " + node.value +
               ", leased to this task, is taken by another program";
  return end;
}

}  // namespace dlrun::cluster
