#pragma once
/// runtime/cluster/actor/coordinator_actor.h: hosts CoordinatorCore; spawns the hub and a job actor
/// per running job. Takes PeerUp/PeerDown/PeerBytes of the hub, FromJob of jobs,
/// StoreDone/StoreAnswer of the store, ApiRequest.

#include <caf/actor.hpp>
#include <functional>
#include <memory>

#include "runtime/cluster/actor/meters.h"
#include "runtime/cluster/core/coordinator_core.h"

namespace dlrun::cluster {

struct CoordinatorActorOptions {
  std::shared_ptr<CoordinatorCore> core;  ///< replayed, not started
  std::shared_ptr<sched::Placer> placer;  ///< the core's
  JobSettings job_settings;
  const TokenIssuer* tokens = nullptr;  ///< outlives the actors
  const Clock* clock = nullptr;         ///< outlives the actors
  LedgerFactory make_ledger;
  std::function<void(const NodeId&, const std::string& log_key)>
      on_peer;                                  ///< lets the node's logs in
  std::function<void(const std::string&)> log;  ///< one line; may be empty
  caf::actor reader;                            ///< of the log; none: the store answers reads
  /// Something of the job (0 = the cluster) changed, and the answers to calls show it.
  std::function<void(JobId)> on_change;
  Meters* meters = nullptr;        ///< outlives the actor; may be null
  std::uint32_t calls_max = 4096;  ///< API calls under way; above: kOverloaded
};

/// The hub is given by `make_hub(coordinator)` once the actor runs.
caf::actor spawn_coordinator(caf::actor_system& system, const caf::actor& store,
                             CoordinatorActorOptions options,
                             std::function<caf::actor(const caf::actor& coordinator)> make_hub);

}  // namespace dlrun::cluster
