#pragma once
/// runtime/sim/sim_network.h: messages between nodes that may be late, lost, doubled, overtaken, or cut off.
/// A node is named by its NodeId; the coordinator's is "".

#include <functional>
#include <set>

#include "runtime/base/ids.h"
#include "runtime/sim/sim_loop.h"

namespace dlrun::sim {

struct NetworkFaults {
  double loss = 0.02;
  double duplicate = 0.02;
  double straggle = 0.01;  ///< this share takes up to `straggle_max`: what overtakes it is reordering
  Duration delay_min{std::chrono::microseconds(100)};
  Duration delay_max{std::chrono::milliseconds(20)};
  Duration straggle_max{std::chrono::seconds(8)};
};

class SimNetwork {
 public:
  SimNetwork(SimLoop& loop, NetworkFaults faults) : loop_(loop), faults_(faults) {}

  void send(const NodeId& from, const NodeId& to, std::function<void()> deliver);
  void cut(const NodeId& node) { cut_.insert(node); }
  void heal(const NodeId& node) { cut_.erase(node); }
  void heal_all();  ///< and no faults from now on
  bool is_cut(const NodeId& node) const { return cut_.count(node) != 0; }

 private:
  void carry(const NodeId& from, const NodeId& to, std::function<void()> deliver);
  SimLoop& loop_;
  NetworkFaults faults_;
  std::set<NodeId> cut_;
};

}  // namespace dlrun::sim
