#include "tests/scheduler/oracle.h"

#include <algorithm>
#include <set>
#include <vector>

namespace dlrun::sched::oracle {
namespace {

struct Left {
  std::int64_t cpu = 0, memory = 0, gpus = 0, ports = 0;
};

Left left_on(const Snapshot& s, const std::string& name) {
  const NodeCapacity& c = s.nodes.at(name).capacity;
  Left left{c.cpu_milli, c.memory_bytes, static_cast<std::int64_t>(c.gpu_uuids.size()),
            c.ports.count};
  for (const auto& [job, run] : s.running) {
    for (std::size_t i = 0; i < run.placement.slots.size(); ++i) {
      const Slot& slot = run.placement.slots[i];
      if (slot.node.value != name) continue;
      left.cpu -= run.gang.tasks[i].need.cpu_milli;
      left.memory -= run.gang.tasks[i].need.memory_bytes;
      for (const auto& uuid : slot.gpu_uuids)
        left.gpus -= std::count(c.gpu_uuids.begin(), c.gpu_uuids.end(), uuid);
      for (const auto port : slot.ports)
        left.ports -= port >= c.ports.first && port < c.ports.first + c.ports.count ? 1 : 0;
    }
  }
  return left;
}

bool enough(std::int64_t need, std::int64_t left) { return need <= 0 || need <= left; }

bool room_for(const Resources& r, const Left& left) {
  return enough(r.cpu_milli, left.cpu) && enough(r.memory_bytes, left.memory) &&
         enough(r.gpus, left.gpus) && enough(r.ports, left.ports);
}

bool labelled(const NodeCapacity& node, const Labels& require) {
  return std::all_of(require.begin(), require.end(), [&](const auto& label) {
    return node.labels.contains(label.first) && node.labels.at(label.first) == label.second;
  });
}

bool search(const Snapshot& s, std::map<std::string, Left>& left, const GangRequest& gang,
            std::size_t task) {
  if (task == gang.tasks.size()) return true;
  const Resources& r = gang.tasks[task].need;
  for (auto& [name, room] : left) {
    if (!room_for(r, room) || !labelled(s.nodes.at(name).capacity, gang.tasks[task].require))
      continue;
    const Left before = room;
    room.cpu -= r.cpu_milli, room.memory -= r.memory_bytes, room.gpus -= r.gpus,
        room.ports -= r.ports;
    const bool found = search(s, left, gang, task + 1);
    room = before;
    if (found) return true;
  }
  return false;
}

}  // namespace

Usage usage(const Snapshot& s, const std::string& node) {
  Usage u;
  for (const auto& [job, run] : s.running)
    for (std::size_t i = 0; i < run.placement.slots.size(); ++i) {
      if (run.placement.slots[i].node.value != node) continue;
      u.cpu_milli_used += run.gang.tasks[i].need.cpu_milli;
      u.memory_bytes_used += run.gang.tasks[i].need.memory_bytes;
      u.gpus_used += static_cast<std::int32_t>(run.placement.slots[i].gpu_uuids.size());
      u.ports_used += static_cast<std::int32_t>(run.placement.slots[i].ports.size());
    }
  return u;
}

bool fits_now(const Snapshot& s, const GangRequest& gang) {
  std::map<std::string, Left> left;
  for (const auto& [name, node] : s.nodes)
    if (node.schedulable) left[name] = left_on(s, name);
  return search(s, left, gang, 0);
}

std::optional<JobId> next_job(const Snapshot& s) {
  std::vector<const GangRequest*> order;
  for (const auto& [job, gang] : s.queue) order.push_back(&gang);
  std::sort(order.begin(), order.end(), [](const GangRequest* a, const GangRequest* b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->submitted != b->submitted) return a->submitted < b->submitted;
    return a->job < b->job;
  });
  for (const GangRequest* gang : order)
    if (fits_now(s, *gang)) return gang->job;
  return std::nullopt;
}

