#pragma once
/// runtime/cluster/actor/store_actor.h: the one writer of the log, on a thread of its own. Group
/// commit: what arrives while a commit is under way makes the next one; each asker hears StoreDone
/// after the fsync. Reads go through it too, unless there is a reader. Takes StoreEvents,
/// StoreRead, StoreTerm, StoreRetire. What commits supersede is removed behind them, once in
/// `forget_every`.
/// Bounds: events_per_commit_max; each core has one StoreEvents under way.

#include <caf/fwd.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cluster/actor/control_log.h"
#include "runtime/cluster/actor/meters.h"

namespace dlrun::cluster {

struct StoreOptions {
  const Clock* clock = nullptr;
  Meters* meters = nullptr;  ///< outlives the actor; may be null
  Duration forget_every{std::chrono::seconds(1)};
  Duration retention{std::chrono::hours(24 * 30)};  ///< of finished jobs
  Duration retire_every{std::chrono::hours(1)};
  std::uint32_t retire_jobs_max = 1000;
  /// Jobs that retention forgot: what else is kept of them may go. On the store's thread: must not
  /// block.
  std::function<void(const std::vector<JobId>&)> on_retired;
  /// One line: what the store refused, what it could not remove.
  std::function<void(const std::string&)> log;
};

caf::actor spawn_store(caf::actor_system& system, std::unique_ptr<ControlLog> log,
                       StoreOptions options);

/// Takes StoreRead, on a thread and a handle of its own: a long list holds no commit.
caf::actor spawn_store_reader(caf::actor_system& system, std::unique_ptr<ControlLog> log);

}  // namespace dlrun::cluster
