#pragma once
/// scheduler/core/msg.h: what the scheduler is told and what it answers: values only.
/// Units: cpu in 1/1000 of a core, memory in bytes.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/time.h"

namespace dlrun::sched {

struct Resources {
  std::int64_t cpu_milli = 1000;
  std::int64_t memory_bytes = 0;  ///< 0 = not limited and not counted
  std::int32_t gpus = 0;
  std::int32_t ports = 0;  ///< TCP ports leased for the task, from the node's range
  friend bool operator==(const Resources&, const Resources&) = default;
};

using Labels = std::map<std::string, std::string>;

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t count = 0;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

struct NodeCapacity {
  NodeId node;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::vector<std::string> gpu_uuids;
  PortRange ports;
  Labels labels;
  friend bool operator==(const NodeCapacity&, const NodeCapacity&) = default;
};

struct TaskDemand {
  std::string role;
  std::uint32_t rank = 0;
  Resources need;
  Labels require;  ///< every label must be on the node with this value
};

/// A gang is placed whole or not at all.
struct GangRequest {
  JobId job;
  Generation generation;
  std::int32_t priority = 0;  ///< higher first; equal: earlier submit first, then lower job id
  TimePoint submitted;
  std::vector<TaskDemand> tasks;
};

/// What one task got. Ports and GPUs are exclusive until the gang is released.
struct Slot {
  NodeId node;
  std::vector<std::uint16_t> ports;
  std::vector<std::string> gpu_uuids;
  friend bool operator==(const Slot&, const Slot&) = default;
};

struct Placement {
  JobId job;
  Generation generation;
  std::vector<Slot> slots;  ///< same order as GangRequest::tasks
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// One line of `dlrun why`: e.g. {"memory", 3, 4, "worker/0 needs 64 GiB, the largest free is 32
/// GiB on node-1"}.
struct WhyLine {
  /// cpu | memory | gpu | port | label | queue | node | gang (each task fits, not all together)
  std::string constraint;
  std::uint32_t nodes_failing = 0;
  std::uint32_t nodes_total = 0;
  std::string detail;
  friend bool operator==(const WhyLine&, const WhyLine&) = default;
};

struct Usage {
  std::int64_t cpu_milli_used = 0;
  std::int64_t memory_bytes_used = 0;
  std::int32_t gpus_used = 0;
  std::int32_t ports_used = 0;
  friend bool operator==(const Usage&, const Usage&) = default;
};

/// The face that the control plane sees. Implementation: SchedulerCore; its oracle in the tests is
/// brute force. Single owner, no clock of its own. Never throws.
class Placer {
 public:
  virtual ~Placer() = default;
  /// Adds a node or replaces its capacity; what is allocated on it stays allocated.
  virtual void add_node(const NodeCapacity& capacity) = 0;
  /// Gangs on a removed node stay allocated until released.
  virtual void remove_node(const NodeId& node) = 0;
  /// false: no new gang goes there (suspect, draining, quarantined); `reason` shows in why().
  virtual void set_schedulable(const NodeId& node, bool schedulable, std::string reason) = 0;
  /// kInvalidArgument when no set of nodes known today could ever hold it is NOT an error here: it
  /// waits, and `impossible` tells. kAlreadyExists when the job is queued or placed.
  virtual Status submit(const GangRequest& gang) = 0;
  /// Queued: forgotten. Placed: everything it held is free again. Unknown: nothing.
  virtual void release(JobId job) = 0;
  /// Takes what a recovered job already holds, after a restart. kFailedPrecondition when it
  /// overlaps.
  virtual Status adopt(const GangRequest& gang, const Placement& placement) = 0;
  /// The next gang that fits now, in queue order; nullopt when none does. Call until nullopt after
  /// any change.
  virtual std::optional<Placement> next() = 0;
  /// The reason when a task of `gang` exceeds every known node's total ("worker/0 needs 8 GPUs, the
  /// most any node has is 4"); nullopt when it could fit one day.
  virtual std::optional<std::string> impossible(const GangRequest& gang) const = 0;
  /// Whether the whole gang has room right now, whoever waits; nothing changes.
  virtual bool has_room(const GangRequest& gang) const = 0;
  virtual std::vector<WhyLine> why(JobId job) const = 0;
  virtual Usage usage(const NodeId& node) const = 0;
};

}  // namespace dlrun::sched
