#include "runtime/os/address.h"

#include <arpa/inet.h>

#include <string>

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

}  // namespace dlrun::os
