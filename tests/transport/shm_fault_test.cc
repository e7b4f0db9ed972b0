// Links in shared memory where something is short, full, forked, or not by the rules.
#include <sys/resource.h>
#include <sys/wait.h>

#include <ctime>

#include "runtime/transport/packing.h"
#include "runtime/transport/shm_end.h"
#include "tests/transport/shm_helper.h"

namespace dlrun::transport {
namespace {

const SystemClock kClock;

std::string own_endpoint(const std::string& what) {
  return "shm://@dlrun-test-" + what + "-" + std::to_string(::getpid());
}

/// Until `done`, driving the channel; false: not in 20 s.
template <class Done>
bool drive_until(Channel& channel, Done done) {
  const TimePoint give_up = kClock.now() + seconds(20);
  while (!done()) {
    if (kClock.now() > give_up) return false;
    (void)channel.receive(milliseconds(5));
  }
  return true;
}

// ---- fork

TEST(ShmTransport, ALinkEndsForItsPeerThoughAForkedChildHasCopiesOfIt) {
  ZmqTransport transport;
  auto server = transport.listen({.bind = {"shm://*"}}).value();
  const int before = memory_files();
  for (const bool whole : {false, true}) {
    auto client = transport.dial().value();
    const PeerId link = client->connect(server->endpoints()[0]).value();
    ASSERT_TRUE(client->send(link, {bytes_of(10, 1)}));
    ASSERT_TRUE(next(*server));
    ASSERT_GT(memory_files(), before);
    const pid_t child = fork_child([] {
      for (;;) ::pause();
    });
    EXPECT_EQ(memory_files(std::to_string(child)), 0) << "it must not keep the memory";
    if (whole) {
      client.reset();
    } else {
      client->disconnect(link);
    }
    EXPECT_TRUE(drive_until(*server, [&] { return memory_files() == before; })) << whole;
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  }
}

TEST(ShmTransport, AForkedChildThatDestroysItsCopyEndsNothing) {
  ZmqTransport transport;
  auto server = transport.listen({.bind = {"shm://*"}}).value();
  auto client = transport.dial().value();
  const int before = memory_files();
  const PeerId link = client->connect(server->endpoints()[0]).value();
  ASSERT_TRUE(client->send(link, {bytes_of(10, 1)}));
  auto greeting = next(*server);
  ASSERT_TRUE(greeting);
  const PeerId peer = greeting->peer;
  greeting.reset();  // its frame holds the memory
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  os::Fd in(ends[0]), out(ends[1]);
  const pid_t child = fork_child([&] {
    client.reset();
    server.reset();
    (void)!::write(out.get(), "x", 1);
    for (;;) ::pause();
  });
  out.reset();
  char byte = 0;
  ASSERT_EQ(::read(in.get(), &byte, 1), 1) << "the child did not live through it";
  EXPECT_TRUE(server->send(peer, {bytes_of(10, 2)}));
  EXPECT_TRUE(next(*client));
  EXPECT_TRUE(client->send(link, {bytes_of(10, 3)}));
  EXPECT_TRUE(next(*server));
  server.reset();  // seen by who still watches the socket
  EXPECT_TRUE(drive_until(*client, [&] { return memory_files() == before; }));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

// ---- full, or not welcome

TEST(ShmTransport, AListenerThatRefusesIsAskedLessAndLessOften) {
  const std::string endpoint = own_endpoint("refuses");
  const auto [address, size] = address_of(endpoint);
  os::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 10), 0);
  ZmqTransport transport;
  auto client = transport.dial().value();
  const PeerId link = client->connect(endpoint).value();
  int dials = 0;
  const TimePoint start = kClock.now();
  while (kClock.now() < start + milliseconds(600) ||
         (dials < 3 && kClock.now() < start + seconds(20))) {
    const os::Fd asked(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    dials += static_cast<bool>(asked);
    (void)client->receive(milliseconds(2));
    (void)client->send(link, {bytes_of(10, 1)});
  }
  EXPECT_GE(dials, 3);
  EXPECT_LE(dials, 8) << "each costs megabytes";
  listener.reset();
  Echo echo({endpoint});
  expect_echo(*client, link, bytes_of(10, 2));
}

/// The soft limit of descriptors, and as many as one likes of them in use.
class Descriptors {
 public:
  explicit Descriptors(rlim_t limit) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{std::min(limit, before_.rlim_max), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
    limit_ = now.rlim_cur;
  }
  ~Descriptors() {
    taken_.clear();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  rlim_t limit() const { return limit_; }
  void leave(std::size_t n) {
    for (os::Fd fd = null(); fd; fd = null()) taken_.push_back(std::move(fd));
    ASSERT_GE(taken_.size(), n);
    taken_.resize(taken_.size() - n);
  }

 private:
  static os::Fd null() { return os::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
  rlimit before_{};
  rlim_t limit_ = 0;
  std::vector<os::Fd> taken_;
};

TEST(ShmTransport, LinksBeyondTheMostAreSentAwayUntilOneLeaves) {
  const Descriptors enough(2 * ShmEnd::kLinksMax + 200);
  if (enough.limit() < 2 * ShmEnd::kLinksMax + 200) GTEST_SKIP() << "not so many descriptors here";
  Echo echo({"shm://*"});
  const os::Fd ring = memory_file(kSmallestFile, F_SEAL_SHRINK);  // one does for all
  std::vector<std::unique_ptr<Stranger>> links;
  while (links.size() < ShmEnd::kLinksMax) {
    links.push_back(std::make_unique<Stranger>(echo.endpoints()[0]));
    links.back()->say(hello(1, 64u << 10), {ring.get()});
    ASSERT_EQ(links.back()->hears(), 'w') << links.size();
  }
  Stranger one_more(echo.endpoints()[0]);
  one_more.say(hello(1, 64u << 10), {ring.get()});
  EXPECT_EQ(one_more.hears(), 0);
  ZmqTransport transport;
  auto client = transport.dial().value();
  const PeerId link = client->connect(echo.endpoints()[0]).value();
  EXPECT_TRUE(drive_until(*client, [&] {
    const Status sent = client->send(link, {bytes_of(10, 1)});  // at first in the hope of a welcome
    return !sent && sent.error().code == Errc::kUnavailable;
  }));
  links.pop_back();
  expect_echo(*client, link, bytes_of(10, 2));
}

// ---- no descriptors

TEST(ShmTransport, WithoutDescriptorsALinkThatEndedIsUnavailableUntilThereAreSome) {
  const std::string endpoint = own_endpoint("short");
  ZmqTransport transport;
  const int before = memory_files();
  auto client = transport.dial().value();
  auto server = transport.listen({.bind = {endpoint}}).value();
  const PeerId link = client->connect(endpoint).value();
  ASSERT_TRUE(client->send(link, {bytes_of(10, 1)}));
  ASSERT_TRUE(next(*server));
  server.reset();
  const auto refused = [&] { return !client->send(link, {bytes_of(10, 1)}); };
  ASSERT_TRUE(drive_until(*client, refused));
  server = transport.listen({.bind = {endpoint}}).value();
  for (const std::size_t left : {0, 1}) {  // not a socket; not a memory file
    Descriptors few(256);
    few.leave(left);
    for (int i = 0; i < 10; ++i) {
      const Status sent = client->send(link, {bytes_of(10, 1)});
      ASSERT_FALSE(sent);
      EXPECT_EQ(sent.error().code, Errc::kUnavailable) << sent.error().to_string();
      (void)client->receive(milliseconds(10));
    }
  }
  EXPECT_EQ(memory_files(), before);
  EXPECT_TRUE(send_soon(*client, link, {bytes_of(10, 1)}));
  EXPECT_TRUE(next(*server));
}

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

TEST(ShmTransport, WithoutDescriptorsAListenerSleepsAndTakesWhoWaitedLater) {
  Echo echo({"shm://*"});
  const std::string endpoint = echo.endpoints()[0];
  const os::Fd ring = memory_file(kSmallestFile, F_SEAL_SHRINK);
  std::unique_ptr<Stranger> stranger;
  {
    Descriptors few(256);
    few.leave(1);
    stranger = std::make_unique<Stranger>(endpoint);
    const double before = cpu_seconds();
    std::this_thread::sleep_for(milliseconds(500));  // what is measured is doing nothing
    EXPECT_LT(cpu_seconds() - before, 0.25);
  }
  stranger->say(hello(1, 64u << 10), {ring.get()});
  EXPECT_EQ(stranger->hears(), 'w');
}

// ---- not by the rules

TEST(ShmTransport, AListenerThatWritesBeforeItsWelcomeIsNotFollowed) {
  const std::string endpoint = own_endpoint("rude");
  const auto [address, size] = address_of(endpoint);
  const os::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 10), 0);
  ZmqTransport transport;
  auto client = transport.dial().value();
  const PeerId link = client->connect(endpoint).value();
  {
    const os::Fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::uint32_t hello[4] = {};  // magic, version, bytes of a ring
    iovec part{hello, sizeof hello};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ASSERT_EQ(::recvmsg(peer.get(), &message, MSG_CMSG_CLOEXEC), 16);
    int file = -1;
    ASSERT_NE(CMSG_FIRSTHDR(&message), nullptr);
    std::memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    const os::Fd ring(file);
    // A record "in a file" that never comes, in the listener's ring, and the head that shows it.
    const std::uint32_t record[4] = {0x646c7232, 0, 64, 0};
    const std::uint64_t written = 64;
    ASSERT_GT(::pwrite(ring.get(), record, sizeof record, 4096 + hello[3]), 0);
    ASSERT_GT(::pwrite(ring.get(), &written, sizeof written, 192), 0);
  }
  EXPECT_FALSE(client->receive(milliseconds(1)).value());
  EXPECT_TRUE(drive_until(*client, [&] {
    const Status sent = client->send(link, {bytes_of(10, 1)});
    return !sent && sent.error().code == Errc::kUnavailable;
  }));
}

#ifndef DLRUN_LOOPBACK_ONLY

TEST(ShmTransport, AClientGetsInWhileTheSocketsAreNeverEmpty) {
  constexpr int kPacks = 1500;
  ZmqTransport transport;
  auto server = transport.listen({.bind = {"tcp://127.0.0.1:*", "shm://*"}}).value();
  auto flood = transport.dial().value();
  const PeerId tcp = flood->connect(server->endpoints()[0]).value();
  ASSERT_TRUE(send_soon(*flood, tcp, {bytes_of(10, 1)}));
  ASSERT_TRUE(next(*server));
  const Message small = {bytes_of(1, 1)};
  std::vector<std::byte> pack(kPackHeadBytes + kPackMessagesMax * packed_bytes(small));
  std::byte* at = write_pack_head(pack.data());
  for (std::size_t i = 0; i < kPackMessagesMax; ++i) at = write_packed(small, at);
  const Frame frame = Frame::take(std::move(pack));
  for (int i = 0; i < kPacks; ++i) ASSERT_TRUE(send_soon(*flood, tcp, {frame}));
  auto client = transport.dial().value();
  const PeerId link = client->connect(server->endpoints()[1]).value();
  ASSERT_TRUE(client->send(link, {bytes_of(10, 1)}));
  std::size_t first = 0;
  for (bool in = false; !in; ++first) {
    const auto got = next(*server);
    ASSERT_TRUE(got);
    in = (got->peer & ShmEnd::kPeerBit) != 0;
  }
  EXPECT_LT(first, kPacks * kPackMessagesMax / 2) << "messages came before it";
}

#endif  // DLRUN_LOOPBACK_ONLY

}  // namespace
}  // namespace dlrun::transport
