// What links in shared memory do beyond the suite of every transport.
#include <sys/wait.h>

#include <cstdlib>
#include <deque>

#include "runtime/transport/shm_link.h"
#include "runtime/transport/spin.h"
#include "tests/transport/shm_helper.h"

namespace dlrun::transport {
namespace {

constexpr std::uint64_t kBytesMax = 8u << 20;

Status no_hand_over(int) { return fail(Errc::kUnsupported, "no files here"); }
os::Fd no_file() { return {}; }
os::Fd copy_of(int fd) { return os::Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

struct Pair {
  std::unique_ptr<ShmLink> a = ShmLink::create(64u << 10, kBytesMax).value();
  std::unique_ptr<ShmLink> b = ShmLink::attach(copy_of(a->file()), 64u << 10, kBytesMax).value();
};

TEST(ShmLink, APlaceIsFreeOnceTheFramesInItAreDropped) {
  Pair p;
  const Frame frame = bytes_of(16u << 10, 1);
  std::vector<Message> held;
  int sent = 0;
  while (p.a->put({frame}, no_hand_over)) ++sent;
  EXPECT_EQ(sent, 3);  // four with their heads do not fit
  for (int i = 0; i < sent; ++i) held.push_back(*p.b->take(no_file).value());
  p.b->reap();
  EXPECT_EQ(p.a->put({frame}, no_hand_over).error().code, Errc::kOverloaded);
  held.erase(held.begin() + 1);  // out of order: the first still holds the place
  p.b->reap();
  EXPECT_FALSE(p.a->put({frame}, no_hand_over));
  EXPECT_TRUE(same(held[0][0], frame));
  held.erase(held.begin());
  p.b->reap();
  EXPECT_TRUE(p.a->put({frame}, no_hand_over));
  EXPECT_TRUE(p.a->put({frame}, no_hand_over));
  EXPECT_FALSE(p.a->put({frame}, no_hand_over));
}

TEST(ShmLink, AFullRingTakesNothingAndLosesNothing) {
  Pair p;
  SplitMix64 rng(11);
  std::uint64_t next_in = 0, next_out = 0;
  int full = 0;
  while (next_out < 2000) {
    for (std::uint64_t n = rng.below(200); n > 0; --n) {
      const Status put = p.a->put({bytes_of(1 + next_in % 3000, next_in)}, no_hand_over);
      if (put) {
        ++next_in;
      } else {
        ASSERT_EQ(put.error().code, Errc::kOverloaded);
        ++full;
        break;
      }
    }
    for (std::uint64_t n = rng.below(200); n > 0 && next_out < next_in; --n, ++next_out) {
      const auto got = p.b->take(no_file).value();
      ASSERT_TRUE(got);
      ASSERT_TRUE(same(got->at(0), bytes_of(1 + next_out % 3000, next_out))) << next_out;
    }
    p.b->reap();
  }
  EXPECT_GT(full, 5);
}

TEST(ShmLink, FramesOutliveTheLink) {
  Message message;
  const Frame frame = bytes_of(1000, 2);
  {
    Pair p;
    ASSERT_TRUE(p.a->put({frame, Frame{}, frame}, no_hand_over));
    message = *p.b->take(no_file).value();
  }
  ASSERT_EQ(message.size(), 3u);
  EXPECT_TRUE(same(message[0], frame));
  EXPECT_EQ(message[1].size, 0u);
  EXPECT_TRUE(same(message[2], frame));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message[2].data) % 64, 0u);
}

TEST(ShmLink, MessagesOfAllSizesGoRoundTheRing) {
  constexpr std::uint64_t kMessages = 3000;
  const auto size_of = [](SplitMix64& rng) {
    return rng.below(4) == 0 ? rng.below(7000) : rng.below(130);
  };
  Pair p;
  std::thread producer([&] {
    SplitMix64 rng(3);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      Message message;
      for (std::uint64_t n = rng.below(5); n > 0; --n) message.push_back(bytes_of(size_of(rng), i));
      while (!p.a->put(message, no_hand_over)) std::this_thread::yield();
    }
  });
  SplitMix64 rng(3);
  std::deque<Message> kept;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    std::optional<Message> got;
    while (!got) {
      p.b->reap();
      got = p.b->take(no_file).value();
      if (!got) std::this_thread::yield();
    }
    const std::uint64_t n = rng.below(5);
    EXPECT_EQ(got->size(), n);
    for (std::uint64_t j = 0; j < n && j < got->size(); ++j)
      EXPECT_TRUE(same((*got)[j], bytes_of(size_of(rng), i))) << "message " << i;
    kept.push_back(std::move(*got));
    if (kept.size() > 3) kept.pop_front();
  }
  producer.join();
}

