// The same suite over every transport.
#include "ps/client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ps/core/value_codec.h"
#include "tests/ps/cluster_helper.h"

namespace dlrun::ps {
namespace {

class AnyCluster : public testing::TestWithParam<std::string> {};
#ifdef DLRUN_LOOPBACK_ONLY
INSTANTIATE_TEST_SUITE_P(Transports, AnyCluster, testing::Values("loop", "shm"));
#else
INSTANTIATE_TEST_SUITE_P(Transports, AnyCluster, testing::Values("loop", "tcp", "ipc", "shm"));
#endif

std::vector<std::uint64_t> some_keys(std::size_t n, std::uint64_t seed) {
  SplitMix64 rng(seed);
  std::vector<std::uint64_t> keys(n);
  for (auto& key : keys) key = rng.next();
  return keys;
}

TEST_P(AnyCluster, TablesOfManyDimsLiveSideBySide) {
  Cluster cluster(GetParam(), 3, 1);
  const auto client = cluster.client(worker_id("worker", 0));
  std::map<std::uint32_t, std::pair<Table, std::vector<float>>> tables;
  const std::vector<std::uint64_t> keys = {5, 0, ~0ull, 1ull << 63, 77, 123456789, 42, 43, 44};
  for (const std::uint32_t dim : {1u, 3u, 16u, 127u, 4096u}) {
    const Table table =
        client->open_table(sum_schema("dim" + std::to_string(dim), dim), kLong).value();
    std::vector<float> grads(keys.size() * dim);
    for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = static_cast<float>(i % 1000 + dim);
    ASSERT_TRUE(client->push(table, keys, grads, kLong));
    tables[dim] = {table, grads};
  }
  for (const auto& [dim, expected] : tables) {
    std::vector<float> out(keys.size() * dim);
    const Status pulled = client->pull(expected.first, keys, out, kLong);
    ASSERT_TRUE(pulled) << pulled.error().to_string();
    EXPECT_EQ(out, expected.second) << dim;
  }
}

TEST_P(AnyCluster, DuplicatesAreSummedAndEachPlaceOfAPullIsFilled) {
  Cluster cluster(GetParam(), 2, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 2), kLong).value();
  ASSERT_TRUE(client->push(table, std::vector<std::uint64_t>{7, 8, 7, 7},
                           std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, kLong));
  std::vector<float> out(10);
  ASSERT_TRUE(client->pull(table, std::vector<std::uint64_t>{8, 7, 9, 8, 7}, out, kLong));
  EXPECT_THAT(out, testing::ElementsAre(3, 4, 13, 16, 0, 0, 3, 4, 13, 16));
}

TEST_P(AnyCluster, TheLearningRateChangesOnEveryShard) {
  Cluster cluster(GetParam(), 3, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 1), kLong).value();
  const auto keys = some_keys(50, 3);
  const std::vector<float> ones(50, 1.0f);
  ASSERT_TRUE(client->push(table, keys, ones, kLong));
  ASSERT_TRUE(client->set_learning_rate(table, -10, kLong));
  ASSERT_TRUE(client->push(table, keys, ones, kLong));
  std::vector<float> out(50);
  ASSERT_TRUE(client->pull(table, keys, out, kLong));
  EXPECT_EQ(out, std::vector<float>(50, 11.0f));
  EXPECT_EQ(client->set_learning_rate(table, INFINITY, kLong).error().code, Errc::kInvalidArgument);
}

TEST_P(AnyCluster, AnEmptyBatchIsFine) {
  Cluster cluster(GetParam(), 2, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 4), kLong).value();
  EXPECT_TRUE(client->push(table, {}, {}, kLong));
  EXPECT_TRUE(client->pull(table, {}, {}, kLong));
  EXPECT_TRUE(client->pull_async(table, {}, {}, kLong).value().wait());
}

