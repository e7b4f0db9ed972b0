#include "runtime/cluster/core/membership.h"

#include <algorithm>
#include <utility>

#include "runtime/base/assert.h"

namespace dlrun::cluster {

Membership::Joined Membership::on_register(const Register& message, Now now) {
  auto [it, fresh] = nodes_.try_emplace(message.node);
  Node& node = it->second;
  if (std::find(node.retired.begin(), node.retired.end(), message.incarnation) !=
      node.retired.end())
    return Joined::kRefused;
  Joined joined = Joined::kNew;
  if (!fresh) {
    const bool same = node.incarnation == message.incarnation;
    joined = node.state == NodeState::kLost ? Joined::kBack
             : same                         ? Joined::kSame
                                            : Joined::kRestarted;
    if (!same && node.incarnation != Incarnation{}) {
      node.retired.push_back(node.incarnation);
      if (node.retired.size() > settings_.retired_max) node.retired.pop_front();
    }
  }
  node.incarnation = message.incarnation;
  node.address = message.address;
  node.version = message.version;
  node.capacity = message.capacity;
  node.capacity.node = message.node;
  node.last_heard = now.at;
  node.last_heard_wall = now.wall;
  node.forgiven = false;
  node.awaited = false;
  if (joined == Joined::kBack)
    node.state = NodeState::kFenced;
  else if (node.state != NodeState::kFenced && node.state != NodeState::kDraining)
    node.state = NodeState::kUp;
  return joined;
}

bool Membership::on_heard(const NodeId& id, Incarnation incarnation, Now now,
                          std::optional<NodeChange>& change) {
  const auto it = nodes_.find(id);
  if (it == nodes_.end()) return false;
  Node& node = it->second;
  if (node.incarnation != incarnation || node.state == NodeState::kLost || node.awaited)
    return false;
  node.last_heard = now.at;
  node.last_heard_wall = now.wall;
  node.forgiven = false;
  if (node.state == NodeState::kSuspect) {
    node.state = node.fencing.empty() ? NodeState::kUp : NodeState::kFenced;
    change = NodeChange{id, node.state, "heard again"};
  }
  return true;
}

std::vector<NodeChange> Membership::on_tick(Now now) {
  // Whoever did not look cannot say who was silent; what was sent meanwhile is read first.
  if (const auto due = next_wake(); due && now.at - *due > settings_.heartbeat) {
    const TimePoint earliest = now.at - (settings_.lost_after - settings_.suspect_after);
    for (auto& [id, node] : nodes_)
      if (!std::exchange(node.forgiven, true))
        node.last_heard = std::max(std::min(node.last_heard + (now.at - *due), now.at), earliest);
  }
  std::vector<NodeChange> changes;
  for (auto& [id, node] : nodes_) {
    if (node.state == NodeState::kLost) continue;
    const Duration silent = now.at - node.last_heard;
    if (silent >= settings_.lost_after) {
      node.state = NodeState::kLost;
      node.awaited = false;
      node.fencing.clear();
      changes.push_back(
          {id, NodeState::kLost,
           "not heard for " + std::to_string(silent / std::chrono::seconds(1)) + " s"});
    } else if (silent >= settings_.suspect_after && node.state != NodeState::kSuspect) {
      node.state = NodeState::kSuspect;
      changes.push_back(
          {id, NodeState::kSuspect,
           "not heard for " + std::to_string(silent / std::chrono::seconds(1)) + " s"});
    }
  }
  return changes;
}

std::optional<TimePoint> Membership::next_wake() const {
  std::optional<TimePoint> wake;
  for (const auto& [id, node] : nodes_) {
    if (node.state == NodeState::kLost) continue;
    TimePoint at = node.last_heard + (node.state == NodeState::kSuspect ? settings_.lost_after
                                                                        : settings_.suspect_after);
    if (!node.fencing.empty()) at = std::min(at, node.fence_resend_at);
    if (!wake || at < *wake) wake = at;
  }
  return wake;
}

std::optional<NodeChange> Membership::expel(const NodeId& id, const std::string& reason) {
  const auto it = nodes_.find(id);
  if (it == nodes_.end() || it->second.state == NodeState::kLost) return std::nullopt;
  it->second.state = NodeState::kLost;
  it->second.awaited = false;
  it->second.fencing.clear();
  return NodeChange{id, NodeState::kLost, reason};
}

void Membership::await(const NodeJoined& joined, Now now) {
  Node node;
  node.state = NodeState::kSuspect;
  node.incarnation = joined.incarnation;
  node.address = joined.address;
  node.version = joined.version;
  node.capacity = joined.capacity;
  node.last_heard = now.at;
  node.awaited = true;
  nodes_[joined.node] = std::move(node);
}

bool Membership::awaiting() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& entry) { return entry.second.awaited; });
}

bool Membership::fence(const NodeId& id, const std::set<std::pair<TaskId, Epoch>>& tasks,
                       TimePoint now) {
  const auto it = nodes_.find(id);
  DLRUN_ASSERT(it != nodes_.end());
  Node& node = it->second;
  node.fencing.insert(tasks.begin(), tasks.end());
  node.fence_resend_at = now + settings_.heartbeat;
  const NodeState before = node.state;
  if (node.state == NodeState::kUp && !node.fencing.empty()) node.state = NodeState::kFenced;
  if (node.state == NodeState::kFenced && node.fencing.empty()) node.state = NodeState::kUp;
  return node.state != before;
}

std::vector<std::pair<NodeId, std::pair<TaskId, Epoch>>> Membership::fences_due(TimePoint now) {
  std::vector<std::pair<NodeId, std::pair<TaskId, Epoch>>> due;
  for (auto& [id, node] : nodes_) {
    if (node.fencing.empty() || now < node.fence_resend_at) continue;
    node.fence_resend_at = now + settings_.heartbeat;
    for (const auto& task : node.fencing) due.emplace_back(id, task);
  }
  return due;
}

bool Membership::fenced_task_ended(const NodeId& id, const TaskId& task, Epoch epoch) {
  const auto it = nodes_.find(id);
  if (it == nodes_.end()) return false;
  Node& node = it->second;
  if (node.fencing.erase({task, epoch}) == 0 || !node.fencing.empty()) return false;
  if (node.state != NodeState::kFenced) return false;
  node.state = NodeState::kUp;
  return true;
}

const Membership::Node* Membership::find(const NodeId& id) const {
  const auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : &it->second;
}

}  // namespace dlrun::cluster
