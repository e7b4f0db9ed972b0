// One suite for every transport.
#include "runtime/transport/transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/transport/loopback_transport.h"
#include "runtime/transport/zmq_transport.h"

namespace dlrun::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool has_ipv6() {
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool ok = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return ok;
}

Frame text(const std::string& s) { return Frame::copy(s.data(), s.size()); }
std::string text(const Frame& f) { return {reinterpret_cast<const char*>(f.data), f.size}; }

class AnyTransport : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "loop") {
      transport = std::make_unique<LoopbackTransport>();
      bind = "loop://*";
    } else {
      transport = std::make_unique<ZmqTransport>();
      if (GetParam() == "shm") bind = "shm://*";
      if (GetParam() == "tcp4") bind = "tcp://127.0.0.1:*";
      if (GetParam() == "tcp6") {
        if (!has_ipv6()) GTEST_SKIP() << "no ::1 on this machine";
        bind = "tcp://[::1]:*";
      }
      if (GetParam() == "ipc") {
        char name[] = "/tmp/dlrun-transport-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder = name;
        bind = "ipc://" + folder + "/s";
      }
    }
  }
  void TearDown() override {
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }
  /// The next message within 10 s.
  static Incoming next(Channel& channel) {
    for (int i = 0; i < 100; ++i) {
      auto got = channel.receive(milliseconds(100));
      if (!got) {
        ADD_FAILURE() << got.error().to_string();
        return {};
      }
      if (*got) return std::move(**got);
    }
    ADD_FAILURE() << "no message within 10 s";
    return {};
  }
  /// A link comes up in the background: until then there is kUnavailable.
  static void send_soon(Channel& channel, PeerId peer, const Message& message) {
    for (int i = 0; i < 1000; ++i) {
      const Status sent = channel.send(peer, message);
      if (sent) return;
      ASSERT_EQ(sent.error().code, Errc::kUnavailable) << sent.error().context;
      (void)channel.receive(milliseconds(10));
    }
    FAIL() << "the link never came up";
  }

  std::unique_ptr<Transport> transport;
  std::string bind;
  std::string folder;
};
#ifdef DLRUN_LOOPBACK_ONLY
INSTANTIATE_TEST_SUITE_P(Kinds, AnyTransport, testing::Values("loop", "shm"));
#else
INSTANTIATE_TEST_SUITE_P(Kinds, AnyTransport,
                         testing::Values("loop", "tcp4", "tcp6", "ipc", "shm"));
#endif

TEST_P(AnyTransport, CarriesFramesThereAndBack) {
  auto server = transport->listen({.bind = {bind}}).value();
  ASSERT_EQ(server->endpoints().size(), 1u);
  std::vector<float> big(4 << 20);  // before the link, whose listener is not served meanwhile
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<float>(i);
  auto client = transport->dial().value();
  const PeerId link = client->connect(server->endpoints()[0]).value();
  send_soon(*client, link, {text("head"), Frame{}, Frame::take(std::vector<float>(big))});
  const Incoming request = next(*server);
  ASSERT_EQ(request.message.size(), 3u);
  EXPECT_EQ(text(request.message[0]), "head");
  EXPECT_EQ(request.message[1].size, 0u);
  ASSERT_EQ(request.message[2].size, big.size() * 4);
  EXPECT_EQ(std::memcmp(request.message[2].data, big.data(), big.size() * 4), 0);
  ASSERT_TRUE(server->send(request.peer, {text("answer")}));
  const Incoming reply = next(*client);
  EXPECT_EQ(reply.peer, link);
  EXPECT_EQ(text(reply.message.at(0)), "answer");
}

TEST_P(AnyTransport, EachPeerGetsItsOwnAnswers) {
  auto server = transport->listen({.bind = {bind}}).value();
  std::vector<std::unique_ptr<Channel>> clients;
  std::vector<PeerId> links;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(transport->dial().value());
    links.push_back(clients.back()->connect(server->endpoints()[0]).value());
    send_soon(*clients.back(), links.back(), {text("I am " + std::to_string(i))});
  }
  for (int i = 0; i < 5; ++i) {
    const Incoming m = next(*server);
    ASSERT_TRUE(server->send(m.peer, {text("hello, " + text(m.message.at(0)))}));
  }
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(text(next(*clients[i]).message.at(0)), "hello, I am " + std::to_string(i));
}

