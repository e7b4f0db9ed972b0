#include "runtime/sim/sim_network.h"

namespace dlrun::sim {

void SimNetwork::send(const NodeId& from, const NodeId& to, std::function<void()> deliver) {
  if (loop_.chance(faults_.loss)) return;
  if (loop_.chance(faults_.duplicate)) carry(from, to, deliver);
  carry(from, to, std::move(deliver));
}

void SimNetwork::carry(const NodeId& from, const NodeId& to, std::function<void()> deliver) {
  const Duration longest = loop_.chance(faults_.straggle) ? faults_.straggle_max : faults_.delay_max;
  if (from != to && (is_cut(from) || is_cut(to))) return;
  loop_.after(loop_.between(faults_.delay_min, longest), [this, from, to, deliver = std::move(deliver)] {
    if (from == to || (!is_cut(from) && !is_cut(to))) deliver();
  });
}

void SimNetwork::heal_all() {
  cut_.clear();
  faults_.loss = faults_.duplicate = faults_.straggle = 0;
}

}  // namespace dlrun::sim
