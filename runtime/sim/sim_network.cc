#include "runtime/sim/sim_network.h"

#include <memory>

namespace dlrun::sim {

void SimNetwork::send(const NodeId& from, const NodeId& to, Bytes kind, std::string bytes,
                      Deliver deliver) {
  auto packet = std::make_shared<const std::string>(std::move(bytes));
  send(from, to, [this, kind, packet, deliver = std::move(deliver)] {
    if (faults_.damage > 0 && loop_.chance(faults_.damage)) return damage(kind, *packet);
    deliver(*packet);
  });
}

void SimNetwork::send(const NodeId& from, const NodeId& to, std::function<void()> deliver) {
  if (loop_.chance(faults_.loss)) {
    ++counts_.lost;
    return;
  }
  if (loop_.chance(faults_.duplicate)) {
    ++counts_.doubled;
    carry(from, to, deliver);
  }
  carry(from, to, std::move(deliver));
}

void SimNetwork::carry(const NodeId& from, const NodeId& to, std::function<void()> deliver) {
  const bool late = loop_.chance(faults_.straggle);
  counts_.late += late ? 1 : 0;
  const auto cut = [this, from, to] { return from != to && (is_cut(from) || is_cut(to)); };
  if (cut()) {
    ++counts_.cut;
    return;
  }
  loop_.after(loop_.between(faults_.delay_min, late ? faults_.straggle_max : faults_.delay_max),
              [this, cut, deliver = std::move(deliver)] {
                if (cut())
                  ++counts_.cut;
                else
                  deliver();
              });
}

void SimNetwork::heal_all() {
  cut_.clear();
  faults_.loss = faults_.duplicate = faults_.straggle = faults_.damage = 0;
}

}  // namespace dlrun::sim
