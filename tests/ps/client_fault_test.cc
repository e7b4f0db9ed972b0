// Shards that stall, die or come late; messages that are lost, repeated and reordered; maps that
// change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <cstring>
#include <ctime>
#include <future>
#include <map>
#include <set>

#include "ps/client/engine.h"
#include "ps/core/value_codec.h"
#include "ps/shard/shard_actor.h"
#include "tests/ps/cluster_helper.h"

namespace dlrun::ps {
namespace {

class AnyFaultyCluster : public testing::TestWithParam<std::string> {};
#ifdef DLRUN_LOOPBACK_ONLY
INSTANTIATE_TEST_SUITE_P(Transports, AnyFaultyCluster, testing::Values("loop", "shm"));
#else
INSTANTIATE_TEST_SUITE_P(Transports, AnyFaultyCluster, testing::Values("loop", "tcp", "shm"));
#endif

/// A key of `table` that lives on `shard`.
std::uint64_t key_on(const PsView& view, const Table& table, std::uint32_t shard) {
  std::uint64_t key = 0;
  while (view.map.owner[slot_of(table.id, key)].value != shard) ++key;
  return key;
}

TEST_P(AnyFaultyCluster, AStalledShardHoldsNobodyPastTheDeadline) {
  Cluster cluster(GetParam(), 2, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 1), kLong).value();
  cluster.stall(1);
  const std::vector<std::uint64_t> here = {key_on(cluster.view, table, 0)},
                                   there = {key_on(cluster.view, table, 1)};
  std::vector<float> out(1);
  const TimePoint start = cluster.clock->now();
  const Status status = client->pull(table, there, out, milliseconds(300));
  const Duration took = cluster.clock->now() - start;
  EXPECT_EQ(status.error().code, Errc::kDeadlineExceeded);
  EXPECT_THAT(status.error().context, testing::HasSubstr("shard 1"));
  EXPECT_GE(took, milliseconds(300));
  EXPECT_LT(took, seconds(5));
  EXPECT_TRUE(client->pull(table, here, out, kLong));
  cluster.resume(1);
  EXPECT_TRUE(client->pull(table, there, out, kLong));
}

TEST_P(AnyFaultyCluster, APushThatAStalledShardAnswersLateAppliesOnce) {
  Cluster cluster(GetParam(), 1, 1);
  ClientOptions options = cluster.options();
  options.retry_first = milliseconds(20);
  const auto client = Client::connect(cluster.view, options).value();
  const Table table = client->open_table(sum_schema("t", 1), kLong).value();
  cluster.stall(0);
  std::thread later([&] {
    while (client->stats().retries < 3) std::this_thread::yield();
    cluster.resume(0);
  });
  ASSERT_TRUE(client->push(table, std::vector<std::uint64_t>{1}, std::vector<float>{5}, kLong));
  later.join();
  std::vector<float> out(1);
  ASSERT_TRUE(client->pull(table, std::vector<std::uint64_t>{1}, out, kLong));
  EXPECT_EQ(out[0], 5);
}

TEST_P(AnyFaultyCluster, CreditBoundsWhatAStalledShardIsSent) {
  Cluster cluster(GetParam(), 1, 1);
  ClientOptions options = cluster.options();
  options.credit_bytes = 100'000;
  options.segment_bytes_max = 20'000;
  options.retry_first = seconds(100);
  const auto client = Client::connect(cluster.view, options).value();
  const Table table = client->open_table(sum_schema("t", 16), kLong).value();
  cluster.stall(0);
  const std::uint64_t before = client->stats().bytes_sent;
  std::vector<std::uint64_t> keys(10'000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const std::vector<float> grads(keys.size() * 16, 1.0f);
  EXPECT_EQ(client->push(table, keys, grads, seconds(2)).error().code, Errc::kDeadlineExceeded);
  EXPECT_GT(client->stats().bytes_sent - before, 50'000u);
  EXPECT_LE(client->stats().bytes_sent - before, 100'000u);
}

TEST_P(AnyFaultyCluster, WhatOneBitLosesIsOwedOnceHoweverOftenAPushIsSent) {
  Cluster cluster(GetParam(), 2, 1);
  ClientOptions options = cluster.options();
  options.retry_first = milliseconds(5);
  options.retry_max = milliseconds(50);
  options.segment_bytes_max = 200;
  options.transport = std::make_shared<FaultyTransport>(
      cluster.transport,
      FaultyTransport::Faults{.lose = 15, .repeat = 15, .reorder = 15, .seed = 4});
  const auto client = Client::connect(cluster.view, options).value();
  constexpr std::uint32_t kDim = 4;
  const Table table = client->open_table(sum_schema("t", kDim), kLong).value();
  // What the codec does is value_codec_test's matter; here it says how often it was done.
  const CodecSpec one_bit{Codec::kOneBit};
  ASSERT_TRUE(client->set_codecs(table, one_bit, {}));
  std::vector<std::uint64_t> keys(30);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  std::vector<float> grads(keys.size() * kDim), sum(grads.size()), arrived(grads.size());
  std::vector<std::byte> bytes(keys.size() * encoded_row_bytes(one_bit, kDim));
  ErrorFeedback feedback(kDim, 100);
  SplitMix64 rng(6);
  for (int step = 0; step < 20; ++step) {
    for (float& g : grads) g = static_cast<float>(rng.uniform() - 0.5);
    const Status pushed = client->push(table, keys, grads, kLong);
    ASSERT_TRUE(pushed) << pushed.error().to_string();
    feedback.encode(one_bit, keys, grads, bytes.data());
    ASSERT_TRUE(decode_rows(one_bit, bytes, kDim, arrived));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += arrived[i];
  }
  EXPECT_GT(client->stats().retries, 0u);
  std::vector<float> out(sum.size());
  ASSERT_TRUE(client->pull(table, keys, out, kLong));
  EXPECT_EQ(out, sum);
}

TEST_P(AnyFaultyCluster, LostRepeatedAndReorderedMessagesApplyEveryPushOnce) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Cluster cluster(GetParam(), 3, 2);
    std::vector<std::thread> threads;
    constexpr int kRounds = 15;
    for (std::uint32_t w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        ClientOptions options = cluster.options(worker_id("worker", w));
        options.retry_first = milliseconds(5);
        options.retry_max = milliseconds(50);
        options.segment_bytes_max = 60;
        options.transport = std::make_shared<FaultyTransport>(
            cluster.transport, FaultyTransport::Faults{
                                   .lose = 15, .repeat = 15, .reorder = 15, .seed = seed * 10 + w});
        const auto client = Client::connect(cluster.view, options).value();
        const auto asp = client->open_table(sum_schema("asp", 1), kLong);
        const auto bsp = client->open_table(sum_schema("bsp", 1, Consistency::kBsp), kLong);
        ASSERT_TRUE(asp && bsp);
        const std::vector<std::uint64_t> keys = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ~0ull};
        std::vector<float> grads(keys.size()), out(keys.size());
        for (std::size_t i = 0; i < keys.size(); ++i) grads[i] = static_cast<float>(i + 1);
        for (int c = 0; c < kRounds; ++c) {
          const Status pulled = client->pull(*bsp, keys, out, kLong);
          ASSERT_TRUE(pulled) << pulled.error().to_string();
          for (std::size_t i = 0; i < keys.size(); ++i)
            ASSERT_EQ(out[i], 2.0f * static_cast<float>(c) * grads[i]);
          for (const Table& table : {*asp, *bsp}) {
            const Status pushed = client->push(table, keys, grads, kLong);
            ASSERT_TRUE(pushed) << pushed.error().to_string();
          }
          const Status ticked = client->clock(*bsp, kLong);
          ASSERT_TRUE(ticked) << ticked.error().to_string();
        }
        EXPECT_GT(client->stats().retries, 0u);
      });
    }
    for (auto& t : threads) t.join();
    const auto reader = cluster.client();
    for (const Consistency consistency : {Consistency::kAsp, Consistency::kBsp}) {
      const Table table =
          reader
              ->open_table(
                  sum_schema(consistency == Consistency::kAsp ? "asp" : "bsp", 1, consistency),
                  kLong)
              .value();
      std::vector<float> out(11);
      ASSERT_TRUE(reader->pull(
          table, std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ~0ull}, out, kLong));
      for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(out[i], 2.0f * kRounds * static_cast<float>(i + 1)) << "seed " << seed;
    }
  }
}

