#pragma once
/// runtime/os/address.h: what a literal IP address says.

#include <string_view>

namespace dlrun::os {

/// A literal IPv4 or IPv6 address.
bool is_address(std::string_view literal);

/// 127.0.0.0/8 or ::1. False for names, and for anything that is no literal address.
bool is_loopback(std::string_view literal);

}  // namespace dlrun::os
