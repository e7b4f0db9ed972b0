#pragma once
/// runtime/cluster/actor/port_probe.h: whether a process of this machine listens on a port, and
/// whether one could.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlrun::cluster {

/// True when 127.0.0.1, ::1 or `address` (a literal address of this machine, or "") takes a TCP
/// connection on the port. Waits for milliseconds at most: within one machine a connection is made,
/// or refused, at once.
bool takes_connections(const std::string& address, std::uint16_t port);

/// The first of `ports` that a server of this machine could not bind, whatever its address: some
/// program has it, on one address or on all. What a server has just left in TIME_WAIT is free, as
/// it is for a server that sets SO_REUSEADDR. nullopt: all are free, or it cannot be found out (no
/// descriptors): then the program itself will see. Microseconds a port; holds none afterwards.
std::optional<std::uint16_t> taken_port(const std::vector<std::uint16_t>& ports);

}  // namespace dlrun::cluster
