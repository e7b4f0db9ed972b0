#pragma once
/// runtime/cluster/core/now.h: the two clocks, read once by the shell for each event that it hands
/// to a core.

#include "runtime/base/time.h"

namespace dlrun::cluster {

struct Now {
  TimePoint at;   ///< monotonic: leases, deadlines, repeats
  WallTime wall;  ///< what people are shown; never part of a decision
};

}  // namespace dlrun::cluster
