#include "runtime/os/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

namespace dlrun::os {

bool is_address(std::string_view literal) {
  const std::string text(literal);
  in6_addr any{};
  return inet_pton(AF_INET, text.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &any) == 1;
}

bool is_loopback(std::string_view literal) {
  const std::string text(literal);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string interface_of(std::string_view literal) {
  const std::string text(literal);
  in_addr v4{};
  in6_addr v6{};
  const bool is_v4 = inet_pton(AF_INET, text.c_str(), &v4) == 1;
  if (!is_v4 && inet_pton(AF_INET6, text.c_str(), &v6) != 1) return {};
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != (is_v4 ? AF_INET : AF_INET6))
      continue;
    const bool same =
        is_v4 ? std::memcmp(&reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, &v4,
                            sizeof v4) == 0
              : std::memcmp(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr, &v6,
                            sizeof v6) == 0;
    if (same) return at->ifa_name;
  }
  return {};
}

}  // namespace dlrun::os
