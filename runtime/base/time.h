#pragma once
/// runtime/base/time.h: time as a value. A core gets it as an argument; only a shell reads a Clock.
/// Units: TimePoint counts ns of a monotonic clock with an arbitrary start (leases, deadlines,
/// timers); WallTime counts ns since 1970-01-01 UTC and is for people only, never for a decision.

#include <chrono>
#include <cstdint>

namespace dlrun {

using Duration = std::chrono::nanoseconds;

struct MonotonicTag {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  // NOLINTNEXTLINE(readability-identifier-naming): the name that <chrono> looks for
  static constexpr bool is_steady = true;
};
using TimePoint = std::chrono::time_point<MonotonicTag, Duration>;

struct WallTime {
  std::int64_t ns = 0;
  friend auto operator<=>(const WallTime&, const WallTime&) = default;
};

/// Thread safe. Implementations: SystemClock (here), SimClock (runtime/sim), ManualClock (here,
/// tests).
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override;  ///< CLOCK_MONOTONIC: shared by all processes of one boot
  WallTime wall() const override;
};

class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  WallTime wall() const override { return WallTime{now_.time_since_epoch().count()}; }
  void advance(Duration d) { now_ += d; }

 private:
  TimePoint now_{};
};

}  // namespace dlrun
