#pragma once
/// runtime/os/address.h: what a literal IP address says, and whose it is here.

#include <string>
#include <string_view>

namespace dlrun::os {

/// A literal IPv4 or IPv6 address.
bool is_address(std::string_view literal);

/// 127.0.0.0/8 or ::1. False for names, and for anything that is no literal address.
bool is_loopback(std::string_view literal);

/// The name of the network interface of this machine that has this address: "eth0"; "" when none
/// has it, or the system does not say.
std::string interface_of(std::string_view literal);

}  // namespace dlrun::os
