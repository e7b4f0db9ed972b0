#include "runtime/sim/sim_clock.h"

namespace dlrun::sim {

namespace {
constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kWallStart = 1'700'000'000'000'000'000;
}  // namespace

TimePoint SimClock::now() const {
  const __int128 t = loop_->now().time_since_epoch().count();
  const Duration jumped = follows_wall_ ? wall_offset_ : Duration{0};
  return TimePoint{start_ + jumped +
                   Duration(static_cast<std::int64_t>(t + t * skew_ppm_ / kMillion))};
}

WallTime SimClock::wall() const {
  return WallTime{loop_->now().time_since_epoch().count() + kWallStart + wall_offset_.count()};
}

TimePoint SimClock::true_time_of(TimePoint local) const {
  const Duration jumped = follows_wall_ ? wall_offset_ : Duration{0};
  const __int128 shown = (local.time_since_epoch() - start_ - jumped).count();
  if (shown <= 0) return TimePoint{};
  const __int128 t = shown * kMillion / (kMillion + skew_ppm_);
  return TimePoint{Duration(static_cast<std::int64_t>(t) + 2)};  // rounded up
}

}  // namespace dlrun::sim
