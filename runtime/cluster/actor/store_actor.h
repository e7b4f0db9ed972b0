#pragma once
/// runtime/cluster/actor/store_actor.h: the one writer of the log, on a thread of its own. Group
/// commit: what arrives while a commit is under way makes the next one; each asker hears StoreDone
/// after the fsync. Reads go through it too. Takes StoreEvents, StoreRead, StoreTerm, StoreRetire.
/// Bounds: events_per_commit_max; each core has one StoreEvents under way.

#include <caf/fwd.hpp>
#include <functional>
#include <memory>

#include "runtime/cluster/actor/control_log.h"

namespace dlrun::cluster {

struct StoreOptions {
  const Clock* clock = nullptr;
  std::function<void(std::uint64_t)>
      on_durable;  ///< the last index, after each commit, on the store's thread
  Duration retention{std::chrono::hours(24 * 30)};  ///< of finished jobs
  Duration retire_every{std::chrono::hours(1)};
  std::uint32_t retire_jobs_max = 1000;
};

caf::actor spawn_store(caf::actor_system& system, std::unique_ptr<ControlLog> log,
                       StoreOptions options);

}  // namespace dlrun::cluster
