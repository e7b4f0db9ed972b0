#pragma once
/// runtime/actor/link_hub.h: the coordinator's end of all connections. A peer is nobody until its
/// hello was verified: its certificate is an agent's of this cluster, carries the node's name, is
/// not revoked, and its key signed the hello. One connection per node: a later hello of the same
/// node replaces the earlier one. Bytes for a peer that is not there, or that has not been heard
/// while `unheard_bytes_max` were sent, are lost: the cores repeat what matters.
/// Bounds: peers_max, unheard_bytes_max per peer, kEnvelopeBytesMax per frame. Ends with its owner.

#include <caf/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/wire/link_codec.h"

namespace dlrun::actor {

struct LinkHubOptions {
  std::function<Status(const wire::LinkHello&)> verify;
  /// A line, not one per frame: what was dropped because it is too large or not understood.
  std::function<void(const std::string&)> log;
  std::size_t peers_max = 10'000;
  std::size_t unheard_bytes_max = 64u << 20;
};

/// The owner gets PeerUp, PeerDown, PeerBytes and sends PeerSend, PeerDrop.
caf::actor spawn_link_hub(caf::actor_system& system, const caf::actor& owner,
                          LinkHubOptions options);

/// Opens the mutual-TLS port for agents. `address`: literal; port 0 = any free one. Returns the
/// port.
Result<std::uint16_t> publish_hub(caf::actor_system& system, const caf::actor& hub,
                                  const std::string& address, std::uint16_t port);

}  // namespace dlrun::actor
