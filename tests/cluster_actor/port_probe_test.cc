#include "runtime/cluster/actor/port_probe.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>

namespace dlrun::cluster {
namespace {

/// A socket at a port of the kernel's choice, at a literal address.
struct Bound {
  explicit Bound(const char* text) {
    sockaddr_storage at{};
    auto* v4 = reinterpret_cast<sockaddr_in*>(&at);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&at);
    const bool four = std::strchr(text, ':') == nullptr;
    at.ss_family = four ? AF_INET : AF_INET6;
    ::inet_pton(at.ss_family, text, four ? static_cast<void*>(&v4->sin_addr) : &v6->sin6_addr);
    fd = ::socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = four ? sizeof *v4 : sizeof *v6;
    ok = ::bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
    port = ntohs(v4->sin_port);  // at the same place in both
  }
  void listen() const { EXPECT_EQ(::listen(fd, 4), 0); }
  void close() {
    ::close(fd);
    fd = -1;
  }
  ~Bound() {
    if (fd >= 0) ::close(fd);
  }
  int fd = -1;
  bool ok = false;
  std::uint16_t port = 0;
};

/// A port that was just given back may be taken by another program before anybody looks, and again:
/// of several, each of the kernel's choice, not all are.
bool once(const std::function<bool()>& round) {
  for (int i = 0; i < 8; ++i)
    if (round()) return true;
  return false;
}

TEST(PortProbe, SeesAListenerAndItsEnd) {
  EXPECT_TRUE(once([] {
    Bound server("127.0.0.1");
    EXPECT_FALSE(takes_connections("", server.port)) << "bound is not yet listening";
    server.listen();
    EXPECT_TRUE(takes_connections("", server.port));
    EXPECT_TRUE(takes_connections("127.0.0.1", server.port));
    server.close();
    return !takes_connections("", server.port);
  }));
}

TEST(PortProbe, APortThatAProgramHasOnAnyAddressIsTakenUntilItGivesItBack) {
  for (const char* address : {"127.0.0.1", "0.0.0.0", "::1", "::", "127.0.0.7"})
    EXPECT_TRUE(once([address] {
      Bound server(address);
      if (!server.ok) return true;  // no IPv6 here
      EXPECT_EQ(taken_port({server.port}), server.port) << address << ": bound, not yet listening";
      server.listen();
      EXPECT_EQ(taken_port({server.port}), server.port) << address;
      server.close();
      return !taken_port({server.port});
    })) << address;
  EXPECT_EQ(taken_port({}), std::nullopt);
}

TEST(PortProbe, NamesTheFirstOfSeveral) {
  EXPECT_TRUE(once([] {
    Bound a("127.0.0.1"), b("127.0.0.1"), free("127.0.0.1");
    free.close();
    return taken_port({free.port, b.port, a.port}) == b.port;
  }));
}

/// A server that closed its connection first; its port then.
std::uint16_t port_in_time_wait() {
  Bound server("127.0.0.1");
  const int on = 1;
  ::setsockopt(server.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  server.listen();
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(server.port);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  const int accepted = ::accept4(server.fd, nullptr, nullptr, SOCK_CLOEXEC);
  EXPECT_GE(accepted, 0);
  ::close(accepted);  // who closes first is in TIME_WAIT for a minute, at the server's port
  char byte = 0;
  EXPECT_EQ(::read(client, &byte, 1), 0);
  ::close(client);
  return server.port;
}

TEST(PortProbe, WhatAServerHasJustLeftIsFree) {
  EXPECT_TRUE(once([] { return !taken_port({port_in_time_wait()}); }));
}

}  // namespace
}  // namespace dlrun::cluster