TEST_P(AnyCluster, ALargeTensorIsCutIntoSegments) {
  Cluster cluster(GetParam(), 2, 1);
  const auto client = cluster.client();
  TableSchema schema = sum_schema("dense", 256);
  schema.kind = KeyKind::kDense;
  schema.rows = 24'000;  // 24 MB: several segments of 8 MiB to each of two shards
  const Table table = client->open_table(schema, kLong).value();
  std::vector<float> tensor(schema.rows * schema.dim);
  std::iota(tensor.begin(), tensor.end(), 0.0f);
  ASSERT_TRUE(client->push_dense(table, tensor, kLong));
  EXPECT_GE(client->stats().requests, 2u + 4u);
  std::vector<float> out(tensor.size());
  ASSERT_TRUE(client->pull_dense(table, out, kLong));
  EXPECT_EQ(out, tensor);
}

TEST_P(AnyCluster, MoreSegmentsThanOpenSequencesGoThrough) {
  Cluster cluster(GetParam(), 2, 1);
  ClientOptions options = cluster.options();
  options.segment_bytes_max = 120;  // ten rows
  options.credit_bytes = 1 << 20;
  const auto client = Client::connect(cluster.view, options).value();
  const Table table = client->open_table(sum_schema("t", 1), kLong).value();
  const auto keys = some_keys(6000, 1);
  std::vector<float> grads(keys.size());
  std::iota(grads.begin(), grads.end(), 0.0f);
  ASSERT_TRUE(client->push(table, keys, grads, kLong));
  EXPECT_GE(client->stats().requests, 600u);
  EXPECT_EQ(client->stats().retries, 0u) << "a reply was dropped";
  std::vector<float> out(keys.size());
  ASSERT_TRUE(client->pull(table, keys, out, kLong));
  EXPECT_EQ(out, grads);
}

TEST_P(AnyCluster, EightClientsTrainInStep) {
  constexpr std::uint32_t kWorkers = 8;
  constexpr int kClocks = 5;
  Cluster cluster(GetParam(), 3, kWorkers);
  const auto keys = some_keys(50, 2);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      const auto client = cluster.client(worker_id("worker", w));
      const auto table = client->open_table(sum_schema("bsp", 4, Consistency::kBsp), kLong);
      ASSERT_TRUE(table) << table.error().to_string();
      const std::vector<float> ones(keys.size() * 4, 1.0f);
      for (int c = 0; c < kClocks; ++c) {
        std::vector<float> out(ones.size());
        const Status pulled = client->pull(*table, keys, out, kLong);
        ASSERT_TRUE(pulled) << pulled.error().to_string();
        for (const float x : out) ASSERT_EQ(x, static_cast<float>(c) * kWorkers) << "clock " << c;
        const Status pushed = client->push(*table, keys, ones, kLong);
        ASSERT_TRUE(pushed) << pushed.error().to_string();
        const Status ticked = client->clock(*table, kLong);
        ASSERT_TRUE(ticked) << ticked.error().to_string();
        EXPECT_EQ(client->clock_of(*table), static_cast<std::uint64_t>(c + 1));
      }
      ASSERT_TRUE(client->leave(kLong));
      EXPECT_TRUE(client->leave(kLong));
      EXPECT_EQ(client->push(*table, keys, ones, kLong).error().code, Errc::kFailedPrecondition);
    });
  }
  for (auto& t : threads) t.join();
}

TEST_P(AnyCluster, AWorkerThatDiesLetsTheOthersGoOn) {
  Cluster cluster(GetParam(), 2, 2);
  const auto alive = cluster.client(worker_id("worker", 0));
  const Table table = alive->open_table(sum_schema("bsp", 1, Consistency::kBsp), kLong).value();
  ASSERT_TRUE(alive->clock(table, kLong));
  std::vector<float> out(2);
  auto pending = alive->pull_async(table, std::vector<std::uint64_t>{1, 2}, out, kLong).value();
  std::thread reaper([&] { cluster.worker_left(worker_id("worker", 1)); });
  const Status done = pending.wait();
  reaper.join();
  EXPECT_TRUE(done) << done.error().to_string();
}

