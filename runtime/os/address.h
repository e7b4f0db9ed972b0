#pragma once
/// runtime/os/address.h: what a literal IP address says.

#include <string_view>

namespace dlrun::os {

/// 127.0.0.0/8 or ::1. False for names, and for anything that is no literal address.
bool is_loopback(std::string_view literal);

}  // namespace dlrun::os
