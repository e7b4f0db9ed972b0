#pragma once
/// runtime/cluster/actor/agent_actor.h: hosts AgentCore. Takes LinkUp/LinkDown/LinkBytes of its
/// link and FromHost.

#include <caf/fwd.hpp>
#include <functional>
#include <memory>

#include "runtime/cluster/core/agent_core.h"

namespace dlrun::cluster {

struct AgentActorOptions {
  std::shared_ptr<AgentCore> core;              ///< recovered, not started
  const Clock* clock = nullptr;                 ///< outlives the actor
  std::function<void(AgentEffect)> perform;     ///< the host's; any thread
  std::function<void(const std::string&)> log;  ///< one line: link up, link down
};

caf::actor spawn_agent(caf::actor_system& system, AgentActorOptions options,
                       std::function<caf::actor(const caf::actor& agent)> make_link);

}  // namespace dlrun::cluster