TEST_P(AnyCluster, ManyPullsAreUnderWayAtOnceAndOneMayBeGivenUp) {
  Cluster cluster(GetParam(), 2, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 8), kLong).value();
  const auto keys = some_keys(100, 3);
  std::vector<float> grads(800);
  std::iota(grads.begin(), grads.end(), 0.0f);
  ASSERT_TRUE(client->push(table, keys, grads, kLong));
  std::vector<std::vector<float>> outs(20, std::vector<float>(800));
  std::vector<PendingCall> pending;
  for (auto& out : outs) pending.push_back(client->pull_async(table, keys, out, kLong).value());
  pending[3] = {};
  outs[3].clear();
  outs[3].shrink_to_fit();
  for (std::size_t i = pending.size(); i-- > 0;) {
    if (i == 3) continue;
    ASSERT_TRUE(pending[i].wait());
    EXPECT_EQ(outs[i], grads);
    EXPECT_EQ(pending[i].wait().error().code, Errc::kFailedPrecondition);
  }
}

TEST_P(AnyCluster, PushesUnderWayEndInAnyOrderAndCanBeGivenUp) {
  for (const std::uint32_t shards : {1u, 2u}) {  // one: the caller's arrays are used in place
    Cluster cluster(GetParam(), shards, 1);
    const auto client = cluster.client();
    const Table table = client->open_table(sum_schema("t", 8), kLong).value();
    auto keys = some_keys(100, 3);
    std::sort(keys.begin(), keys.end());
    std::vector<std::vector<float>> grads(20, std::vector<float>(800, 1.0f));
    std::vector<PendingCall> pending;
    for (auto& g : grads) pending.push_back(client->push_async(table, keys, g, kLong).value());
    pending[3] = {};
    grads[3].clear();
    grads[3].shrink_to_fit();
    for (std::size_t i = pending.size(); i-- > 0;) {
      if (i == 3) continue;
      ASSERT_TRUE(pending[i].wait());
    }
    // The one that was given up had been sent: it may come after the last that was waited for.
    std::vector<float> out(800);
    ASSERT_TRUE(client->pull(table, keys, out, kLong));
    for (const float x : out) EXPECT_TRUE(x == 19.0f || x == 20.0f) << x;
  }
}

/// Far more than the credit: to begin does not wait for it, and who waits, for how long, is up to
/// the caller.
TEST_P(AnyCluster, WhatHasBegunIsWaitedForBySeveralAndInPieces) {
  Cluster cluster(GetParam(), 2, 2);
  ClientOptions options = cluster.options(worker_id("worker", 0));
  options.credit_bytes = 1 << 20;
  const auto client = Client::connect(cluster.view, options).value();
  const Table table = client->open_table(sum_schema("bsp", 64, Consistency::kBsp), kLong).value();
  std::vector<std::uint64_t> keys(20'000);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  const std::vector<float> ones(keys.size() * 64, 1.0f);
  std::vector<float> before(ones.size(), 7.0f), after(ones.size());
  auto old = client->begin_pull(table, keys, before, kLong).value();
  auto push = client->begin_push(table, keys, ones, kLong).value();
  ASSERT_TRUE(client->clock(table, kLong));  // waits for both
  EXPECT_TRUE(old.wait_for(Duration::zero()).value());
  EXPECT_TRUE(push.wait_for(Duration::zero()).value());
  EXPECT_TRUE(old.wait_for(Duration::zero()).value());  // asked again
  EXPECT_EQ(before, std::vector<float>(ones.size(), 0.0f));

  auto parked = client->begin_pull(table, keys, after, kLong).value();  // for the other's clock
  EXPECT_FALSE(parked.wait_for(std::chrono::milliseconds(20)).value());
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i)
    waiting.emplace_back([&] {
      while (true) {
        const auto done = parked.wait_for(std::chrono::milliseconds(5));
        ASSERT_TRUE(done) << done.error().to_string();
        if (*done) break;
      }
      EXPECT_EQ(after[0], 1.0f);
    });
  cluster.worker_left(worker_id("worker", 1));
  for (auto& thread : waiting) thread.join();
  EXPECT_EQ(after, ones);

  auto late = client->begin_pull(table, keys, after, Duration::zero()).value();
  EXPECT_EQ(late.wait_for(kLong).error().code, Errc::kDeadlineExceeded);
  EXPECT_EQ(late.wait_for(kLong).error().code, Errc::kDeadlineExceeded);
  EXPECT_EQ(PendingCall().wait_for(kLong).error().code, Errc::kFailedPrecondition);
}

