#include "runtime/actor/agent_link.h"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/openssl/manager.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <optional>

#include "runtime/actor/backoff.h"
#include "runtime/actor/link_messages.h"

namespace dlrun::actor {
namespace {

struct Timer {
  enum class Kind { kRetry, kGreeting } kind;
  std::uint64_t number;  ///< of the try it was armed for; others are late
};

}  // namespace
}  // namespace dlrun::actor
DLRUN_LOCAL_MESSAGE(dlrun::actor::Timer)

namespace dlrun::actor {
namespace {

struct LinkState {
  static inline const char* name = "agent_link";
  enum class Phase { kDown, kConnecting, kGreeting, kUp } phase = Phase::kDown;
  AgentLinkOptions options;
  caf::actor owner;
  caf::actor remote;
  std::optional<Backoff> backoff;
  std::size_t next_address = 0;
  std::uint64_t tries = 0;
  std::size_t unheard_bytes = 0;
};
using Self = caf::stateful_actor<LinkState>;

void connect(Self* self);

void lose(Self* self, const std::string& reason) {
  LinkState& s = self->state;
  if (s.remote) self->demonitor(s.remote);
  s.remote = nullptr;
  s.phase = LinkState::Phase::kDown;
  ++s.tries;
  self->send(s.owner, LinkDown{reason});
  self->delayed_send(self, s.backoff->next(), Timer{Timer::Kind::kRetry, s.tries});
}

void greet(Self* self, const caf::actor& remote) {
  LinkState& s = self->state;
  const Result<wire::LinkHello> hello = s.options.hello();
  if (!hello) return lose(self, hello.error().context);
  s.remote = remote;
  s.phase = LinkState::Phase::kGreeting;
  s.unheard_bytes = 0;
  self->monitor(remote);
  self->send(remote, Envelope{wire::encode(*hello)});
  self->delayed_send(self, s.options.greeting_timeout, Timer{Timer::Kind::kGreeting, s.tries});
}

void connect(Self* self) {
  LinkState& s = self->state;
  s.phase = LinkState::Phase::kConnecting;
  ++s.tries;
  if (s.options.local) {
    const caf::actor hub = s.options.local();
    return hub ? greet(self, hub) : lose(self, "the coordinator is down");
  }
  const LinkAddress address =
      s.options.coordinators[s.next_address++ % s.options.coordinators.size()];
  const std::string where = address.host + " port " + std::to_string(address.port);
  self->request(self->system().openssl_manager().actor_handle(), s.options.connect_timeout,
                caf::connect_atom_v, address.host, address.port)
      .then(
          [self, where, number = s.tries](const caf::node_id&, caf::strong_actor_ptr& remote,
                                          const std::set<std::string>&) {
            if (self->state.tries != number) return;
            if (!remote) return lose(self, "no coordinator at " + where);
            greet(self, caf::actor_cast<caf::actor>(remote));
          },
          [self, where, number = s.tries](caf::error& error) {
            if (self->state.tries == number)
              lose(self, "cannot connect to " + where + ": " + self->system().render(error));
          });
}

void receive(Self* self, const Envelope& envelope) {
  LinkState& s = self->state;
  if (!s.remote || self->current_sender() != caf::actor_cast<caf::strong_actor_ptr>(s.remote))
    return;
  s.unheard_bytes = 0;
  Result<wire::LinkFrame> frame = wire::decode_link(envelope.bytes);
  if (!frame) return;  // of a later version, or damaged: what mattered is repeated
  if (const auto* welcome = std::get_if<wire::LinkWelcome>(&*frame);
      welcome != nullptr && s.phase == LinkState::Phase::kGreeting) {
    if (welcome->version < wire::kLinkVersionMin || welcome->version > wire::kLinkVersion)
      return lose(self, "the coordinator wants version " + std::to_string(welcome->version) +
                            " of the link: one of the two must be upgraded");
    s.phase = LinkState::Phase::kUp;
    s.backoff->reset();
    self->send(s.owner, LinkUp{});
  } else if (auto* refused = std::get_if<wire::LinkRefused>(&*frame)) {
    lose(self, "the coordinator refuses this node: " + refused->reason);
  } else if (auto* payload = std::get_if<wire::LinkPayload>(&*frame);
             payload != nullptr && s.phase == LinkState::Phase::kUp) {
    self->send(s.owner, LinkBytes{std::move(payload->bytes)});
  }
}

caf::behavior agent_link(Self* self, caf::actor owner, AgentLinkOptions options) {
  LinkState& s = self->state;
  s.owner = std::move(owner);
  s.options = std::move(options);
  s.backoff.emplace(s.options.retry_first, s.options.retry_max, s.options.seed);
  self->link_to(s.owner);
  self->set_default_handler(caf::drop);
  self->set_down_handler([self](caf::down_msg& down) {
    if (self->state.remote && down.source == self->state.remote.address())
      lose(self, "the connection is lost: " + self->system().render(down.reason));
  });
  connect(self);
  return {
      [self](const Envelope& envelope) { receive(self, envelope); },
      [self](LinkSend& message) {
        LinkState& st = self->state;
        if (st.phase != LinkState::Phase::kUp) return;
        st.unheard_bytes += message.bytes.size();
        if (st.unheard_bytes > st.options.unheard_bytes_max)
          return lose(self, "the coordinator does not take what is sent");
        self->send(st.remote, Envelope{wire::encode(wire::LinkPayload{std::move(message.bytes)})});
      },
      [self](const Timer& timer) {
        LinkState& st = self->state;
        if (timer.number != st.tries) return;
        if (timer.kind == Timer::Kind::kRetry && st.phase == LinkState::Phase::kDown) connect(self);
        if (timer.kind == Timer::Kind::kGreeting && st.phase == LinkState::Phase::kGreeting)
          lose(self, "the coordinator does not answer");
      },
  };
}

}  // namespace

caf::actor spawn_agent_link(caf::actor_system& system, const caf::actor& owner,
                            AgentLinkOptions options) {
  return system.spawn(agent_link, owner, std::move(options));
}

}  // namespace dlrun::actor