TEST_P(AnyTransport, KeepsTheOrderOfOneLink) {
  auto server = transport->listen({.bind = {bind}}).value();
  auto client = transport->dial().value();
  const PeerId link = client->connect(server->endpoints()[0]).value();
  for (int i = 0; i < 500; ++i) send_soon(*client, link, {text(std::to_string(i))});
  for (int i = 0; i < 500; ++i) ASSERT_EQ(text(next(*server).message.at(0)), std::to_string(i));
}

TEST_P(AnyTransport, ReceiveEndsAtItsTimeoutOrWhenWoken) {
  auto server = transport->listen({.bind = {bind}}).value();
  const SystemClock clock;
  TimePoint start = clock.now();
  EXPECT_FALSE(server->receive(milliseconds(30)).value().has_value());
  EXPECT_GE(clock.now() - start, milliseconds(25));
  EXPECT_FALSE(server->receive(Duration{0}).value().has_value());
  server->wake();  // before the wait counts too
  start = clock.now();
  EXPECT_FALSE(server->receive(seconds(20)).value().has_value());
  EXPECT_LT(clock.now() - start, seconds(10));
  std::thread other([&] { server->wake(); });
  EXPECT_FALSE(server->receive(seconds(20)).value().has_value());
  other.join();
  EXPECT_LT(clock.now() - start, seconds(10));
}

TEST_P(AnyTransport, ALinkToNobodyTakesNothingAndComesUpLater) {
  std::string endpoint;
  {
    auto server = transport->listen({.bind = {bind}}).value();
    endpoint = server->endpoints()[0];
  }
  auto client = transport->dial().value();
  const PeerId link = client->connect(endpoint).value();
  EXPECT_EQ(client->send(link, {text("x")}).error().code, Errc::kUnavailable);
  // zmq closes the first listener in the background.
  auto server = transport->listen({.bind = {endpoint}});
  for (int i = 0; i < 1000 && !server; ++i) {
    (void)client->receive(milliseconds(10));
    server = transport->listen({.bind = {endpoint}});
  }
  ASSERT_TRUE(server) << server.error().context;
  // The link may still be the first listener's, and what it takes goes down with it: said again, as
  // everybody does who wants an answer.
  std::optional<Incoming> heard;
  for (int i = 0; i < 100 && !heard; ++i) {
    send_soon(*client, link, {text("late")});
    auto got = (*server)->receive(milliseconds(100));
    ASSERT_TRUE(got) << got.error().to_string();
    heard = std::move(*got);
  }
  ASSERT_TRUE(heard);
  EXPECT_EQ(text(heard->message.at(0)), "late");
}

TEST_P(AnyTransport, AnAnswerToWhoHasGoneIsAnError) {
  auto server = transport->listen({.bind = {bind}}).value();
  auto client = transport->dial().value();
  send_soon(*client, client->connect(server->endpoints()[0]).value(), {text("bye")});
  const Incoming m = next(*server);
  client.reset();
  Errc code{};
  for (int i = 0; i < 500 && code == Errc{}; ++i) {
    if (const Status sent = server->send(m.peer, {text("?")}); !sent) code = sent.error().code;
    (void)server->receive(milliseconds(10));
  }
  EXPECT_EQ(code, Errc::kUnavailable);
}

