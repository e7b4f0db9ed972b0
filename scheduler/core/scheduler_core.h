#pragma once
/// scheduler/core/scheduler_core.h: places gangs on nodes: event in, placements out; no clock, no
/// threads, no I/O.
///
///   submit -> Queued -1-> Placed -2-> (gone)      1: next() found room for the whole gang. 2:
///                                                 release().
///                  \------------ 2 ------^        adopt() enters at Placed.
///
/// Order: priority (higher first), then time of submit, then job id. next() gives the first gang in
/// that order that fits now. A gang that does not fit does not hold back those behind it: there is
/// no reservation yet, so that a big gang can wait for as long as small ones keep coming. Queues,
/// quotas, ageing and preemption come with the policies.
///
/// Cost: gangs of one shape (same demands, names apart) wait in one line; when the head of a line
/// does not fit the whole line is set aside until a node gets room for one of the shape's tasks. So
/// a pile of N equal gangs costs one try, not N. submit and release O(tasks * log(gangs) + tasks *
/// log(nodes)), next() O(tasks * log(nodes)) per shape that may fit, join, loss and release add
/// O(log(nodes)) per node and one check per line set aside whose smallest task asks for no more
/// CPUs than that node has free.
/// Errors: see Placer. Never throws.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "scheduler/core/msg.h"
#include "scheduler/core/node_book.h"
#include "scheduler/core/shape.h"

namespace dlrun::sched {

class SchedulerCore final : public Placer {
 public:
  static constexpr std::size_t kTasksMax = 65536;  ///< per gang

  void add_node(const NodeCapacity& capacity) override;
  void remove_node(const NodeId& node) override;
  /// An unknown node: nothing. The flag outlives add_node, not remove_node.
  void set_schedulable(const NodeId& node, bool schedulable, std::string reason) override;
  /// kInvalidArgument: job 0, no tasks, more than kTasksMax, a negative need.
  Status submit(const GangRequest& gang) override;
  void release(JobId job) override;
  /// Also onto nodes that have not joined (again) yet, and beyond their CPUs and memory: what runs,
  /// runs. kInvalidArgument when slots do not match the tasks; kAlreadyExists; kFailedPrecondition
  /// when a port or a GPU is held already. On error nothing changes.
  Status adopt(const GangRequest& gang, const Placement& placement) override;
  std::optional<Placement> next() override;
  bool has_room(const GangRequest& gang) const override;
  /// Also when the whole gang asks for more than all nodes together have.
  std::optional<std::string> impossible(const GangRequest& gang) const override;
  /// For a queued gang; empty for any other. A last line {"gang"} when each task fits alone but not
  /// all together.
  std::vector<WhyLine> why(JobId job) const override;
  Usage usage(const NodeId& node) const override;

  std::size_t queued() const { return queued_.size(); }
  std::size_t placed() const { return placed_.size(); }
  /// Tries of next() that ended without room, since the start: the tests watch that a pile costs
  /// few.
  std::uint64_t failed_tries() const { return failed_tries_; }

 private:
  /// Order of the queue.
  struct Rank {
    std::int64_t minus_priority = 0;
    TimePoint submitted;
    JobId job;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  /// The line of waiting gangs of one shape.
  struct Line {
    ShapeKey key;
    std::set<Rank> waiting;
    bool set_aside = false;          ///< its head did not fit, and no node got room since
    std::int64_t cpu_milli_min = 0;  ///< of its smallest task
  };
  struct Queued {
    GangRequest gang;
    std::vector<ShapePart> parts;
    Line* line = nullptr;
    Rank rank;
  };
  struct Held {
    Placement placement;
    std::vector<Resources> needs;
  };

  Status check(const GangRequest& gang) const;
  void dequeue(std::unordered_map<JobId, Queued>::iterator at);
  void node_gained(NodeBook::Index node);

  mutable NodeBook book_;  ///< why() takes and gives back
  std::map<ShapeKey, std::unique_ptr<Line>> lines_;
  std::set<std::pair<Rank, Line*>> ready_;          ///< heads of the lines not set aside
  std::set<std::pair<std::int64_t, Line*>> aside_;  ///< by cpu_milli_min
  std::unordered_map<JobId, Queued> queued_;
  std::unordered_map<JobId, Held> placed_;
  std::uint64_t failed_tries_ = 0;
};

}  // namespace dlrun::sched
