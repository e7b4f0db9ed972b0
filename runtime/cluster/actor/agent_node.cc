#include "runtime/cluster/actor/agent_node.h"

#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "runtime/cluster/actor/agent_actor.h"
#include "runtime/cluster/actor/messages.h"

namespace dlrun::cluster {

struct AgentNode::Impl {
  explicit Impl(caf::actor_system& s) : system(s) {}
  caf::actor_system& system;
  std::shared_ptr<AgentHost> host;
  caf::actor agent;
};

AgentNode::AgentNode(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<AgentNode>> AgentNode::start(caf::actor_system& system,
                                                    AgentNodeOptions options) {
  auto impl = std::make_unique<Impl>(system);
  const std::function<void(const std::string&)> log = options.host.log;
  DLRUN_ASSIGN(impl->host, AgentHost::start(std::move(options.host)));
  auto core = std::make_shared<AgentCore>(std::move(options.settings));
  for (const FoundTask& found : impl->host->found()) core->recover(found);

  AgentActorOptions actor_options;
  actor_options.core = std::move(core);
  actor_options.clock = options.clock;
  actor_options.perform = [host = impl->host.get()](AgentEffect effect) {
    host->perform(std::move(effect));
  };
  actor_options.log = log;
  impl->agent = spawn_agent(system, std::move(actor_options),
                            [&system, link = std::move(options.link)](const caf::actor& agent) {
                              return actor::spawn_agent_link(system, agent, link);
                            });
  impl->host->begin([agent = impl->agent](HostEvent event) {
    caf::anon_send(agent, FromHost{std::move(event)});
  });
  return std::unique_ptr<AgentNode>(new AgentNode(std::move(impl)));
}

AgentNode::~AgentNode() {
  if (!impl_) return;
  caf::anon_send_exit(impl_->agent, caf::exit_reason::user_shutdown);
  caf::scoped_actor self(impl_->system);
  self->wait_for(impl_->agent);  // after this nobody calls the host
  impl_->host.reset();
}

}  // namespace dlrun::cluster