TEST_P(AnyTransport, WhatMayWaitComesInOrderWithWhatMayNot) {
  auto server = transport->listen({.bind = {bind}}).value();
  auto client = transport->dial().value();
  send_soon(*client, client->connect(server->endpoints()[0]).value(), {text("hello"), text("you")});
  const Incoming hello = next(*server);
  ASSERT_EQ(hello.message.size(), 2u);
  EXPECT_EQ(text(hello.message[1]), "you");
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back(std::to_string(i) + std::string(i % 7 == 0 ? 40'000 : i % 9, 'x'));
    const Message message{text(expected.back()), Frame{}, text("end")};
    ASSERT_TRUE(i % 10 == 9 ? server->send(hello.peer, message)
                            : server->send_later(hello.peer, message));
  }
  (void)server->receive(Duration{0});  // nothing more to do: off it goes
  for (const std::string& one : expected) {
    const Incoming m = next(*client);
    ASSERT_EQ(m.message.size(), 3u);
    ASSERT_EQ(text(m.message[0]), one);
    EXPECT_EQ(m.message[1].size, 0u);
    EXPECT_EQ(text(m.message[2]), "end");
  }
}

TEST_P(AnyTransport, AQueueIsBounded) {
  auto server = transport->listen({.bind = {bind}, .queue_messages_max = 10}).value();
  auto client = transport->dial({.queue_messages_max = 10}).value();
  const PeerId link = client->connect(server->endpoints()[0]).value();
  const auto frame = Frame::take(std::vector<char>(1 << 20));
  send_soon(*client, link, {frame});
  bool refused = false;
  for (int i = 0; i < 200 && !refused; ++i) refused = !client->send(link, {frame});
  EXPECT_TRUE(refused);
}

#ifndef DLRUN_LOOPBACK_ONLY

TEST(ZmqTransport, BindErrorsAreTyped) {
  ZmqTransport transport;
  auto first = transport.listen({.bind = {"tcp://127.0.0.1:*"}}).value();
  const std::string taken = first->endpoints()[0];
  EXPECT_EQ(transport.listen({.bind = {taken}}).error().code, Errc::kResourceExhausted);
  EXPECT_EQ(transport.listen({.bind = {"tcp://192.0.2.1:*"}}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(transport.listen({.bind = {"nonsense"}}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(transport.listen({.bind = {}}).error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(transport.listen({.bind = {"ipc:///no/such/folder/s"}}));
  EXPECT_FALSE(transport.dial().value()->connect("tcp://"));
}

TEST(ZmqTransport, AdvertisesAnotherHostThanItBinds) {
  ZmqTransport transport;
  auto server =
      transport.listen({.bind = {"tcp://127.0.0.1:*"}, .advertise_host = "node-7.example"}).value();
  EXPECT_EQ(server->endpoints()[0].rfind("tcp://node-7.example:", 0), 0u);
  EXPECT_GT(std::stoi(server->endpoints()[0].substr(server->endpoints()[0].rfind(':') + 1)), 0);
  auto plain = transport.listen({.bind = {"tcp://127.0.0.1:*"}}).value();
  EXPECT_EQ(plain->endpoints()[0].rfind("tcp://127.0.0.1:", 0), 0u) << plain->endpoints()[0];
  auto v6 = transport.listen({.bind = {"tcp://127.0.0.1:*"}, .advertise_host = "fd00::7"}).value();
  EXPECT_EQ(v6->endpoints()[0].rfind("tcp://[fd00::7]:", 0), 0u);
}

TEST(ZmqTransport, OneListenerServesTcpAndIpcAndTakesItsSocketFileAway) {
  char name[] = "/tmp/dlrun-transport-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/s";
  {
    ZmqTransport transport;
    auto server = transport.listen({.bind = {"tcp://127.0.0.1:*", "ipc://" + path}}).value();
    ASSERT_EQ(server->endpoints().size(), 2u);
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::others_all,
              std::filesystem::perms::none);
    auto client = transport.dial().value();
    for (const std::string& endpoint : server->endpoints()) {
      const PeerId link = client->connect(endpoint).value();
      bool sent = false;
      for (int i = 0; i < 500 && !sent; ++i) {
        sent = client->send(link, {text("x")}).has_value();
        (void)client->receive(milliseconds(10));
      }
      EXPECT_TRUE(sent) << endpoint;
      EXPECT_TRUE(server->receive(seconds(10)).value().has_value()) << endpoint;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(name);
}

TEST(ZmqTransport, APeerThatSendsTooMuchIsCutOffAndTheOthersAreNot) {
  ZmqTransport transport;
  auto server =
      transport.listen({.bind = {"tcp://127.0.0.1:*"}, .message_bytes_max = 1000}).value();
  auto bad = transport.dial().value();
  auto good = transport.dial().value();
  const PeerId bad_link = bad->connect(server->endpoints()[0]).value();
  const PeerId good_link = good->connect(server->endpoints()[0]).value();
  bool sent = false;
  for (int i = 0; i < 500 && !sent; ++i) {
    sent = bad->send(bad_link, {Frame::take(std::vector<char>(5000))}).has_value();
    (void)bad->receive(milliseconds(10));
  }
  ASSERT_TRUE(sent);
  sent = false;
  for (int i = 0; i < 500 && !sent; ++i) {
    sent = good->send(good_link, {text("fine")}).has_value();
    (void)good->receive(milliseconds(10));
  }
  const auto got = server->receive(seconds(10)).value();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(text(got->message.at(0)), "fine");
}

#endif  // DLRUN_LOOPBACK_ONLY

}  // namespace
}  // namespace dlrun::transport
