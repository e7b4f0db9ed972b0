#pragma once
/// runtime/sim/sim_replica.h: a second core beside a simulated shard, which hears of all that may
/// change the shard and of nothing else: no pull, no scan, no tick. The shard is a log machine, so
/// both must be the same at any time.
/// Threads: the loop's.

#include <memory>
#include <string>

#include "ps/core/shard_core.h"
#include "runtime/base/time.h"
#include "runtime/transport/transport.h"

namespace dlrun::sim {

class SimReplica {
 public:
  SimReplica(ps::ShardSettings settings, ps::SlotMap map, std::shared_ptr<const Clock> clock)
      : core_(std::move(settings), std::move(map)), clock_(std::move(clock)) {}

  /// A message that the shard takes in, before it serves the next.
  void on_message(const transport::Message& message);
  void on_worker_left(ps::WorkerId worker);
  void on_map(const ps::SlotMap& map);
  void on_slot(const ps::SlotImage& image);

  /// "" = the same; else what differs.
  std::string difference(const ps::ShardCore& shard) const;

 private:
  ps::ShardCore core_;
  std::shared_ptr<const Clock> clock_;
  ps::Effects ignored_;
};

}  // namespace dlrun::sim
