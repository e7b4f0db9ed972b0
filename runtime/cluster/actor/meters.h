#pragma once
/// runtime/cluster/actor/meters.h: what the control plane measures of itself, for /metrics. The
/// actors add, any thread reads.

#include "runtime/base/meter.h"
#include "runtime/base/time.h"

namespace dlrun::cluster {

struct Meters {
  Histogram commit_seconds{
      kSecondsBuckets};  ///< one durable commit of the EventLog, the fsync included
  Histogram commit_events{kCountBuckets};  ///< events that shared it
  Counter commits_refused;                 ///< the store refused: a full or failing disk
  Counter messages_refused;  ///< of agents: not understood, or speaking for another node
  Histogram queue_seconds{kLongSecondsBuckets};  ///< from the queue to a place, one a generation
  Histogram turn_seconds{
      /// the coordinator was taken up by one message or call, placements included
      kSecondsBuckets};
};

inline double seconds_of(Duration d) { return static_cast<double>(d.count()) * 1e-9; }

}  // namespace dlrun::cluster