/// Every mode x every codec of a push x every codec of a pull (x every transport): what arrives is
/// what the codecs make of it, exactly. Of the way, that is: whether the codecs are right is asked
/// in value_codec_test.
TEST_P(AnyCluster, EveryCodecInEveryMode) {
  constexpr std::uint32_t kDim = 9;
  Cluster cluster(GetParam(), 2, 1);
  const auto client = cluster.client(worker_id("worker", 0));
  auto keys = some_keys(40, 8);
  std::sort(keys.begin(), keys.end());
  SplitMix64 rng(5);
  std::vector<float> grads(keys.size() * kDim);
  for (float& g : grads) g = static_cast<float>(rng.uniform() - 0.5);
  const auto through = [&](const CodecSpec& spec, const std::vector<std::byte>& bytes) {
    std::vector<float> values(grads.size());
    EXPECT_TRUE(decode_rows(spec, bytes, kDim, values));
    return values;
  };
  for (const Consistency mode : {Consistency::kBsp, Consistency::kSsp, Consistency::kAsp}) {
    for (const CodecSpec push :
         {CodecSpec{Codec::kF32}, CodecSpec{Codec::kF16}, CodecSpec{Codec::kBf16},
          CodecSpec{Codec::kInt8}, CodecSpec{Codec::kOneBit}, CodecSpec{Codec::kTopK, 3}}) {
      const std::string name = std::to_string(static_cast<int>(mode)) + "/" +
                               std::to_string(static_cast<int>(push.codec));
      const auto table = client->open_table(sum_schema(name, kDim, mode), kLong);
      ASSERT_TRUE(table) << table.error().to_string();
      std::vector<float> sum(grads.size());
      ErrorFeedback feedback(kDim, 1000);
      const bool lossy = push.codec == Codec::kOneBit || push.codec == Codec::kTopK;
      for (int step = 0; step < 3; ++step) {
        ASSERT_TRUE(client->set_codecs(*table, push, {}));
        const Status pushed = client->push(*table, keys, grads, kLong);
        ASSERT_TRUE(pushed) << name << ": " << pushed.error().to_string();
        ASSERT_TRUE(client->clock(*table, kLong));
        std::vector<std::byte> bytes(keys.size() * encoded_row_bytes(push, kDim));
        if (lossy) {
          feedback.encode(push, keys, grads, bytes.data());
        } else {
          encode_rows(push, grads, kDim, bytes.data());
        }
        const std::vector<float> arrived = through(push, bytes);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += arrived[i];
      }
      for (const Codec pull : {Codec::kF32, Codec::kF16, Codec::kBf16, Codec::kInt8}) {
        ASSERT_TRUE(client->set_codecs(*table, push, {pull}));
        std::vector<float> out(sum.size());
        const Status pulled = client->pull(*table, keys, out, kLong);
        ASSERT_TRUE(pulled) << name << ": " << pulled.error().to_string();
        std::vector<std::byte> bytes(keys.size() * encoded_row_bytes({pull}, kDim));
        encode_rows({pull}, sum, kDim, bytes.data());
        EXPECT_EQ(out, through({pull}, bytes)) << name << " pulled as " << static_cast<int>(pull);
      }
    }
  }
}