TEST_P(AnyFaultyCluster, ASlotThatMovesTakesItsClientsAlong) {
  Cluster cluster(GetParam(), 2, 1);
  std::mutex mutex;
  PsView current = cluster.view;
  ClientOptions options = cluster.options();
  options.refresh = [&]() -> Result<PsView> {
    const std::lock_guard lock(mutex);
    return current;
  };
  const auto client = Client::connect(cluster.view, options).value();
  const auto plain = cluster.client();  // nobody tells this one
  const Table table = client->open_table(sum_schema("t", 1), kLong).value();
  const std::vector<std::uint64_t> keys = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> ones(8, 1.0f);
  ASSERT_TRUE(client->push(table, keys, ones, kLong));

  // Every slot of the keys changes its owner, while both shards stand still.
  cluster.stall(0);
  cluster.stall(1);
  std::map<std::uint32_t, SlotImage> images;
  SlotMap map = cluster.view.map;
  for (const std::uint64_t key : keys) {
    const std::uint32_t slot = slot_of(table.id, key);
    if (images.contains(slot)) continue;
    images[slot] = cluster.loops[map.owner[slot].value]->core().export_slot(slot);
    map.owner[slot] = ShardId{1 - map.owner[slot].value};
  }
  map.epoch = {1, 2};
  for (auto& loop : cluster.loops) ASSERT_TRUE(loop->install_map(map));
  Effects effects;
  for (const auto& [slot, image] : images) {
    ASSERT_TRUE(cluster.loops[map.owner[slot].value]->core().import_slot(
        image, cluster.clock->now(), effects));
  }
  {
    const std::lock_guard lock(mutex);
    current.map = map;
  }
  cluster.resume(0);
  cluster.resume(1);

  ASSERT_TRUE(client->push(table, keys, ones, kLong));
  std::vector<float> out(8);
  ASSERT_TRUE(client->pull(table, keys, out, kLong));
  EXPECT_EQ(out, std::vector<float>(8, 2.0f));
  EXPECT_EQ(plain->pull(table, keys, out, kLong).error().code, Errc::kStaleEpoch);
  ASSERT_TRUE(plain->set_view(current));
  EXPECT_TRUE(plain->pull(table, keys, out, kLong));
}

