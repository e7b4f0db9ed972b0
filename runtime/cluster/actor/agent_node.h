#pragma once
/// runtime/cluster/actor/agent_node.h: an agent's actors and its host as one object: what a
/// composition root or a test makes.
/// Threads: start and stop from the owner's.

#include <caf/fwd.hpp>
#include <memory>

#include "runtime/actor/agent_link.h"
#include "runtime/base/result.h"
#include "runtime/cluster/actor/agent_host.h"
#include "runtime/cluster/core/agent_core.h"

namespace dlrun::cluster {

struct AgentNodeOptions {
  AgentSettings settings;
  AgentHostOptions host;
  actor::AgentLinkOptions link;
  const Clock* clock = nullptr;  ///< outlives the node
};

class AgentNode {
 public:
  /// Takes up the tasks of an earlier agent, then connects and registers for ever.
  static Result<std::unique_ptr<AgentNode>> start(caf::actor_system& system,
                                                  AgentNodeOptions options);
  ~AgentNode();  ///< ends the actors; shims and tasks run on

 private:
  struct Impl;
  explicit AgentNode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::cluster
