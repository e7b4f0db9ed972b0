#include "runtime/cluster/actor/port_probe.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace dlrun::cluster {
namespace {

/// Within one machine an answer is there at once; this is for a machine out of breath.
constexpr int kWaitMs = 50;

bool connects(const std::string& address, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(address.c_str(), port.c_str(), &hints, &list) != 0) return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  const int fd = ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool ok = ::connect(fd, list->ai_addr, list->ai_addrlen) == 0;
  if (!ok && errno == EINPROGRESS) {
    pollfd wait{fd, POLLOUT, 0};
    int error = 0;
    socklen_t n = sizeof error;
    ok = ::poll(&wait, 1, kWaitMs) == 1 &&
         ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == 0;
  }
  ::close(fd);
  return ok;
}

/// 0, or the errno of the first step that failed.
int try_bind(const sockaddr* address, socklen_t size) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int error = ::bind(fd, address, size) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

bool taken(std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (try_bind(reinterpret_cast<const sockaddr*>(&v4), sizeof v4) == EADDRINUSE) return true;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  return try_bind(reinterpret_cast<const sockaddr*>(&v6), sizeof v6) == EADDRINUSE;
}

}  // namespace

std::optional<std::uint16_t> taken_port(const std::vector<std::uint16_t>& ports) {
  for (const std::uint16_t port : ports)
    if (taken(port)) return port;
  return std::nullopt;
}

bool takes_connections(const std::string& address, std::uint16_t port) {
  const std::string text = std::to_string(port);
  return connects("127.0.0.1", text) || connects("::1", text) ||
         (!address.empty() && connects(address, text));
}

}  // namespace dlrun::cluster
