#pragma once
/// runtime/actor/backoff.h: how long to wait before the next try: doubled each time, bounded, with
/// jitter, so that a hundred agents do not come back in one moment. A value: no clock, no thread;
/// same seed, same sequence.

#include "runtime/base/rng.h"
#include "runtime/base/time.h"

namespace dlrun::actor {

class Backoff {
 public:
  Backoff(Duration first, Duration max, std::uint64_t seed)
      : first_(first), max_(max), rng_(seed) {}
  /// Uniform in [d/2, d] where d = first, 2 first, 4 first ... max.
  Duration next();
  void reset() { tries_ = 0; }

 private:
  Duration first_;
  Duration max_;
  SplitMix64 rng_;
  int tries_ = 0;
};

}  // namespace dlrun::actor
