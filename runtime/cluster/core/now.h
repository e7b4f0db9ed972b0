#pragma once
/// runtime/cluster/core/now.h: the two clocks, read once by the shell for each event that it hands
/// to a core.

#include <optional>

#include "runtime/base/time.h"

namespace dlrun::cluster {

struct Now {
  TimePoint at;   ///< monotonic: leases, deadlines, repeats
  WallTime wall;  ///< what people are shown; never part of a decision
};

/// Keeps the sooner of the two in `wake`.
inline void earlier(std::optional<TimePoint>& wake, TimePoint at) {
  if (!wake || at < *wake) wake = at;
}

}  // namespace dlrun::cluster
