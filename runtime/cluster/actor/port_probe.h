#pragma once
/// runtime/cluster/actor/port_probe.h: whether a process of this machine listens on a port.

#include <cstdint>
#include <string>

namespace dlrun::cluster {

/// True when 127.0.0.1, ::1 or `address` (a literal address of this machine, or "") takes a TCP
/// connection on the port. Waits for milliseconds at most: within one machine a connection is made,
/// or refused, at once.
bool takes_connections(const std::string& address, std::uint16_t port);

}  // namespace dlrun::cluster