#ifndef DLRUN_LOOPBACK_ONLY

TEST(ClientFault, AShardThatComesLateIsWaitedFor) {
  const auto transport = std::make_shared<transport::ZmqTransport>();
  std::string endpoint = transport->listen({.bind = {"tcp://127.0.0.1:*"}}).value()->endpoints()[0];
  PsView view{.map = SlotMap::even(1, {1, 1}),
              .shards = {{.shard = ShardId{0}, .tcp = endpoint}},
              .token = kToken,
              .workers = 1};
  const auto client = Client::connect(view, {}).value();
  EXPECT_EQ(client->open_table(sum_schema("t", 1), milliseconds(200)).error().code,
            Errc::kDeadlineExceeded);
  std::atomic<bool> stop = false;
  std::thread shard([&] {
    auto channel = transport->listen({.bind = {endpoint}});
    while (!channel && !stop) {  // zmq frees the port in the background
      std::this_thread::yield();
      channel = transport->listen({.bind = {endpoint}});
    }
    ASSERT_TRUE(channel);
    ShardSettings settings{.token = kToken, .workers = 1};
    ShardLoop loop(ShardCore(settings, view.map), std::move(*channel),
                   std::make_shared<SystemClock>());
    while (!stop) ASSERT_TRUE(loop.step(milliseconds(20)));
  });
  const auto table = client->open_table(sum_schema("t", 1), kLong);
  EXPECT_TRUE(table) << table.error().to_string();
  stop = true;
  shard.join();
}

/// One shard, for one worker, at a local name.
PsView view_of_one(const std::string& name) {
  return {.map = SlotMap::even(1, {1, 1}),
          .shards = {{.shard = ShardId{0}, .tcp = "", .ipc = name}},
          .token = kToken,
          .workers = 1};
}

/// The shard of such a view, served by a thread until halt() or the end of its life.
class ServingShard {
 public:
  ServingShard(const PsView& view, std::unique_ptr<transport::Channel> channel)
      : loop_(ShardCore({.token = view.token, .workers = view.workers}, view.map),
              std::move(channel), std::make_shared<SystemClock>()) {
    serve();
  }
  ~ServingShard() { halt(); }
  ShardLoop& loop() { return loop_; }  ///< while halted
  void serve() {
    stop_ = false;
    thread_ = std::thread([this] {
      while (!stop_) ASSERT_TRUE(loop_.step(Duration{-1}));
    });
  }
  void halt() {
    if (!thread_.joinable()) return;
    stop_ = true;
    loop_.wake();
    thread_.join();
  }

