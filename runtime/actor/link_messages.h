#pragma once
/// runtime/actor/link_messages.h: what links say to their owners within a process. Bytes are
/// messages of control.capnp.

#include <string>

#include "runtime/actor/envelope.h"
#include "runtime/base/ids.h"

namespace dlrun::actor {

// agent_link -> its owner
struct LinkUp {};
struct LinkDown {
  std::string reason;
};
struct LinkBytes {
  std::string bytes;
};
// owner -> agent_link; lost when the link is down
struct LinkSend {
  std::string bytes;
};

// link_hub -> its owner
struct PeerUp {
  NodeId node;
  Incarnation incarnation;
  std::string log_key;
};
struct PeerDown {
  NodeId node;
  Incarnation incarnation;
  std::string reason;
};
struct PeerBytes {
  NodeId node;
  Incarnation incarnation;
  std::string bytes;
};
// owner -> link_hub; PeerSend is lost when the peer is not there
struct PeerSend {
  NodeId node;
  std::string bytes;
};
struct PeerDrop {
  NodeId node;
  std::string reason;
};

}  // namespace dlrun::actor

DLRUN_LOCAL_MESSAGE(dlrun::actor::LinkUp)
DLRUN_LOCAL_MESSAGE(dlrun::actor::LinkDown)
DLRUN_LOCAL_MESSAGE(dlrun::actor::LinkBytes)
DLRUN_LOCAL_MESSAGE(dlrun::actor::LinkSend)
DLRUN_LOCAL_MESSAGE(dlrun::actor::PeerUp)
DLRUN_LOCAL_MESSAGE(dlrun::actor::PeerDown)
DLRUN_LOCAL_MESSAGE(dlrun::actor::PeerBytes)
DLRUN_LOCAL_MESSAGE(dlrun::actor::PeerSend)
DLRUN_LOCAL_MESSAGE(dlrun::actor::PeerDrop)
