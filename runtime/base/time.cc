#include "runtime/base/time.h"

#include <ctime>

namespace dlrun {
namespace {
std::int64_t read(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
}  // namespace

TimePoint SystemClock::now() const { return TimePoint(Duration(read(CLOCK_MONOTONIC))); }
WallTime SystemClock::wall() const { return WallTime{read(CLOCK_REALTIME)}; }

}  // namespace dlrun
