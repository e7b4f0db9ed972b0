#include "scheduler/core/scheduler_core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "scheduler/core/gang_fit.h"
#include "scheduler/core/why.h"

namespace dlrun::sched {

// ---- nodes

/// `node` may have more room than before: lines with a task that fits there get another try.
/// Enough, because a gang that did not fit anywhere before must now use a node that gained.
void SchedulerCore::node_gained(NodeBook::Index index) {
  const NodeBook::Node& node = book_.at(index);
  if (!node.indexed) return;
  const std::int64_t cpu = std::max<std::int64_t>(node.room.cpu_milli, 0);
  for (auto at = aside_.begin(); at != aside_.end() && at->first <= cpu;) {
    Line* line = at->second;
    const bool helps = std::any_of(line->key.begin(), line->key.end(), [&](const auto& part) {
      return fits(part.first.need, node.room) &&
             has_labels(node.capacity.labels, part.first.require);
    });
    if (!helps) {
      ++at;
      continue;
    }
    at = aside_.erase(at);
    line->set_aside = false;
    ready_.emplace(*line->waiting.begin(), line);
  }
}

void SchedulerCore::add_node(const NodeCapacity& capacity) { node_gained(book_.add(capacity)); }

void SchedulerCore::remove_node(const NodeId& node) { book_.remove(node); }

void SchedulerCore::set_schedulable(const NodeId& id, bool schedulable, std::string reason) {
  book_.set_schedulable(id, schedulable, std::move(reason));
  const NodeBook::Node* node = book_.find(id);
  if (schedulable && node != nullptr && node->known) node_gained(book_.index_of(id));
}

// ---- gangs

Status SchedulerCore::check(const GangRequest& gang) const {
  if (gang.job.value == 0) return fail(Errc::kInvalidArgument, "job 0 is no job");
  if (gang.tasks.empty())
    return fail(Errc::kInvalidArgument, to_string(gang.job) + " has no tasks");
  if (gang.tasks.size() > kTasksMax)
    return fail(Errc::kInvalidArgument, to_string(gang.job) + " has " +
                                            std::to_string(gang.tasks.size()) +
                                            " tasks, the most is " + std::to_string(kTasksMax));
  for (const TaskDemand& task : gang.tasks) {
    const Resources& r = task.need;
    if (r.cpu_milli < 0 || r.memory_bytes < 0 || r.gpus < 0 || r.ports < 0)
      return fail(Errc::kInvalidArgument,
                  task.role + "/" + std::to_string(task.rank) + " asks for less than nothing");
  }
  if (queued_.contains(gang.job))
    return fail(Errc::kAlreadyExists, to_string(gang.job) + " is queued");
  if (placed_.contains(gang.job))
    return fail(Errc::kAlreadyExists, to_string(gang.job) + " is placed");
  return {};
}

Status SchedulerCore::submit(const GangRequest& gang) {
  DLRUN_TRY(check(gang));
  std::vector<ShapePart> parts = parts_of(gang);
  ShapeKey key = shape_key(parts);
  std::unique_ptr<Line>& line = lines_[key];
  if (line == nullptr) {
    line = std::make_unique<Line>();
    line->cpu_milli_min = std::numeric_limits<std::int64_t>::max();
    for (const ShapePart& part : parts)
      line->cpu_milli_min = std::min(line->cpu_milli_min, part.demand.need.cpu_milli);
    line->key = std::move(key);
  }
  const Rank rank{-std::int64_t{gang.priority}, gang.submitted, gang.job};
  if (!line->set_aside) {
    if (!line->waiting.empty()) ready_.erase({*line->waiting.begin(), line.get()});
    line->waiting.insert(rank);
    ready_.emplace(*line->waiting.begin(), line.get());
  } else {
    line->waiting.insert(rank);
  }
  queued_.emplace(gang.job, Queued{gang, std::move(parts), line.get(), rank});
  return {};
}

void SchedulerCore::dequeue(std::unordered_map<JobId, Queued>::iterator at) {
  Line* line = at->second.line;
  if (!line->set_aside) ready_.erase({*line->waiting.begin(), line});
  line->waiting.erase(at->second.rank);
  queued_.erase(at);
  if (line->waiting.empty()) {
    if (line->set_aside) aside_.erase({line->cpu_milli_min, line});
    lines_.erase(lines_.find(line->key));
  } else if (!line->set_aside) {
    ready_.emplace(*line->waiting.begin(), line);
  }
}

void SchedulerCore::release(JobId job) {
  if (const auto at = queued_.find(job); at != queued_.end()) {
    dequeue(at);
    return;
  }
  const auto at = placed_.find(job);
  if (at == placed_.end()) return;
  const Held held = std::move(at->second);
  placed_.erase(at);
  std::set<NodeBook::Index> gained;
  for (std::size_t i = 0; i < held.needs.size(); ++i) {
    const NodeBook::Index node = book_.drop(held.placement.slots[i], held.needs[i]);
    if (node != NodeBook::kNone) gained.insert(node);
  }
  for (const NodeBook::Index node : gained) node_gained(node);
}

Status SchedulerCore::adopt(const GangRequest& gang, const Placement& placement) {
  DLRUN_TRY(check(gang));
  if (placement.slots.size() != gang.tasks.size())
    return fail(Errc::kInvalidArgument, to_string(gang.job) + " has " +
                                            std::to_string(gang.tasks.size()) + " tasks but " +
                                            std::to_string(placement.slots.size()) + " slots");
  std::set<std::pair<NodeId, std::uint16_t>> ports;
  std::set<std::pair<NodeId, std::string>> gpus;
  for (std::size_t i = 0; i < gang.tasks.size(); ++i) {
    const Slot& slot = placement.slots[i];
    const std::string task = gang.tasks[i].role + "/" + std::to_string(gang.tasks[i].rank);
    if (static_cast<std::int64_t>(slot.ports.size()) != gang.tasks[i].need.ports ||
        static_cast<std::int64_t>(slot.gpu_uuids.size()) != gang.tasks[i].need.gpus)
      return fail(Errc::kInvalidArgument,
                  task + " holds another number of ports or GPUs than it asks for");
    if (std::string held = book_.overlap(slot); !held.empty())
      return fail(Errc::kFailedPrecondition, task + ": " + std::move(held));
    for (const std::uint16_t port : slot.ports)
      if (!ports.emplace(slot.node, port).second)
        return fail(Errc::kFailedPrecondition,
                    task + ": port " + std::to_string(port) + " twice in one gang");
    for (const std::string& uuid : slot.gpu_uuids)
      if (!gpus.emplace(slot.node, uuid).second)
        return fail(Errc::kFailedPrecondition, task + ": GPU " + uuid + " twice in one gang");
  }
  Held held{placement, {}};
  held.placement.job = gang.job;
  for (std::size_t i = 0; i < gang.tasks.size(); ++i) {
    book_.hold_exactly(placement.slots[i], gang.tasks[i].need, gang.job);
    held.needs.push_back(gang.tasks[i].need);
  }
  placed_.emplace(gang.job, std::move(held));
  return {};
}

std::optional<Placement> SchedulerCore::next() {
  while (!ready_.empty()) {
    const auto [rank, line] = *ready_.begin();
    const auto at = queued_.find(rank.job);
    const auto nodes = fit_gang(book_, at->second.parts);
    if (!nodes) {
      ++failed_tries_;
      ready_.erase(ready_.begin());
      line->set_aside = true;
      aside_.emplace(line->cpu_milli_min, line);
      continue;
    }
    const GangRequest gang = std::move(at->second.gang);
    dequeue(at);
    Held held{Placement{gang.job, gang.generation, {}}, {}};
    for (std::size_t i = 0; i < gang.tasks.size(); ++i) {
      held.placement.slots.push_back(book_.hold((*nodes)[i], gang.tasks[i].need, gang.job));
      held.needs.push_back(gang.tasks[i].need);
    }
    Placement placement = held.placement;
    placed_.emplace(gang.job, std::move(held));
    return placement;
  }
  return std::nullopt;
}

// ---- questions

std::optional<std::string> SchedulerCore::impossible(const GangRequest& gang) const {
  return explain_impossible(book_, gang, parts_of(gang));
}

bool SchedulerCore::has_room(const GangRequest& gang) const {
  return !gang.tasks.empty() && fit_gang(book_, parts_of(gang)).has_value();
}

std::vector<WhyLine> SchedulerCore::why(JobId job) const {
  const auto at = queued_.find(job);
  if (at == queued_.end()) return {};
  std::vector<WhyLine> lines = explain_demands(book_, at->second.gang, at->second.parts);
  const bool each_fits =
      std::all_of(at->second.parts.begin(), at->second.parts.end(), [&](const ShapePart& part) {
        return book_.index().find(part.demand, IndexPlace{}).has_value();
      });
  if (each_fits && !fit_gang(book_, at->second.parts)) {
    std::uint32_t total = 0;
    book_.for_each_known([&](const NodeBook::Node&) { ++total; });
    lines.push_back(WhyLine{"gang", total, total,
                            "only " + std::to_string(count_placeable(book_, at->second.parts)) +
                                " of " + std::to_string(at->second.gang.tasks.size()) +
                                " tasks fit at the same time, and a gang is placed whole"});
  }
  return lines;
}

Usage SchedulerCore::usage(const NodeId& id) const {
  const NodeBook::Node* node = book_.find(id);
  if (node == nullptr) return {};
  return Usage{node->cpu_milli_held, node->memory_bytes_held,
               static_cast<std::int32_t>(node->gpus_held.size()),
               static_cast<std::int32_t>(node->ports_held.size())};
}

}  // namespace dlrun::sched
