#include "runtime/cluster/actor/port_probe.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

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

TEST(PortProbe, SeesAListenerAndItsEnd) {
  Bound server("127.0.0.1");
  EXPECT_FALSE(takes_connections("", server.port)) << "bound is not yet listening";
  server.listen();
  EXPECT_TRUE(takes_connections("", server.port));
  EXPECT_TRUE(takes_connections("127.0.0.1", server.port));
  server.close();
  EXPECT_FALSE(takes_connections("", server.port));
}

TEST(PortProbe, APortThatAProgramHasOnAnyAddressIsTakenUntilItGivesItBack) {
  for (const char* address : {"127.0.0.1", "0.0.0.0", "::1", "::", "127.0.0.7"}) {
    Bound server(address);
    if (!server.ok) continue;  // no IPv6 here
    EXPECT_EQ(taken_port({server.port}), server.port) << address << ": bound, not yet listening";
    server.listen();
    EXPECT_EQ(taken_port({server.port}), server.port) << address;
    server.close();
    EXPECT_EQ(taken_port({server.port}), std::nullopt) << address;
  }
  EXPECT_EQ(taken_port({}), std::nullopt);
}

TEST(PortProbe, NamesTheFirstOfSeveral) {
  Bound a("127.0.0.1"), b("127.0.0.1"), free("127.0.0.1");
  free.close();
  EXPECT_EQ(taken_port({free.port, b.port, a.port}), b.port);
}

TEST(PortProbe, WhatAServerHasJustLeftIsFree) {
  Bound server("127.0.0.1");
  const int on = 1;
  ::setsockopt(server.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  server.listen();
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(server.port);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  const int accepted = ::accept4(server.fd, nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(accepted, 0);
  ::close(accepted);  // who closes first is in TIME_WAIT for a minute, at the server's port
  char byte = 0;
  EXPECT_EQ(::read(client, &byte, 1), 0);
  ::close(client);
  server.close();
  EXPECT_EQ(taken_port({server.port}), std::nullopt);
}

}  // namespace
}  // namespace dlrun::cluster