TEST(ShmLink, WhatAPeerBreaksIsFoundAndNeverFollowed) {
  SplitMix64 rng(7);
  int corrupt = 0;
  for (int round = 0; round < 300; ++round) {
    Pair p;
    ASSERT_TRUE(p.a->put({bytes_of(100, 1), bytes_of(3000, 2)}, no_hand_over));
    // The control page and the first record, as a malicious peer can write them.
    std::uint8_t noise[16];
    for (auto& x : noise) x = static_cast<std::uint8_t>(rng.next());
    const auto at = static_cast<off_t>(rng.below(2) == 0 ? rng.below(384) : 4096 + rng.below(64));
    ASSERT_GT(::pwrite(p.a->file(), noise, 1 + rng.below(16), at), 0);
    for (ShmLink* link : {p.a.get(), p.b.get()}) {
      const auto got = link->take(no_file);
      corrupt += !got;
      if (!got || !*got) continue;
      // Reading is the test: the end of the mapping watches.
      [[maybe_unused]] volatile std::byte sink;
      for (const Frame& f : **got) {
        for (std::size_t i = 0; i < f.size; ++i) sink = f.data[i];
      }
      link->reap();
    }
    (void)p.a->put({bytes_of(100, 1)}, no_hand_over);
    (void)p.b->put({bytes_of(40'000, 1)}, no_hand_over);
  }
  EXPECT_GT(corrupt, 30);
}

TEST(ShmLink, WhatAPeerChangesBetweenCheckAndUseIsFoundToo) {
  constexpr std::uint32_t kSize = 1000;
  struct Head {  // of a record, as the header of the ring has it
    std::uint32_t kind = 0x646c7231;
    std::uint32_t frames = 1;
    std::uint64_t total = 64 + 1024;
    std::uint32_t sizes[8] = {kSize};
  };
  const Head good;
  Head larger = good, huge = good, many = good;
  larger.sizes[0] = 0xffffff00;  // more than the total says
  huge.sizes[0] = 0xffffff00;    // as the total says, which is more than the ring
  huge.total = 64 + std::uint64_t{huge.sizes[0]};
  many.frames = 0xffffffff;
  Pair p;
  std::atomic<off_t> at = 0;
  std::atomic<bool> stop = false;
  std::thread peer([&] {
    while (!stop) {
      for (const Head& head : {larger, good, huge, good, many, good})
        (void)!::pwrite(p.a->file(), &head, sizeof head, 4096 + at);
    }
  });
  int taken = 0, broken = 0;
  const SystemClock clock;
  const TimePoint give_up = clock.now() + seconds(20);
  while ((taken < 2000 || broken < 200) && clock.now() < give_up) {
    at = taken * std::int64_t{64 + 1024} % (64 << 10);
    ASSERT_TRUE(p.a->put({bytes_of(kSize, 1)}, no_hand_over));
    for (bool got = false; !got && clock.now() < give_up;) {
      const auto message = p.b->take(no_file);
      broken += !message;
      if (!message) continue;
      ASSERT_TRUE(*message);
      ASSERT_EQ((*message)->size(), 1u);
      ASSERT_EQ((**message)[0].size, kSize);
      got = true;
    }
    ++taken;
    p.b->reap();
  }
  stop = true;
  peer.join();
  EXPECT_GE(taken, 2000);
  EXPECT_GE(broken, 200);
}

TEST(ShmLink, AFileThatIsNoRingIsRefused) {
  const auto refused = [](os::Fd file, std::uint32_t ring_bytes) {
    const auto link = ShmLink::attach(std::move(file), ring_bytes, kBytesMax);
    return !link && link.error().code == Errc::kCorrupt;
  };
  EXPECT_TRUE(refused(memory_file(kSmallestFile, 0), 64u << 10)) << "could shrink";
  EXPECT_TRUE(refused(memory_file(kSmallestFile, F_SEAL_GROW), 64u << 10)) << "could shrink";
  EXPECT_TRUE(refused(memory_file(kSmallestFile - 1, F_SEAL_SHRINK), 64u << 10));
  EXPECT_TRUE(refused(memory_file(kSmallestFile, F_SEAL_SHRINK), 128u << 10));
  EXPECT_TRUE(refused(memory_file(kSmallestFile, F_SEAL_SHRINK), 12345));
  EXPECT_TRUE(refused(memory_file(4096 + (16 << 20), F_SEAL_SHRINK), 8u << 20)) << "too large";
  EXPECT_TRUE(refused(os::Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), 64u << 10));
  EXPECT_TRUE(refused(os::Fd(), 64u << 10));
  const auto read_only = ShmLink::attach(memory_file(kSmallestFile, F_SEAL_SHRINK | F_SEAL_WRITE),
                                         64u << 10, kBytesMax);
  EXPECT_FALSE(read_only);
}

// ---- a channel

// A process that gives way on a busy machine gets its core back after milliseconds.
TEST(Spin, WhereOthersWantTheCoresItSleepsInsteadOfGivingWay) {
  Spin spin;
  int ways = 0;
  const auto nothing = [] { return std::optional<int>(); };
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(spin.until(Duration{-1}, nothing, [&] {
      ++ways;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }));
    spin.slept(std::chrono::microseconds(10));
  }
  EXPECT_EQ(ways, 1);
  EXPECT_EQ(spin.until(Duration{-1}, [] { return std::optional(7); }), 7);
}

TEST(ShmTransport, LargeMessagesKeepTheirPlaceAmongSmallOnes) {
  ZmqTransport transport;
  auto server = transport.listen({.bind = {"shm://*"}}).value();
  auto client = transport.dial().value();
  const PeerId link = client->connect(server->endpoints()[0]).value();
  (void)server->receive(milliseconds(100));  // the link is up, however slow this machine is
  SplitMix64 rng(5);
  std::deque<Frame> sent;
  const auto receive_one = [&] {
    const auto got = next(*server);
    ASSERT_TRUE(got);
    ASSERT_FALSE(sent.empty());
    EXPECT_TRUE(same(got->message.at(0), sent.front()));
    sent.pop_front();
  };
  for (std::uint64_t i = 0; i < 40; ++i) {
    const Frame frame =
        bytes_of(rng.below(3) == 0 ? (3u << 20) + rng.below(1000) : rng.below(50'000), i);
    for (;;) {
      const Status put = client->send(link, {frame});
      if (put) break;
      ASSERT_EQ(put.error().code, Errc::kOverloaded);
      receive_one();
    }
    sent.push_back(frame);
  }
  while (!sent.empty() && !testing::Test::HasFatalFailure()) receive_one();
}

TEST(ShmTransport, AFrameBeyondTheLimitIsRefusedOnEitherSide) {
  ZmqTransport transport;
  auto server = transport.listen({.bind = {"shm://*"}, .message_bytes_max = 3u << 20}).value();
  auto careful = transport.dial({.message_bytes_max = 1000}).value();
  const PeerId link = careful->connect(server->endpoints()[0]).value();
  EXPECT_EQ(send_soon(*careful, link, {bytes_of(1001, 1)}).error().code, Errc::kInvalidArgument);
  EXPECT_TRUE(careful->send(link, {bytes_of(1000, 1)}));
  EXPECT_TRUE(next(*server));
  auto careless = transport.dial().value();
  const PeerId other = careless->connect(server->endpoints()[0]).value();
  (void)server->receive(milliseconds(100));
  EXPECT_TRUE(send_soon(*careless, other, {bytes_of(4u << 20, 1)}));
  EXPECT_FALSE(server->receive(milliseconds(100)).value());
  EXPECT_TRUE(careful->send(link, {bytes_of(10, 1)}));
  EXPECT_TRUE(next(*server)) << "the others go on";
}

TEST(ShmTransport, ADescriptorThatIsNoRingEndsTheLinkAndLeavesNothing) {
  const int before = descriptors(), files_before = memory_files();
  {
    Echo echo({"shm://*"});
    ZmqTransport transport;
    auto client = transport.dial().value();
    const std::string endpoint = echo.endpoints()[0];
    const PeerId link = client->connect(endpoint).value();
    expect_echo(*client, link, bytes_of(10, 1));
    const os::Fd ring = memory_file(kSmallestFile, F_SEAL_SHRINK);
    const os::Fd loose = memory_file(kSmallestFile, 0);
    const os::Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    struct Case {
      std::string bytes;
      std::vector<int> files;
    };
    const std::string good = hello(1, 64u << 10);
    const std::vector<Case> cases = {
        {"GET / HTTP/1.0\r\n\r\n", {}},
        {good, {}},
        {good, {zero.get()}},
        {good, {loose.get()}},
        {good, {ring.get(), ring.get()}},
        {good, std::vector<int>(100, ring.get())},
        {hello(2, 64u << 10), {ring.get()}},
        {hello(1, 128u << 10), {ring.get()}},
        {hello(1, 0), {ring.get()}},
        {hello(1, 0x80000000u), {ring.get()}},
        {good.substr(0, 10), {ring.get()}},
        {good + "x", {ring.get(), zero.get()}},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Stranger stranger(endpoint);
      stranger.say(cases[i].bytes, cases[i].files);
      EXPECT_EQ(stranger.hears(), 0) << "case " << i;
      expect_echo(*client, link, bytes_of(10, i));
    }
    // One that is linked, and then floods with descriptors or announces a file that does not come.
    for (int i = 0; i < 3; ++i) {
      Stranger stranger(endpoint);
      stranger.say(good, {ring.get()});
      EXPECT_EQ(stranger.hears(), 'w');
      if (i == 0) {
        for (int n = 0; n < 40; ++n) stranger.say("f", {zero.get()});
      } else {
        // a record of kind "in a file", of 64 bytes, and the head that makes it seen
        const std::uint32_t record[4] = {0x646c7232, 0, 64, 0};
        const std::uint64_t written = 64;
        ASSERT_GT(::pwrite(ring.get(), record, sizeof record, 4096), 0);
        if (i == 2) stranger.say("f", {loose.get()});
        ASSERT_GT(::pwrite(ring.get(), &written, sizeof written, 0), 0);
        stranger.say("b");
      }
      EXPECT_EQ(stranger.hears(), 0) << "flood " << i;
      expect_echo(*client, link, bytes_of(10, 1));
      const std::uint64_t nothing[8] = {};
      ASSERT_GT(::pwrite(ring.get(), nothing, sizeof nothing, 0), 0);
    }
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(memory_files(), files_before);
}

TEST(ShmTransport, StrangersThatSayNothingDisturbNobodyAndAreSentAway) {
  Echo echo({"shm://*"});
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(std::make_unique<Stranger>(echo.endpoints()[0]));
  ZmqTransport transport;
  auto client = transport.dial().value();
  const PeerId link = client->connect(echo.endpoints()[0]).value();
  expect_echo(*client, link, bytes_of(10, 1));
  for (const auto& stranger : strangers) EXPECT_EQ(stranger->hears(), 0);
  const Stranger later(echo.endpoints()[0]);
  strangers.clear();
  expect_echo(*client, link, bytes_of(10, 2));
}

int kills() { return std::getenv("DLRUN_LONG") != nullptr ? 200 : 10; }

TEST(ShmTransport, AClientKilledInTheMiddleLeavesNothingBehind) {
  ZmqTransport transport;
  auto server = transport.listen({.bind = {"shm://*"}}).value();
  const std::string endpoint = server->endpoints()[0];
  (void)server->receive(Duration{0});
  const int before = descriptors(), files_before = memory_files();
  const SystemClock clock;
  for (int i = 0; i < kills(); ++i) {
    // Sends without end, small and large.
    const pid_t child = fork_child([&] {
      ZmqTransport mine;
      auto client = mine.dial().value();
      const PeerId link = client->connect(endpoint).value();
      const Frame small = bytes_of(3000, 1), large = bytes_of(2u << 20, 2);
      for (std::uint64_t n = 0;; ++n) (void)client->send(link, {n % 50 == 49 ? large : small});
    });
    for (int n = 0; n < 20 + i * 7 % 50; ++n) {
      const auto got = next(*server);
      ASSERT_TRUE(got) << "kill " << i;
      ASSERT_EQ(got->message.size(), 1u);
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const TimePoint give_up = clock.now() + seconds(20);
    while ((descriptors() != before || memory_files() != files_before) && clock.now() < give_up)
      (void)server->receive(milliseconds(5));
    ASSERT_EQ(descriptors(), before) << "kill " << i;
    ASSERT_EQ(memory_files(), files_before) << "kill " << i;
  }
  auto client = transport.dial().value();
  const PeerId link = client->connect(endpoint).value();
  ASSERT_TRUE(client->send(link, {bytes_of(10, 1)}));
  EXPECT_TRUE(next(*server)) << "the listener goes on";
}

TEST(ShmTransport, AListenerThatIsKilledIsNoticedAtOnceAndFoundAgain) {
  const std::string endpoint = "shm://@dlrun-test-" + std::to_string(::getpid());
  const auto serve = [&] {
    ZmqTransport mine;
    auto server = mine.listen({.bind = {endpoint}}).value();
    for (;;) {
      auto got = server->receive(Duration{-1});
      if (got && *got) (void)server->send((*got)->peer, (*got)->message);
    }
  };
  ZmqTransport transport;
  auto client = transport.dial().value();
  const int files_before = memory_files();
  const PeerId link = client->connect(endpoint).value();
  const SystemClock clock;
  for (int i = 0; i < kills(); ++i) {
    const pid_t child = fork_child(serve);
    expect_echo(*client, link, bytes_of(3000, static_cast<std::uint64_t>(i)));
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "kill " << i;
    (void)client->send(link, {bytes_of(100, 1)});  // may be under way when it dies
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const TimePoint killed = clock.now();
    while (clock.now() < killed + seconds(10)) {
      const auto got = client->receive(milliseconds(5));
      ASSERT_TRUE(got);
      if (!*got && memory_files() == files_before) break;
    }
    EXPECT_LT(clock.now() - killed, seconds(5)) << "kill " << i;
    EXPECT_EQ(memory_files(), files_before) << "kill " << i;
    EXPECT_EQ(client->send(link, {bytes_of(10, 1)}).error().code, Errc::kUnavailable);
  }
}

#ifndef DLRUN_LOOPBACK_ONLY

TEST(ShmTransport, OneListenerServesSharedMemoryAndTcp) {
  Echo echo({"tcp://127.0.0.1:*", "shm://*"});
  ZmqTransport transport;
  auto client = transport.dial().value();
  std::vector<PeerId> links;
  for (const std::string& endpoint : echo.endpoints())
    links.push_back(client->connect(endpoint).value());
  for (std::uint64_t i = 0; i < 200; ++i) expect_echo(*client, links[i % 2], bytes_of(100 + i, i));
  // Both at once: neither waits for the other to be silent.
  std::vector<int> got(2);
  for (int i = 0; i < 200; ++i) {
    for (const PeerId link : links)
      ASSERT_TRUE(send_soon(*client, link, {bytes_of(100, static_cast<std::uint64_t>(i))}));
  }
  for (int i = 0; i < 400; ++i) {
    const auto reply = next(*client);
    ASSERT_TRUE(reply) << i;
    ++got[reply->peer == links[1] ? 1 : 0];
  }
  EXPECT_EQ(got, (std::vector<int>{200, 200}));
}

#endif  // DLRUN_LOOPBACK_ONLY

}  // namespace
}  // namespace dlrun::transport