 private:
  ShardLoop loop_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(ClientFault, ALinkThatDoesNotComeUpIsReplacedByASocket) {
  const std::string name = "@dlrun-test-" + std::to_string(::getpid());
  const auto transport = std::make_shared<transport::ZmqTransport>();
  auto channel = transport->listen({.bind = {"ipc://" + name}}).value();
  // Where shared memory should be somebody listens who never answers.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string deaf_name = name + std::string(kShmSuffix);
  std::memcpy(address.sun_path, deaf_name.data(), deaf_name.size());
  address.sun_path[0] = '\0';
  const int deaf = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(deaf, reinterpret_cast<sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + deaf_name.size())),
            0);
  ASSERT_EQ(::listen(deaf, 10), 0);
  const PsView view = view_of_one(name);
  ServingShard shard(view, std::move(channel));
  {
    const auto client = Client::connect(view, {.transport = transport}).value();
    const auto table = client->open_table(sum_schema("t", 2), kLong);
    EXPECT_TRUE(table) << table.error().to_string();
    if (table) {
      EXPECT_TRUE(
          client->push(*table, std::vector<std::uint64_t>{7}, std::vector<float>{1, 2}, kLong));
      std::vector<float> out(2);
      EXPECT_TRUE(client->pull(*table, std::vector<std::uint64_t>{7}, out, kLong));
      EXPECT_EQ(out, (std::vector<float>{1, 2}));
    }
  }
  ::close(deaf);
}

/// Shared memory that does not work while `sick`, as far as a client can see.
class SickTransport final : public transport::Transport {
 public:
  std::atomic<bool> sick = true;
  Result<std::unique_ptr<transport::Channel>> listen(
      const transport::ListenOptions& options) override {
    return inner_.listen(options);
  }
  Result<std::unique_ptr<transport::Channel>> dial(const transport::DialOptions& options) override {
    DLRUN_ASSIGN(auto channel, inner_.dial(options));
    return std::unique_ptr<transport::Channel>(
        std::make_unique<SickChannel>(std::move(channel), sick));
  }

 private:
  struct SickChannel final : transport::Channel {
    SickChannel(std::unique_ptr<Channel> channel, const std::atomic<bool>& is_sick)
        : inner(std::move(channel)), sick(is_sick) {}
    Result<transport::PeerId> connect(const std::string& endpoint) override {
      DLRUN_ASSIGN(const transport::PeerId peer, inner->connect(endpoint));
      if (endpoint.rfind("shm://", 0) == 0) rings.insert(peer);
      return peer;
    }
    void disconnect(transport::PeerId peer) override { inner->disconnect(peer); }
    Status send(transport::PeerId peer, const transport::Message& message) override {
      if (sick && rings.contains(peer)) return fail(Errc::kUnavailable, "sick");
      return inner->send(peer, message);
    }
    Result<std::optional<transport::Incoming>> receive(Duration timeout) override {
      return inner->receive(timeout);
    }
    void wake() noexcept override { inner->wake(); }
    std::vector<std::string> endpoints() const override { return inner->endpoints(); }
    std::unique_ptr<Channel> inner;
    const std::atomic<bool>& sick;
    std::set<transport::PeerId> rings;
  };
  transport::ZmqTransport inner_;
};

struct AdvancedClock final : Clock {
  TimePoint now() const override { return real.now() + ahead.load(); }
  WallTime wall() const override { return real.wall(); }
  SystemClock real;
  std::atomic<Duration> ahead{Duration{0}};
};

TEST(ClientFault, ALinkComesBackToSharedMemoryOnceThatWorksAgain) {
  const std::string name = "@dlrun-test-back-" + std::to_string(::getpid());
  const auto transport = std::make_shared<SickTransport>();
  const auto clock = std::make_shared<AdvancedClock>();
  auto channel =
      transport->listen({.bind = {"ipc://" + name, "shm://" + name + std::string(kShmSuffix)}})
          .value();
  const PsView view = view_of_one(name);
  ServingShard shard(view, std::move(channel));
  {
    const auto client = Client::connect(view, {.transport = transport, .clock = clock}).value();
    EXPECT_EQ(client->stats().links_shm, 1u) << "which it tries first";
    const auto table = client->open_table(sum_schema("t", 1), kLong);
    ASSERT_TRUE(table) << table.error().to_string();
    float pushed = 0;
    const auto push = [&] {
      ASSERT_TRUE(
          client->push(*table, std::vector<std::uint64_t>{7}, std::vector<float>{1}, kLong));
      std::vector<float> out(1);
      ASSERT_TRUE(client->pull(*table, std::vector<std::uint64_t>{7}, out, kLong));
      EXPECT_EQ(out[0], ++pushed);
    };
    const auto on_sockets = [&] { return client->stats().links_socket == 1; };
    push();
    EXPECT_TRUE(on_sockets());
    // Tried in vain after a minute: it is left at once.
    clock->ahead = seconds(61);
    const TimePoint start = clock->now();
    push();
    EXPECT_TRUE(on_sockets());
    EXPECT_LT(clock->now() - start, ShardLink::kFailsFor);
    transport->sick = false;
    clock->ahead = seconds(61 + 61);
    push();
    EXPECT_TRUE(on_sockets()) << "after a trial in vain it takes two minutes";
    clock->ahead = seconds(61 + 122);
    push();
    EXPECT_EQ(client->stats().links_shm, 1u);
    EXPECT_EQ(client->stats().links_socket, 0u);
    push();
    transport->sick = true;  // and again
    push();
    EXPECT_TRUE(on_sockets());
    transport->sick = false;
    PsView newer = view;
    newer.map.epoch = {1, 2};
    // A new view is a reason to look at once.
    shard.halt();
    ASSERT_TRUE(shard.loop().install_map(newer.map));
    shard.serve();
    ASSERT_TRUE(client->set_view(newer));
    push();
    EXPECT_EQ(client->stats().links_shm, 1u);
  }
}

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

