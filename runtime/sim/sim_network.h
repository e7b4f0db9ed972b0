#pragma once
/// runtime/sim/sim_network.h: bytes between nodes that may be late, lost, doubled, overtaken, cut
/// off or damaged. A node is named by its NodeId; the coordinator's is "".
/// Damage: the links of a real cluster are sealed (TLS, CURVE), so what was damaged on the way
/// never reaches a core; here every packet carries a seal of its own and is dropped when it is
/// broken. Before that the damaged bytes go through the decoder of their kind, which must not
/// crash:
/// what was cut short must be refused, and what decodes all the same must encode and decode to
/// itself (damage(), in sim_damage.cc).

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "runtime/base/ids.h"
#include "runtime/sim/sim_loop.h"

namespace dlrun::sim {

enum class Bytes : std::uint8_t { kToAgent, kFromAgent, kPsRequest, kPsReply };

struct NetworkFaults {
  double loss = 0.02;
  double duplicate = 0.02;
  /// this share takes up to `straggle_max`: what overtakes it is reordering
  double straggle = 0.01;
  double damage = 0;  ///< this share arrives with bits flipped or cut short
  Duration delay_min{std::chrono::microseconds(100)};
  Duration delay_max{std::chrono::milliseconds(20)};
  Duration straggle_max{std::chrono::seconds(8)};
};

class SimNetwork {
 public:
  /// `violated` hears of a decoder that took what it must refuse.
  SimNetwork(SimLoop& loop, NetworkFaults faults, std::function<void(std::string)> violated)
      : loop_(loop), faults_(faults), violated_(std::move(violated)) {}

  using Deliver = std::function<void(std::string_view)>;
  void send(const NodeId& from, const NodeId& to, Bytes kind, std::string bytes, Deliver deliver);
  /// What has no bytes in the product yet (slots on the move): the same faults, no damage.
  void send(const NodeId& from, const NodeId& to, std::function<void()> deliver);
  void cut(const NodeId& node) { cut_.insert(node); }
  void heal(const NodeId& node) { cut_.erase(node); }
  void heal_all();  ///< and no faults from now on
  bool is_cut(const NodeId& node) const { return cut_.count(node) != 0; }
  struct Counts {
    std::uint64_t lost = 0, doubled = 0, late = 0, cut = 0;
    std::uint64_t damaged = 0;
    std::uint64_t refused = 0;  ///< of those, by the decoder itself
  };
  const Counts& counts() const { return counts_; }

 private:
  void carry(const NodeId& from, const NodeId& to, std::function<void()> deliver);
  /// Breaks the bytes and shows them to the decoder of their kind.
  void damage(Bytes kind, std::string bytes);

  SimLoop& loop_;
  NetworkFaults faults_;
  std::function<void(std::string)> violated_;
  std::set<NodeId> cut_;
  Counts counts_;
};

}  // namespace dlrun::sim