std::string fault(const Snapshot& s, const GangRequest& gang, const Placement& placement) {
  if (placement.job != gang.job || placement.generation != gang.generation)
    return "another gang's placement";
  if (placement.slots.size() != gang.tasks.size()) return "another number of slots";
  Snapshot after = s;
  for (std::size_t i = 0; i < gang.tasks.size(); ++i) {
    const Slot& slot = placement.slots[i];
    const auto node = s.nodes.find(slot.node.value);
    if (node == s.nodes.end()) return "an unknown node";
    const NodeCapacity& c = node->second.capacity;
    if (!node->second.schedulable) return slot.node.value + " is not schedulable";
    if (!labelled(c, gang.tasks[i].require)) return slot.node.value + " lacks a label";
    // One at a time, each onto what the ones before left.
    if (!room_for(gang.tasks[i].need, left_on(after, slot.node.value)))
      return slot.node.value + " has no room";
    if (static_cast<std::int32_t>(slot.ports.size()) != gang.tasks[i].need.ports)
      return "another number of ports";
    if (static_cast<std::int32_t>(slot.gpu_uuids.size()) != gang.tasks[i].need.gpus)
      return "another number of GPUs";
    for (const auto port : slot.ports)
      if (port < c.ports.first || port >= c.ports.first + c.ports.count)
        return "a port outside the node's range";
    for (const auto& uuid : slot.gpu_uuids)
      if (std::count(c.gpu_uuids.begin(), c.gpu_uuids.end(), uuid) == 0)
        return "a GPU that the node does not have";
    Running& run = after.running[gang.job.value];
    run.gang.tasks.push_back(gang.tasks[i]);
    run.placement.slots.push_back(slot);
  }
  return broken_invariant(after);
}

std::string broken_invariant(const Snapshot& s) {
  std::set<std::pair<std::string, std::uint16_t>> ports;
  std::set<std::pair<std::string, std::string>> gpus;
  for (const auto& [job, run] : s.running)
    for (const Slot& slot : run.placement.slots) {
      for (const auto port : slot.ports)
        if (!ports.emplace(slot.node.value, port).second)
          return "port " + std::to_string(port) + " leased twice";
      for (const auto& uuid : slot.gpu_uuids)
        if (!gpus.emplace(slot.node.value, uuid).second) return "GPU " + uuid + " leased twice";
    }
  return "";
}

std::uint32_t nodes_failing(const Snapshot& s, const std::string& constraint,
                            const TaskDemand& task) {
  std::uint32_t failing = 0;
  for (const auto& [name, node] : s.nodes) {
    const Left left = left_on(s, name);
    bool ok = true;
    if (constraint == "node") ok = node.schedulable;
    if (constraint == "label") ok = labelled(node.capacity, task.require);
    if (constraint == "cpu") ok = enough(task.need.cpu_milli, left.cpu);
    if (constraint == "memory") ok = enough(task.need.memory_bytes, left.memory);
    if (constraint == "gpu") ok = enough(task.need.gpus, left.gpus);
    if (constraint == "port") ok = enough(task.need.ports, left.ports);
    failing += ok ? 0 : 1;
  }
  return failing;
}

bool impossible(const Snapshot& s, const GangRequest& gang) {
  Left need, have;
  for (const auto& [name, node] : s.nodes) {
    have.cpu += node.capacity.cpu_milli, have.memory += node.capacity.memory_bytes;
    have.gpus += static_cast<std::int64_t>(node.capacity.gpu_uuids.size()),
        have.ports += node.capacity.ports.count;
  }
  for (const TaskDemand& task : gang.tasks) {
    const Resources& r = task.need;
    need.cpu += r.cpu_milli, need.memory += r.memory_bytes, need.gpus += r.gpus,
        need.ports += r.ports;
    const bool some = std::any_of(s.nodes.begin(), s.nodes.end(), [&](const auto& entry) {
      const NodeCapacity& c = entry.second.capacity;
      return labelled(c, task.require) &&
             room_for(r, Left{c.cpu_milli, c.memory_bytes,
                              static_cast<std::int64_t>(c.gpu_uuids.size()), c.ports.count});
    });
    if (!some) return true;
  }
  return !(enough(need.cpu, have.cpu) && enough(need.memory, have.memory) &&
           enough(need.gpus, have.gpus) && enough(need.ports, have.ports));
}

}  // namespace dlrun::sched::oracle
