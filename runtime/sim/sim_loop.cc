#include "runtime/sim/sim_loop.h"

#include <algorithm>

namespace dlrun::sim {

Duration SimLoop::between(Duration low, Duration high) {
  return low + Duration(rng_.below(static_cast<std::uint64_t>((high - low).count()) + 1));
}

void SimLoop::at(TimePoint when, std::function<void()> what) {
  queue_.emplace(std::make_pair(std::max(when, now_), ++sequence_), std::move(what));
}

void SimLoop::post(const std::string& channel, Duration delay, std::function<void()> what) {
  TimePoint& last = channels_[channel];
  last = std::max(last, now_ + delay);
  at(last, std::move(what));
}

bool SimLoop::step() {
  if (queue_.empty()) return false;
  auto node = queue_.extract(queue_.begin());
  now_ = node.key().first;
  ++steps_;
  node.mapped()();
  return true;
}

}  // namespace dlrun::sim
