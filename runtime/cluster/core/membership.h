#pragma once
/// runtime/cluster/core/membership.h: which nodes are there, by leases on a monotonic clock.
///
///   (unknown) -1-> Up <-2,3-> Suspect -4-> Lost -5-> Fenced -6-> Up
///                  Up -7-> Up (another incarnation)
///   1: Register. 2: not heard for `suspect_after`. 3: heard again. 4: not heard for `lost_after`,
///   or expel(): its tasks are lost. 5: Register of a lost node: it must first kill what ran under
///   epochs that are over. 6: it reported all of them ended
///      (at once when it had none). 7: the agent restarted; shims went on, the new process reports
///      their tasks.
/// Time in which nobody looked counts for nobody: a tick that comes more than a heartbeat after
/// next_wake() (the process was stopped, its machine paused) extends leases by what it is late, and
/// to suspect_after at least; each once until its node is heard again. A coordinator that is late
/// every time, while it hears the others, calls a dead node lost all the same.
/// An incarnation that was replaced never comes back: its late messages are ignored (the last
/// `retired_max` are remembered).
/// Threads: single owner.

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/core/api.h"
#include "runtime/cluster/core/event.h"
#include "runtime/cluster/core/now.h"

namespace dlrun::cluster {

struct MembershipSettings {
  Duration heartbeat{std::chrono::seconds(2)};
  Duration suspect_after{std::chrono::seconds(10)};
  Duration lost_after{std::chrono::seconds(30)};
  std::uint32_t retired_max = 16;
};

struct NodeChange {
  NodeId node;
  NodeState state;
  std::string reason;
};

class Membership {
 public:
  explicit Membership(MembershipSettings settings) : settings_(settings) {}

  struct Node {
    NodeState state = NodeState::kUp;
    Incarnation incarnation;
    std::string address;
    std::string version;
    sched::NodeCapacity capacity;
    TimePoint last_heard;
    WallTime last_heard_wall;
    bool forgiven = false;  ///< its lease was extended since it was heard
    /// held tasks before the coordinator restarted and has not registered since
    bool awaited = false;
    std::set<std::pair<TaskId, Epoch>> fencing;  ///< must end before the node gets work again
    TimePoint fence_resend_at;
    std::deque<Incarnation> retired;
  };

  enum class Joined : std::uint8_t { kNew, kSame, kRestarted, kBack, kRefused };
  /// kSame: this incarnation is up already, or was awaited. kBack: it was lost; Fenced until
  /// fence() says otherwise. kRefused: a retired incarnation; nothing changed.
  Joined on_register(const Register& message, Now now);
  /// True when this incarnation is the registered one and not lost; refreshes its lease. `change`
  /// is set when it was suspect.
  bool on_heard(const NodeId& node, Incarnation incarnation, Now now,
                std::optional<NodeChange>& change);
  /// States whose time has come, in order of name.
  std::vector<NodeChange> on_tick(Now now);
  std::optional<TimePoint> next_wake() const;

  /// Lost before its lease ends. nullopt: not known, or lost already.
  std::optional<NodeChange> expel(const NodeId& node, const std::string& reason);

  /// A node that the log says holds tasks: suspect, and lost unless it registers within lost_after.
  void await(const NodeJoined& joined, Now now);
  bool awaiting() const;
  /// Adds to what the node must end first; up with nothing to end. True when the node's state
  /// changed.
  bool fence(const NodeId& node, const std::set<std::pair<TaskId, Epoch>>& tasks, TimePoint now);
  /// What fenced nodes must still end and have not been told for `heartbeat`: to be told again.
  std::vector<std::pair<NodeId, std::pair<TaskId, Epoch>>> fences_due(TimePoint now);
  /// True when it was the last one the node was fenced for: the node is up again.
  bool fenced_task_ended(const NodeId& node, const TaskId& task, Epoch epoch);

  const Node* find(const NodeId& node) const;
  const std::map<NodeId, Node>& nodes() const { return nodes_; }

 private:
  MembershipSettings settings_;
  std::map<NodeId, Node> nodes_;
};

}  // namespace dlrun::cluster
