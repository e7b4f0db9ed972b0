#pragma once
/// runtime/sim/sim_clock.h: the clocks of one machine: a monotonic one that runs a little fast or
/// slow and starts anywhere, and a wall clock that people set forward and back. Made from the
/// loop's true time.
/// Threads: the loop's.

#include <cstdint>

#include "runtime/base/planted_bugs.h"
#include "runtime/base/time.h"
#include "runtime/cluster/core/now.h"
#include "runtime/sim/sim_loop.h"

namespace dlrun::sim {

class SimClock final : public Clock {
 public:
  /// `skew_ppm`: how much faster than the truth it runs (at most 200'000 either way); `start`: what
  /// it shows at true time 0.
  SimClock(const SimLoop& loop, const PlantedBugs& bugs, std::int64_t skew_ppm, Duration start)
      : loop_(&loop),
        skew_ppm_(skew_ppm),
        start_(start),
        follows_wall_(bugs.has("lease_on_wall_clock")) {}

  TimePoint now() const override;
  WallTime wall() const override;
  cluster::Now both() const { return {now(), wall()}; }
  /// The first true time at which this clock shows `local` or more.
  TimePoint true_time_of(TimePoint local) const;
  void set_wall(Duration by) { wall_offset_ += by; }

 private:
  const SimLoop* loop_;
  std::int64_t skew_ppm_;
  Duration start_;
  Duration wall_offset_{0};
  bool follows_wall_;  ///< a planted bug: what should be monotonic jumps when people set the clock
};

}  // namespace dlrun::sim
