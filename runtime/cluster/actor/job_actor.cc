#include "runtime/cluster/actor/job_actor.h"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "runtime/actor/link_messages.h"
#include "runtime/cluster/actor/messages.h"
#include "runtime/cluster/actor/wake.h"
#include "runtime/wire/control_codec.h"

namespace dlrun::cluster {
namespace {

struct JobActorState {
  static inline const char* name = "job";
  std::optional<JobCore> core;
  JobId id;
  caf::actor coordinator, store, hub;
  const Clock* clock = nullptr;
  WakeTimer timer;
  bool untold = false;  ///< something was recorded that no message to the coordinator followed
};
using Self = caf::stateful_actor<JobActorState>;

void perform(Self* self, JobEffects effects) {
  JobActorState& s = self->state;
  for (JobEffect& effect : effects) {
    if (auto* persist = std::get_if<Persist>(&effect)) {
      self->send(s.store, StoreEvents{std::move(*persist)});
    } else if (auto* send = std::get_if<SendToAgent>(&effect)) {
      self->send(s.hub, actor::PeerSend{send->node, wire::encode(send->message)});
    } else if (auto* report = std::get_if<JobToCoordinator>(&effect)) {
      self->send(s.coordinator, FromJob{s.id, std::move(*report)});
      s.untold = false;
    }
  }
  if (s.untold && !s.core->report_pending()) {
    self->send(s.coordinator, FromJob{s.id, std::nullopt});
    s.untold = false;
  }
  if (s.core->over()) return self->quit();
  s.timer.arm(self, s.core->next_wake(), s.clock->now());
}

caf::behavior job(Self* self, caf::actor coordinator, caf::actor store, caf::actor hub,
                  JobActorOptions options) {
  JobActorState& s = self->state;
  s.id = options.record.id;
  s.coordinator = std::move(coordinator);
  s.store = std::move(store);
  s.hub = std::move(hub);
  s.clock = options.clock;
  s.core.emplace(std::move(options.record), options.settings, *options.tokens,
                 std::move(options.make_ledger));
  self->set_default_handler(caf::drop);
  perform(self, s.core->start(read(*s.clock)));
  return {
      [self](const ForJob& message) {
        perform(self, self->state.core->on_input(message.input, read(*self->state.clock)));
      },
      [self](const StoreDone& done) {
        JobActorState& st = self->state;
        const Now now = read(*st.clock);
        st.untold = st.untold || done.status.has_value();
        perform(self, done.status ? st.core->on_persisted(done.id, now)
                                  : st.core->on_persist_failed(done.id, done.status.error(), now));
      },
      [self](const Wake& wake) {
        JobActorState& st = self->state;
        if (st.timer.fired(wake)) perform(self, st.core->on_tick(read(*st.clock)));
      },
  };
}

}  // namespace

caf::actor spawn_job(caf::actor_system& system, const caf::actor& coordinator,
                     const caf::actor& store, const caf::actor& hub, JobActorOptions options) {
  return system.spawn(job, coordinator, store, hub, std::move(options));
}

}  // namespace dlrun::cluster
