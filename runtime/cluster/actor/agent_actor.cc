#include "runtime/cluster/actor/agent_actor.h"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "runtime/actor/link_messages.h"
#include "runtime/base/seldom.h"
#include "runtime/cluster/actor/messages.h"
#include "runtime/cluster/actor/wake.h"
#include "runtime/wire/control_codec.h"

namespace dlrun::cluster {
namespace {

struct AgentState {
  static inline const char* name = "agent";
  AgentActorOptions options;
  caf::actor link;
  WakeTimer timer;
  Seldom undecodable;
  AgentCore& core() { return *options.core; }
  Now now() const { return read(*options.clock); }
};
using Self = caf::stateful_actor<AgentState>;

void perform(Self* self, AgentEffects effects) {
  AgentState& s = self->state;
  for (AgentEffect& effect : effects) {
    if (auto* send = std::get_if<SendToCoordinator>(&effect))
      self->send(s.link, actor::LinkSend{wire::encode(send->message)});
    else
      s.options.perform(std::move(effect));
  }
  s.timer.arm(self, s.core().next_wake(), s.options.clock->now());
}

AgentEffects on(AgentCore& core, TaskPrepared& e, Now now) {
  return core.on_prepared(e.task, e.status, now);
}
AgentEffects on(AgentCore& core, TaskStarted& e, Now now) {
  return core.on_started(e.task, e.pid, now, e.warning);
}
AgentEffects on(AgentCore& core, TaskExited& e, Now now) {
  return core.on_exit(e.task, e.end, now);
}
AgentEffects on(AgentCore& core, TaskIsReady& e, Now now) {
  return core.on_ready(e.task, e.info, now);
}
AgentEffects on(AgentCore& core, TaskProgress& e, Now now) {
  return core.on_progress(e.task, e.fraction, e.text, now);
}
AgentEffects on(AgentCore& core, TaskAtBarrier& e, Now now) {
  return core.on_barrier(e.task, e.name, e.round, now);
}
AgentEffects on(AgentCore& core, TaskFiles& e, Now now) {
  return core.on_files(e.consumer, e.input, std::move(e.files), e.request, now);
}
AgentEffects on(AgentCore& core, TaskLease& e, Now now) {
  return core.on_lease(e.consumer, e.input, e.splits_max, e.request, e.resync, std::move(e.held),
                       std::move(e.done), now, std::move(e.steps));
}
AgentEffects on(AgentCore& core, TaskCommits& e, Now now) {
  return core.on_commit(e.task, e.id, std::move(e.tag), std::move(e.inputs), now);
}
AgentEffects on(AgentCore& core, TaskPublishing& e, Now now) {
  return core.on_publishing(e.task, e.epoch, e.progress, now);
}
AgentEffects on(AgentCore& core, TaskPublished& e, Now now) {
  return core.on_published(e.task, e.epoch, e.status, now);
}

caf::behavior agent(Self* self, AgentActorOptions options,
                    std::function<caf::actor(const caf::actor&)> make_link) {
  AgentState& s = self->state;
  s.options = std::move(options);
  s.link = make_link(self);
  self->set_default_handler(caf::drop);
  perform(self, s.core().start(s.now()));
  return {
      [self](const actor::LinkUp&) {
        AgentState& st = self->state;
        if (st.options.log) st.options.log("connected to the coordinator");
        perform(self, st.core().on_link_up(st.now()));
      },
      [self](const actor::LinkDown& down) {
        AgentState& st = self->state;
        if (st.options.log) st.options.log(down.reason);
        perform(self, st.core().on_link_down(st.now()));
      },
      [self](const actor::LinkBytes& message) {
        AgentState& st = self->state;
        const Result<ToAgent> decoded = wire::decode_to_agent(message.bytes);
        if (decoded)
          perform(self, st.core().on_message(*decoded, st.now()));
        else if (st.undecodable.now() && st.options.log)  // of a newer coordinator, or damaged
          st.options.log("a message of the coordinator is not understood (" +
                         std::to_string(st.undecodable.count()) +
                         " so far): " + decoded.error().to_string());
      },
      [self](FromHost& message) {
        AgentState& st = self->state;
        const Now now = st.now();
        perform(self,
                std::visit([&](auto& event) { return on(st.core(), event, now); }, message.event));
      },
      [self](const Wake& wake) {
        AgentState& st = self->state;
        if (st.timer.fired(wake)) perform(self, st.core().on_tick(st.now()));
      },
  };
}

}  // namespace

caf::actor spawn_agent(caf::actor_system& system, AgentActorOptions options,
                       std::function<caf::actor(const caf::actor&)> make_link) {
  return system.spawn(agent, std::move(options), std::move(make_link));
}

}  // namespace dlrun::cluster