TEST(ShardActor, ServesTakesItsMailIdlesAndStops) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", 1);
  caf::actor_system system(config);
  const auto transport = std::make_shared<transport::ZmqTransport>();
  auto channel = transport->listen({.bind = {"tcp://127.0.0.1:*"}}).value();
  PsView view{.map = SlotMap::even(1, {1, 1}),
              .shards = {{.shard = ShardId{0}, .tcp = channel->endpoints()[0]}},
              .token = kToken,
              .workers = 2};
  ShardSettings settings{.token = kToken, .workers = 2};
  ShardHandle shard = spawn_shard(
      system, std::make_shared<ShardLoop>(ShardCore(settings, view.map), std::move(channel),
                                          std::make_shared<SystemClock>()));
  ClientOptions options;
  options.worker = worker_id("worker", 0);
  const auto client = Client::connect(view, options).value();
  const Table table = client->open_table(sum_schema("bsp", 1, Consistency::kBsp), kLong).value();
  ASSERT_TRUE(client->clock(table, kLong));
  std::vector<float> out(1);
  auto pending = client->pull_async(table, std::vector<std::uint64_t>{1}, out, kLong).value();
  shard.worker_left(worker_id("worker", 1));
  EXPECT_TRUE(pending.wait());

  const double before = cpu_seconds();
  std::this_thread::sleep_for(seconds(2));  // what is measured is doing nothing
  EXPECT_LT(cpu_seconds() - before, 0.02) << "an idle shard must take <= 1 % of a core";

  shard.stop();
  caf::scoped_actor self(system);
  self->wait_for(shard.actor());
}

TEST(ShardActor, WritesACheckpointBetweenItsTurns) {
  char name[] = "/tmp/dlrun-cut-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", 1);
  caf::actor_system system(config);
  const auto transport = std::make_shared<transport::ZmqTransport>();
  auto channel = transport->listen({.bind = {"tcp://127.0.0.1:*"}}).value();
  ShardHandle shard = spawn_shard(
      system, std::make_shared<ShardLoop>(ShardCore({}, SlotMap::even(1, {1, 1})),
                                          std::move(channel), std::make_shared<SystemClock>()));
  std::promise<std::vector<TableProgress>> told;
  shard.ask_progress([&](std::vector<TableProgress> p) { told.set_value(std::move(p)); });
  EXPECT_TRUE(told.get_future().get().empty());
  std::promise<Status> begun;
  std::promise<Result<PartInfo>> done;
  shard.begin_cut(
      {5, {}, seconds(60)}, {.folder = name},
      [&](Status status) { begun.set_value(std::move(status)); },
      [&](Result<PartInfo> part) { done.set_value(std::move(part)); });
  EXPECT_TRUE(begun.get_future().get());
  const Result<PartInfo> part = done.get_future().get();
  ASSERT_TRUE(part) << part.error().to_string();
  EXPECT_EQ(part->checkpoint, 5u);
  EXPECT_EQ(part->blocks, 1u) << "the end's";
  shard.cancel_cut(5, "over");
  shard.stop();
  caf::scoped_actor self(system);
  self->wait_for(shard.actor());
  std::filesystem::remove_all(name);
}

#endif  // DLRUN_LOOPBACK_ONLY

}  // namespace
}  // namespace dlrun::ps
