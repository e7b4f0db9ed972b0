#include "scheduler/core/node_book.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/assert.h"

namespace dlrun::sched {
namespace {

bool in_range(const PortRange& range, std::uint16_t port) {
  return port >= range.first && port - range.first < range.count;
}

}  // namespace

NodeBook::Index NodeBook::record(const NodeId& id) {
  const auto [at, fresh] = by_id_.try_emplace(id, kNone);
  if (!fresh) return at->second;
  if (unused_.empty()) {
    unused_.push_back(static_cast<Index>(nodes_.size()));
    nodes_.emplace_back();
  }
  at->second = unused_.back();
  unused_.pop_back();
  nodes_[at->second] = Node{};
  nodes_[at->second].capacity.node = id;
  nodes_[at->second].in_use = true;
  return at->second;
}

void NodeBook::refresh(Index i) {
  Node& node = nodes_[i];
  const NodeCapacity& c = node.capacity;
  Room room;
  room.cpu_milli = c.cpu_milli - node.cpu_milli_held;
  room.memory_bytes = c.memory_bytes - node.memory_bytes_held;
  for (const std::string& uuid : c.gpu_uuids) room.gpus += node.gpus_held.contains(uuid) ? 0 : 1;
  room.ports = c.ports.count;
  for (auto p = node.ports_held.lower_bound(c.ports.first);
       p != node.ports_held.end() && in_range(c.ports, p->first); ++p)
    --room.ports;
  node.room = room;
  if (node.known && node.schedulable) {
    if (node.indexed) {
      index_.update(node.place, room);
    } else {
      node.place = index_.insert(static_cast<std::int32_t>(c.gpu_uuids.size()), i,
                                 nodes_[i].capacity.labels, room);
      node.indexed = true;
    }
  } else if (node.indexed) {
    index_.erase(node.place);
    node.indexed = false;
  }
}

void NodeBook::forget_if_empty(Index i) {
  Node& node = nodes_[i];
  if (node.known || node.slots_held != 0) return;
  DLRUN_ASSERT(node.ports_held.empty() && node.gpus_held.empty() && node.cpu_milli_held == 0);
  by_id_.erase(node.capacity.node);
  node = Node{};
  unused_.push_back(i);
}

NodeBook::Index NodeBook::add(const NodeCapacity& capacity) {
  const Index i = record(capacity.node);
  Node& node = nodes_[i];
  if (node.indexed) {  // the number of GPUs and the labels place it in the index
    index_.erase(node.place);
    node.indexed = false;
  }
  if (!node.known) {
    node.known = true;
    node.schedulable = true;
    node.reason.clear();
  }
  node.capacity = capacity;
  // A device listed twice is one device.
  std::set<std::string> seen;
  std::erase_if(node.capacity.gpu_uuids,
                [&](const std::string& uuid) { return !seen.insert(uuid).second; });
  // The range ends at port 65535.
  node.capacity.ports.count = static_cast<std::uint16_t>(
      std::min<std::uint32_t>(capacity.ports.count, 65536u - capacity.ports.first));
  node.port_cursor = 0;
  refresh(i);
  return i;
}

void NodeBook::remove(const NodeId& id) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end() || !nodes_[at->second].known) return;
  const Index i = at->second;
  nodes_[i].known = false;
  refresh(i);
  forget_if_empty(i);
}

void NodeBook::set_schedulable(const NodeId& id, bool schedulable, std::string reason) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end() || !nodes_[at->second].known) return;
  nodes_[at->second].schedulable = schedulable;
  nodes_[at->second].reason = std::move(reason);
  refresh(at->second);
}

const NodeBook::Node* NodeBook::find(const NodeId& id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &nodes_[at->second];
}

void NodeBook::take(Index i, const Resources& need) {
  nodes_[i].room = minus(nodes_[i].room, need);
  if (nodes_[i].indexed) index_.update(nodes_[i].place, nodes_[i].room);
}

void NodeBook::give(Index i, const Resources& need) {
  nodes_[i].room = plus(nodes_[i].room, need);
  if (nodes_[i].indexed) index_.update(nodes_[i].place, nodes_[i].room);
}

Slot NodeBook::hold(Index i, const Resources& need, JobId job) {
  const Node& node = nodes_[i];
  Slot slot{.node = node.capacity.node, .ports = {}, .gpu_uuids = {}};
  for (const std::string& uuid : node.capacity.gpu_uuids) {
    if (static_cast<std::int32_t>(slot.gpu_uuids.size()) == need.gpus) break;
    if (!node.gpus_held.contains(uuid)) slot.gpu_uuids.push_back(uuid);
  }
  const PortRange range = node.capacity.ports;
  std::uint32_t cursor = node.port_cursor;
  for (std::uint32_t step = 0;
       step < range.count && static_cast<std::int32_t>(slot.ports.size()) < need.ports; ++step) {
    const auto port = static_cast<std::uint16_t>(range.first + cursor);
    cursor = (cursor + 1) % range.count;
    if (!node.ports_held.contains(port)) slot.ports.push_back(port);
  }
  DLRUN_ASSERT(static_cast<std::int32_t>(slot.gpu_uuids.size()) == need.gpus);
  DLRUN_ASSERT(static_cast<std::int32_t>(slot.ports.size()) == need.ports);
  nodes_[i].port_cursor = cursor;
  hold_exactly(slot, need, job);
  return slot;
}

void NodeBook::hold_exactly(const Slot& slot, const Resources& need, JobId job) {
  const Index i = record(slot.node);
  Node& node = nodes_[i];
  for (const std::uint16_t port : slot.ports) {
    const bool fresh = node.ports_held.emplace(port, job).second;
    DLRUN_ASSERT(fresh);
  }
  for (const std::string& uuid : slot.gpu_uuids) {
    const bool fresh = node.gpus_held.emplace(uuid, job).second;
    DLRUN_ASSERT(fresh);
  }
  node.cpu_milli_held += need.cpu_milli;
  node.memory_bytes_held += need.memory_bytes;
  ++node.slots_held;
  refresh(i);
}

std::string NodeBook::overlap(const Slot& slot) const {
  const Node* node = find(slot.node);
  if (node == nullptr) return "";
  for (const std::uint16_t port : slot.ports)
    if (const auto held = node->ports_held.find(port); held != node->ports_held.end())
      return "port " + std::to_string(port) + " of " + slot.node.value + " is held by " +
             to_string(held->second);
  for (const std::string& uuid : slot.gpu_uuids)
    if (const auto held = node->gpus_held.find(uuid); held != node->gpus_held.end())
      return "GPU " + uuid + " of " + slot.node.value + " is held by " + to_string(held->second);
  return "";
}

NodeBook::Index NodeBook::drop(const Slot& slot, const Resources& need) {
  const auto at = by_id_.find(slot.node);
  DLRUN_ASSERT(at != by_id_.end());
  const Index i = at->second;
  Node& node = nodes_[i];
  DLRUN_ASSERT(node.slots_held > 0);
  for (const std::uint16_t port : slot.ports) node.ports_held.erase(port);
  for (const std::string& uuid : slot.gpu_uuids) node.gpus_held.erase(uuid);
  node.cpu_milli_held -= need.cpu_milli;
  node.memory_bytes_held -= need.memory_bytes;
  --node.slots_held;
  refresh(i);
  forget_if_empty(i);
  return node.in_use ? i : kNone;
}

}  // namespace dlrun::sched
