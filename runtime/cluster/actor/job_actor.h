#pragma once
/// runtime/cluster/actor/job_actor.h: hosts one JobCore. Takes ForJob; sends StoreEvents to the
/// store, PeerSend to the hub, FromJob to the coordinator. Quits when the core is over, or with the
/// coordinator.

#include <caf/fwd.hpp>

#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

struct JobActorOptions {
  JobRecord record;
  JobSettings settings;
  const TokenIssuer* tokens = nullptr;  ///< outlives the actor
  const Clock* clock = nullptr;         ///< outlives the actor
  LedgerFactory make_ledger;
};

caf::actor spawn_job(caf::actor_system& system, const caf::actor& coordinator,
                     const caf::actor& store, const caf::actor& hub, JobActorOptions options);

}  // namespace dlrun::cluster
