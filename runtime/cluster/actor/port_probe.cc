#include "runtime/cluster/actor/port_probe.h"

#include <netdb.h>
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

}  // namespace

bool takes_connections(const std::string& address, std::uint16_t port) {
  const std::string text = std::to_string(port);
  return connects("127.0.0.1", text) || connects("::1", text) ||
         (!address.empty() && connects(address, text));
}

}  // namespace dlrun::cluster