TEST_P(AnyCluster, ThreadsShareOneClient) {
  Cluster cluster(GetParam(), 2, 1);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 1), kLong).value();
  const auto keys = some_keys(20, 4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const std::vector<float> ones(keys.size(), 1.0f);
      std::vector<float> out(keys.size());
      for (int i = 0; i < 25; ++i) {
        ASSERT_TRUE(client->push(table, keys, ones, kLong));
        ASSERT_TRUE(client->pull(table, keys, out, kLong));
      }
    });
  }
  for (auto& t : threads) t.join();
  std::vector<float> out(keys.size());
  ASSERT_TRUE(client->pull(table, keys, out, kLong));
  for (const float x : out) EXPECT_EQ(x, 100.0f);
}

TEST_P(AnyCluster, OpeningATableTwiceIsFineAndWithAnotherSchemaIsNot) {
  Cluster cluster(GetParam(), 2, 2);
  const auto a = cluster.client();
  const auto b = cluster.client();
  ASSERT_TRUE(a->open_table(sum_schema("t", 4), kLong));
  EXPECT_TRUE(b->open_table(sum_schema("t", 4), kLong));
  const auto other = b->open_table(sum_schema("t", 5), kLong);
  EXPECT_EQ(other.error().code, Errc::kAlreadyExists);
  EXPECT_THAT(other.error().context, testing::HasSubstr("another dim"));
}

TEST_P(AnyCluster, AStrangerIsTurnedAwayAtOnce) {
  Cluster cluster(GetParam(), 1, 1);
  PsView view = cluster.view;
  view.token[0] ^= 1;
  const auto client = Client::connect(view, cluster.options()).value();
  EXPECT_EQ(client->open_table(sum_schema("t", 4), kLong).error().code, Errc::kPermissionDenied);
}

TEST(Client, ChecksWhatItIsGiven) {
  Cluster cluster("loop", 1, 1);
  EXPECT_EQ(Client::connect({}, {}).error().code, Errc::kInvalidArgument);
  PsView broken = cluster.view;
  broken.map.owner[17] = ShardId{9};
  EXPECT_EQ(Client::connect(broken, cluster.options()).error().code, Errc::kInvalidArgument);
  const auto client = cluster.client();
  const Table table = client->open_table(sum_schema("t", 4), kLong).value();
  std::vector<float> out(3);
  EXPECT_EQ(client->pull(table, std::vector<std::uint64_t>{1}, out, kLong).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(client->push_dense(table, out, kLong).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(client->clock(table, kLong).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(client->open_table(sum_schema("", 4), kLong).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(client->pull(Table{}, {}, {}, kLong).error().code, Errc::kInvalidArgument);
  const auto codecs = [&](const Table& t, CodecSpec push, CodecSpec pull) {
    const Status set = client->set_codecs(t, push, pull);
    return set ? Errc{} : set.error().code;
  };
  EXPECT_EQ(codecs(table, {}, {Codec::kOneBit}), Errc::kInvalidArgument);
  EXPECT_EQ(codecs(table, {}, {Codec::kTopK, 1}), Errc::kInvalidArgument);
  EXPECT_EQ(codecs(table, {Codec::kTopK, 0}, {}), Errc::kInvalidArgument);
  EXPECT_EQ(codecs(table, {Codec::kTopK, 5}, {}), Errc::kInvalidArgument);
  EXPECT_EQ(codecs(table, {Codec::kTopK, 4}, {Codec::kInt8}), Errc{});
  TableSchema assigned = sum_schema("assigned", 4);
  assigned.optimizer = Optimizer::kAssign;
  const Table set = client->open_table(assigned, kLong).value();
  EXPECT_EQ(codecs(set, {Codec::kOneBit}, {}), Errc::kInvalidArgument);
  EXPECT_EQ(codecs(set, {Codec::kBf16}, {}), Errc{});
}

}  // namespace
}  // namespace dlrun::ps
