#pragma once
/// runtime/sim/sim_loop.h: simulated time and the order of everything: a queue of (time, sequence)
/// whose events run one by one on the caller's thread. Same seed, same order. No event sees time
/// stand still for ever: next() moves on.
/// Source of the idea: FoundationDB's Sim2.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/rng.h"
#include "runtime/base/time.h"

namespace dlrun::sim {

class SimLoop {
 public:
  explicit SimLoop(std::uint64_t seed) : rng_(seed) {}

  TimePoint now() const { return now_; }  ///< true time; a machine sees its SimClock
  SplitMix64& rng() { return rng_; }
  /// Uniform in [low, high].
  Duration between(Duration low, Duration high);
  bool chance(double probability) { return rng_.uniform() < probability; }

  void at(TimePoint when, std::function<void()> what);
  void after(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  /// Like after(), but never before what was posted on the same channel earlier: an actor's
  /// mailbox.
  void post(const std::string& channel, Duration delay, std::function<void()> what);
  /// Runs the next event. False when there is none.
  bool step();
  std::uint64_t steps() const { return steps_; }

 private:
  TimePoint now_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0;
  SplitMix64 rng_;
  std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> queue_;
  std::map<std::string, TimePoint> channels_;
};

}  // namespace dlrun::sim
