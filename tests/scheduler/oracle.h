#pragma once
/// tests/scheduler/oracle.h: what the scheduler should answer, as plain functions over a snapshot:
/// exhaustive search, no index, no shapes, no order of search of its own. Small clusters only: the
/// cost is nodes^tasks.

#include <map>
#include <optional>
#include <string>

#include "scheduler/core/msg.h"

namespace dlrun::sched::oracle {

struct NodeFacts {
  NodeCapacity capacity;
  bool schedulable = true;
};

struct Running {
  GangRequest gang;
  Placement placement;
};

struct Snapshot {
  std::map<std::string, NodeFacts> nodes;
  std::map<std::uint64_t, Running> running;
  std::map<std::uint64_t, GangRequest> queue;
};

/// Derived from what runs, and from nothing else.
Usage usage(const Snapshot& s, const std::string& node);
bool fits_now(const Snapshot& s, const GangRequest& gang);
/// The job that the queue order says is next, if any fits.
std::optional<JobId> next_job(const Snapshot& s);
/// What is wrong with this placement; "" = nothing.
std::string fault(const Snapshot& s, const GangRequest& gang, const Placement& placement);
/// No port and no GPU is given twice; "" = holds. CPUs and memory may be exceeded where capacity
/// was taken back or a gang adopted, so fault() checks them at each placement.
std::string broken_invariant(const Snapshot& s);
/// For `constraint` of WhyLine: how many nodes fail it for a task with these needs.
std::uint32_t nodes_failing(const Snapshot& s, const std::string& constraint,
                            const TaskDemand& task);
/// A task exceeds every node's total, or the sum exceeds the cluster.
bool impossible(const Snapshot& s, const GangRequest& gang);

}  // namespace dlrun::sched::oracle
