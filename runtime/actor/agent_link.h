#pragma once
/// runtime/actor/agent_link.h: the agent's end of the connection to the coordinator; comes back by
/// itself.
///
///   Down -1-> Connecting -2-> Greeting -3-> Up -4-> Down
///                  +-----------5-+------------------^
///   1: the backoff is over (at once at first). 2: a peer answers at one of the addresses, tried in
///   turn: hello is sent. 3: welcome: LinkUp to the owner. 4: the peer is gone, or more than
///   `unheard_bytes_max` were sent since it was last heard: LinkDown. 5: no answer in time, or
///   refused: LinkDown with the reason, for the log.
/// The loss of the connection is a hint only: leases decide.
/// Bounds: unheard_bytes_max in CAF's output queue. Ends with its owner.

#include <caf/fwd.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/wire/link_codec.h"

namespace dlrun::actor {

struct LinkAddress {
  std::string host;  ///< name or literal address
  std::uint16_t port = 0;
};

struct AgentLinkOptions {
  std::vector<LinkAddress> coordinators;
  /// Instead of the network: the hub in this process, or a null handle when it is down now.
  std::function<caf::actor()> local;
  /// Made anew for each connection: a renewed certificate is used from the next one on. An error is
  /// a failed try.
  std::function<Result<wire::LinkHello>()> hello;
  Duration connect_timeout = std::chrono::seconds(10);
  Duration greeting_timeout = std::chrono::seconds(5);
  Duration retry_first = std::chrono::milliseconds(100);
  Duration retry_max = std::chrono::seconds(5);
  std::size_t unheard_bytes_max = 64u << 20;
  std::uint64_t seed = 1;  ///< of the jitter
};

/// The owner gets LinkUp, LinkDown, LinkBytes and sends LinkSend.
caf::actor spawn_agent_link(caf::actor_system& system, const caf::actor& owner,
                            AgentLinkOptions options);

}  // namespace dlrun::actor
