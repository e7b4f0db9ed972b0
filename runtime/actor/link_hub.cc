#include "runtime/actor/link_hub.h"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/openssl/publish.hpp>
#include <caf/stateful_actor.hpp>
#include <unordered_map>

#include "runtime/actor/link_messages.h"
#include "runtime/base/seldom.h"

namespace dlrun::actor {
namespace {

struct Peer {
  caf::actor handle;
  NodeId node;
  Incarnation incarnation;
  std::size_t unheard_bytes = 0;
};

struct HubState {
  static inline const char* name = "link_hub";
  LinkHubOptions options;
  caf::actor owner;
  std::unordered_map<caf::actor_addr, Peer> peers;
  std::unordered_map<NodeId, caf::actor_addr> by_node;
  Seldom dropped;
};
using Self = caf::stateful_actor<HubState>;

void forget(Self* self, const caf::actor_addr& address, const std::string& reason) {
  HubState& s = self->state;
  const auto it = s.peers.find(address);
  if (it == s.peers.end()) return;
  self->demonitor(it->second.handle);
  self->send(s.owner, PeerDown{it->second.node, it->second.incarnation, reason});
  if (const auto named = s.by_node.find(it->second.node);
      named != s.by_node.end() && named->second == address)
    s.by_node.erase(named);
  s.peers.erase(it);
}

void answer(Self* self, const caf::actor& peer, const wire::LinkFrame& frame) {
  self->send(peer, Envelope{wire::encode(frame)});
}

void greet(Self* self, const caf::actor& peer, const wire::LinkHello& hello) {
  HubState& s = self->state;
  Status ok = s.options.verify ? s.options.verify(hello) : Status{};
  if (ok && hello.version < wire::kLinkVersionMin)
    ok = fail(Errc::kUnsupported, "its version of the link, " + std::to_string(hello.version) +
                                      ", is older than " + std::to_string(wire::kLinkVersionMin) +
                                      ": upgrade its dlrun");
  if (ok && s.peers.size() >= s.options.peers_max)
    ok = fail(Errc::kOverloaded, "too many nodes are connected");
  if (!ok) return answer(self, peer, wire::LinkRefused{ok.error().code, ok.error().context});
  forget(self, peer.address(), "it said hello again");
  if (const auto old = s.by_node.find(hello.node); old != s.by_node.end()) {
    const caf::actor_addr address = old->second;
    answer(self, s.peers.at(address).handle,
           wire::LinkRefused{Errc::kUnavailable,
                             "another process speaks for node " + hello.node.value + " now"});
    forget(self, address, "replaced by a later connection");
  }
  self->monitor(peer);
  s.peers.emplace(peer.address(), Peer{peer, hello.node, hello.incarnation});
  s.by_node.emplace(hello.node, peer.address());
  answer(self, peer, wire::LinkWelcome{std::min(hello.version, wire::kLinkVersion)});
  self->send(s.owner, PeerUp{hello.node, hello.incarnation, hello.log_key});
}

void drop(Self* self, const caf::actor& sender, const std::string& why) {
  HubState& s = self->state;
  if (!s.dropped.now() || !s.options.log) return;
  const auto it = s.peers.find(sender.address());
  s.options.log("a frame of " +
                (it == s.peers.end() ? std::string("a process that is no node")
                                     : "node " + it->second.node.value) +
                " was dropped (" + std::to_string(s.dropped.count()) + " so far): " + why);
}

void receive(Self* self, const Envelope& envelope) {
  HubState& s = self->state;
  const caf::actor sender = caf::actor_cast<caf::actor>(self->current_sender());
  if (!sender) return;
  if (envelope.bytes.size() > kEnvelopeBytesMax)
    return drop(self, sender, "it has " + std::to_string(envelope.bytes.size()) + " bytes");
  Result<wire::LinkFrame> frame = wire::decode_link(envelope.bytes);
  if (!frame) return drop(self, sender, frame.error().to_string());
  if (const auto* hello = std::get_if<wire::LinkHello>(&*frame)) return greet(self, sender, *hello);
  auto* payload = std::get_if<wire::LinkPayload>(&*frame);
  if (payload == nullptr) return;
  const auto it = s.peers.find(sender.address());
  if (it == s.peers.end())  // this hub is younger than the connection: the link must greet again
    return answer(self, sender, wire::LinkRefused{Errc::kUnavailable, "say hello first"});
  it->second.unheard_bytes = 0;
  self->send(s.owner,
             PeerBytes{it->second.node, it->second.incarnation, std::move(payload->bytes)});
}

caf::behavior link_hub(Self* self, caf::actor owner, LinkHubOptions options) {
  self->state.owner = std::move(owner);
  self->state.options = std::move(options);
  self->link_to(self->state.owner);
  self->set_default_handler(caf::drop);
  self->set_down_handler([self](caf::down_msg& down) {
    forget(self, down.source, "the connection is lost: " + self->system().render(down.reason));
  });
  return {
      [self](const Envelope& envelope) { receive(self, envelope); },
      [self](PeerSend& message) {
        HubState& s = self->state;
        const auto named = s.by_node.find(message.node);
        if (named == s.by_node.end()) return;
        Peer& peer = s.peers.at(named->second);
        peer.unheard_bytes += message.bytes.size();
        if (peer.unheard_bytes > s.options.unheard_bytes_max)
          return forget(self, caf::actor_addr(named->second), "it does not take what is sent");
        answer(self, peer.handle, wire::LinkPayload{std::move(message.bytes)});
      },
      [self](const PeerDrop& message) {
        HubState& s = self->state;
        const auto named = s.by_node.find(message.node);
        if (named == s.by_node.end()) return;
        const caf::actor_addr address = named->second;
        answer(self, s.peers.at(address).handle,
               wire::LinkRefused{Errc::kPermissionDenied, message.reason});
        forget(self, address, message.reason);
      },
  };
}

}  // namespace

caf::actor spawn_link_hub(caf::actor_system& system, const caf::actor& owner,
                          LinkHubOptions options) {
  return system.spawn(link_hub, owner, std::move(options));
}

Result<std::uint16_t> publish_hub(caf::actor_system& system, const caf::actor& hub,
                                  const std::string& address, std::uint16_t port) {
  const auto published = caf::openssl::publish(hub, port, address.c_str(), true);
  if (!published)
    return fail(Errc::kIo, "cannot listen for agents on " + address + " port " +
                               std::to_string(port) +
                               " (in use already?): " + system.render(published.error()));
  return *published;
}

}  // namespace dlrun::actor
