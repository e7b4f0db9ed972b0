#pragma once
/// runtime/node/node_probe.h: what a machine has and where it is reached.

#include <string>

#include "runtime/base/result.h"
#include "scheduler/core/msg.h"

namespace dlrun::node {

struct Machine {
  /// CPUs this process may run on; memory of the machine or of the cgroup, whichever is less; GPUs
  /// by UUID (none without a driver).
  sched::NodeCapacity capacity;
  std::string no_gpu;  ///< "no GPU: ..." with the reason, when there is none
};
Machine probe_machine();

/// The local address from which packets to `host` leave, as a literal. No packet is sent. Loopback
/// only when the host is on it. kUnavailable when there is no route, kInvalidArgument when the name
/// does not resolve.
Result<std::string> address_towards(const std::string& host, std::uint16_t port);

/// "20000-20999". kInvalidArgument.
Result<sched::PortRange> parse_port_range(const std::string& text);
/// What the kernel hands out by itself: leased ports should lie outside.
sched::PortRange ephemeral_ports();
bool overlap(const sched::PortRange& a, const sched::PortRange& b);

/// The machine's host name made into a node's name.
std::string default_node_name();

}  // namespace dlrun::node
