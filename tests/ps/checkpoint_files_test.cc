// A checkpoint on disk: shards on threads, clients that train meanwhile, files that are hurt.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <map>

#include "ps/checkpoint/folder.h"
#include "ps/checkpoint/part_reader.h"
#include "tests/ps/cluster_helper.h"

namespace dlrun::ps {
namespace {

constexpr WorkerId kWorker{1};

TableSchema summing(Consistency consistency, std::uint32_t dim) {
  return {.id = 3, .name = "sum", .dim = dim, .learning_rate = -1, .consistency = consistency};
}

class CheckpointFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dlrun-checkpoint-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = std::string(name) + "/7";
    ASSERT_TRUE(make_folder(folder));
  }
  void TearDown() override {
    std::filesystem::remove_all(std::filesystem::path(folder).parent_path());
  }

  /// Calls it on every shard; then wait().
  Status begin(Cluster& cluster, const CutPlan& plan, int zstd_level = 0) {
    Status begun;
    for (std::size_t i = 0; i < cluster.loops.size() && begun; ++i) {
      cluster.with_shard(i, [&](ShardLoop& loop) {
        begun = loop.begin_cut(plan, {.folder = folder, .zstd_level = zstd_level},
                               [this](Result<PartInfo> part) {
                                 const std::lock_guard lock(mutex);
                                 parts.push_back(std::move(part));
                                 came.notify_all();
                               });
      });
    }
    return begun;
  }
  std::vector<PartInfo> wait(std::size_t n) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(came.wait_for(lock, kLong, [&] { return parts.size() == n; }));
    std::vector<PartInfo> good;
    for (const auto& part : parts) {
      if (part) {
        good.push_back(*part);
      } else {
        ADD_FAILURE() << part.error().to_string();
      }
    }
    return good;
  }
  Manifest commit(std::size_t n, std::vector<Attachment> attachments = {}) {
    const auto merged = merge_parts("job", Epoch{1, 1}, wait(n), std::move(attachments));
    if (!merged) {
      ADD_FAILURE() << merged.error().to_string();
      return {};
    }
    const auto digest = write_manifest(folder, *merged);
    EXPECT_TRUE(digest) << digest.error().to_string();
    const auto read = read_manifest(folder, digest.value_or(0));
    EXPECT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read.value_or(Manifest{}), *merged);
    EXPECT_EQ(read_manifest(folder, *digest + 1).error().code, Errc::kCorrupt);
    return *merged;
  }

  std::string folder;
  std::mutex mutex;
  std::condition_variable came;
  std::vector<Result<PartInfo>> parts;
};

std::vector<ShardCore> restored(const std::string& folder, const Manifest& manifest,
                                std::uint32_t shards) {
  std::vector<ShardCore> cores;
  for (std::uint32_t s = 0; s < shards; ++s) {
    ShardSettings settings;
    settings.shard = ShardId{s};
    settings.workers = 1;
    cores.emplace_back(settings, SlotMap::even(shards, Epoch{2, 1}));
    const Status ok = restore_shard(cores.back(), folder, manifest, false, SystemClock().now());
    EXPECT_TRUE(ok) << ok.error().to_string();
  }
  return cores;
}

float row_of(const std::vector<ShardCore>& cores, std::uint64_t key, std::uint32_t dim) {
  const SlotMap map = SlotMap::even(static_cast<std::uint32_t>(cores.size()), Epoch{2, 1});
  const TableState* table = cores[map.owner[slot_of(3, key)].value].table(3);
  std::vector<float> row(dim);
  const std::vector<std::uint64_t> keys = {key};
  table->read(keys, row.data(), whole_seconds(SystemClock().now()));
  return row[0];
}

TEST_F(CheckpointFiles, AClockIsWrittenWhileTrainingGoesOnAndRestoredOnAnotherNumberOfShards) {
  constexpr std::uint32_t kDim = 64;
  constexpr std::uint64_t kRows = 20'000;
  for (const int zstd_level : {0, 1}) {
    parts.clear();
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(make_folder(folder));
    Cluster cluster("loop", 2, 1);
    const auto client = cluster.client(kWorker);
    const Table table = client->open_table(summing(Consistency::kBsp, kDim), kLong).value();
    std::vector<std::uint64_t> keys(kRows);
    for (std::uint64_t i = 0; i < kRows; ++i) keys[i] = i * 0x9e3779b97f4a7c15ULL;
    const std::vector<float> ones(kRows * kDim, 1.0f);
    const auto iteration = [&] {
      ASSERT_TRUE(client->push(table, keys, ones, kLong));
      ASSERT_TRUE(client->clock(table, kLong));
    };
    iteration();
    ASSERT_TRUE(begin(cluster, {7, {{3, 3}}, kLong}, zstd_level));
    for (int i = 0; i < 6; ++i) iteration();  // clock 3 is passed, and more
    const auto mine = write_attachment(folder, 0, "input", "split 4 row 17").value();
    const Manifest manifest = commit(2, {mine});
    ASSERT_TRUE(verify_checkpoint(folder, manifest));
    EXPECT_EQ(read_attachment(folder, mine).value(), "split 4 row 17");
    const std::uint64_t plain = kRows * (kRowHeadBytes + 4 * kDim);
    const std::uint64_t bytes = manifest.parts[0].bytes + manifest.parts[1].bytes;
    if (zstd_level == 0) {
      EXPECT_GT(bytes, plain);
      EXPECT_LT(bytes, plain * 11 / 10);
    } else {
      EXPECT_LT(bytes, plain / 2);
    }
    for (const std::uint32_t shards : {1u, 2u, 3u}) {
      const auto cores = restored(folder, manifest, shards);
      std::uint64_t rows = 0;
      for (const ShardCore& core : cores) rows += core.stats().rows;
      EXPECT_EQ(rows, kRows);
      for (std::uint64_t i = 0; i < kRows; i += 97) ASSERT_EQ(row_of(cores, keys[i], kDim), 3);
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(CheckpointFiles, ARestoredTableGoesOnFromTheClockThatWasCut) {
  Manifest manifest;
  std::vector<std::uint64_t> keys(100);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const std::vector<float> ones(keys.size() * 2, 1.0f);
  {
    Cluster cluster("loop", 2, 1);
    const auto client = cluster.client(kWorker);
    const Table table = client->open_table(summing(Consistency::kBsp, 2), kLong).value();
    EXPECT_EQ(client->checkpoint_called(table).checkpoint, 0u);
    ASSERT_TRUE(begin(cluster, {7, {{3, 2}}, kLong}));
    ASSERT_TRUE(client->push(table, keys, ones, kLong));
    const CheckpointCall call = client->checkpoint_called(table);
    EXPECT_EQ(call.checkpoint, 7u);
    EXPECT_EQ(call.clock, 2u);
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(client->push(table, keys, ones, kLong));
      ASSERT_TRUE(client->clock(table, kLong));
    }
    manifest = commit(2);
  }
  Cluster cluster("loop", 3, 1);
  for (std::size_t i = 0; i < cluster.loops.size(); ++i) {
    cluster.with_shard(i, [&](ShardLoop& loop) {
      const Status ok = restore_shard(loop.core(), folder, manifest, false, cluster.clock->now());
      ASSERT_TRUE(ok) << ok.error().to_string();
    });
  }
  const auto client = cluster.client(kWorker);
  const Table table = client->open_table(summing(Consistency::kBsp, 2), kLong).value();
  EXPECT_EQ(client->clock_of(table), 2u);
  std::vector<float> rows(keys.size() * 2);
  ASSERT_TRUE(client->pull(table, keys, rows, kLong));
  EXPECT_EQ(rows, std::vector<float>(rows.size(), 3.0f));  // two pushes of clock 0, one of 1
  ASSERT_TRUE(client->push(table, keys, ones, kLong));
  ASSERT_TRUE(client->clock(table, kLong));
  ASSERT_TRUE(client->pull(table, keys, rows, kLong));
  EXPECT_EQ(rows, std::vector<float>(rows.size(), 4.0f));
  // Another schema under its name is still another table.
  TableSchema other = summing(Consistency::kBsp, 3);
  EXPECT_EQ(client->open_table(other, kLong).error().code, Errc::kAlreadyExists);
}

TEST_F(CheckpointFiles, WhatEachWorkerPushedBeforeItsMarkIsInWhateverTheNetworkDoes) {
  constexpr int kClients = 3;
  constexpr std::uint64_t kKeys = 500;
  Cluster cluster("loop", 2, kClients);
  std::atomic<bool> stop = false;
  std::atomic<int> marked = 0;
  std::vector<std::vector<float>> before(kClients, std::vector<float>(kKeys));
  std::vector<std::thread> threads;
  for (int w = 0; w < kClients; ++w) {
    threads.emplace_back([&, w] {
      ClientOptions options = cluster.options(WorkerId{static_cast<std::uint64_t>(w) + 1});
      options.retry_first = milliseconds(20);
      options.transport = std::make_shared<FaultyTransport>(
          cluster.transport,
          FaultyTransport::Faults{.lose = 5, .repeat = 5, .reorder = 10, .seed = 40ull + w});
      const auto client = Client::connect(cluster.view, options).value();
      const Table table = client->open_table(summing(Consistency::kAsp, 1), kLong).value();
      SplitMix64 rng(static_cast<std::uint64_t>(w) + 1);
      std::vector<float> sums(kKeys);
      bool open = true;
      while (!stop) {
        std::vector<std::uint64_t> keys;
        std::vector<PendingCall> pushes;
        for (std::uint64_t key = rng.below(30); key < kKeys; key += 1 + rng.below(60))
          keys.push_back(key);
        const std::vector<float> ones(keys.size(), 1.0f);
        for (int i = 0; i < 3; ++i)
          pushes.push_back(client->push_async(table, keys, ones, kLong).value());
        for (const std::uint64_t key : keys) sums[key] += 3;
        // With pushes under way: they are before the mark.
        const CheckpointCall call = client->checkpoint_called(table);
        if (open && call.checkpoint == 7) {
          before[static_cast<std::size_t>(w)] = sums;
          const Status ok = client->mark(7, kLong);
          ASSERT_TRUE(ok) << ok.error().to_string();
          open = false;
          ++marked;
        }
        for (PendingCall& push : pushes) ASSERT_TRUE(push.wait());
      }
    });
  }
  // Every shard knows the table before it is called.
  const auto opener = cluster.client();
  ASSERT_TRUE(opener->open_table(summing(Consistency::kAsp, 1), kLong));
  ASSERT_TRUE(begin(cluster, {7, {}, kLong}));
  const std::vector<PartInfo> written = wait(2);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(marked, kClients);
  const auto merged = merge_parts("job", Epoch{1, 1}, written, {});
  ASSERT_TRUE(merged) << merged.error().to_string();
  const auto cores = restored(folder, *merged, 3);
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    float want = 0;
    for (const std::vector<float>& sums : before) want += sums[key];
    ASSERT_EQ(row_of(cores, key, 1), want) << "key " << key;
  }
}

TEST_F(CheckpointFiles, EveryPlaceThatIsHurtIsFoundAndNamed) {
  Cluster cluster("loop", 1, 1);
  const auto client = cluster.client(kWorker);
  const Table table = client->open_table(summing(Consistency::kBsp, 4), kLong).value();
  std::vector<std::uint64_t> keys(2000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  ASSERT_TRUE(begin(cluster, {7, {{3, 1}}, kLong}));
  ASSERT_TRUE(client->push(table, keys, std::vector<float>(keys.size() * 4, 1.0f), kLong));
  ASSERT_TRUE(client->clock(table, kLong));
  const Attachment mine = write_attachment(folder, 0, "mine", "state").value();
  const Manifest manifest = commit(1, {mine});
  ASSERT_TRUE(verify_checkpoint(folder, manifest));
  const std::string path = folder + "/" + manifest.parts[0].file;
  std::string good;
  {
    std::ifstream in(path, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  ASSERT_EQ(good.size(), manifest.parts[0].bytes);
  const auto put = [](const std::string& where, const std::string& bytes) {
    std::ofstream(where, std::ios::binary | std::ios::trunc) << bytes;
  };
  SplitMix64 rng(5);
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    const std::size_t at = i < 70 ? static_cast<std::size_t>(i) : rng.below(good.size());
    bad[at] = static_cast<char>(bad[at] ^ (1 << rng.below(8)));
    put(path, bad);
    const Status found = verify_checkpoint(folder, manifest);
    ASSERT_FALSE(found) << "byte " << at;
    EXPECT_TRUE(found.error().code == Errc::kCorrupt || found.error().code == Errc::kUnsupported);
    EXPECT_NE(found.error().context.find(path), std::string::npos) << found.error().context;
    ShardSettings settings;
    ShardCore core(settings, SlotMap::even(1, Epoch{2, 1}));
    EXPECT_FALSE(restore_shard(core, folder, manifest, true, TimePoint{})) << "byte " << at;
  }
  for (int i = 0; i < 100; ++i) {
    put(path, good.substr(0, i < 5 ? good.size() - 1 - i : rng.below(good.size())));
    const Status found = verify_checkpoint(folder, manifest);
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().context.find("torn"), std::string::npos) << found.error().context;
    EXPECT_NE(found.error().context.find(path), std::string::npos);
  }
  put(path, good + good);
  EXPECT_FALSE(verify_checkpoint(folder, manifest));
  std::filesystem::remove(path);
  EXPECT_EQ(verify_checkpoint(folder, manifest).error().code, Errc::kNotFound);
  put(path, good);
  ASSERT_TRUE(verify_checkpoint(folder, manifest));

  put(folder + "/" + mine.file, "stat");
  EXPECT_NE(verify_checkpoint(folder, manifest).error().context.find("'mine'"), std::string::npos);
  put(folder + "/" + mine.file, "stute");
  EXPECT_EQ(verify_checkpoint(folder, manifest).error().code, Errc::kCorrupt);
}

TEST_F(CheckpointFiles, OneThatIsCancelledLeavesNoFile) {
  Cluster cluster("loop", 1, 2);
  const auto client = cluster.client(kWorker);
  const Table table = client->open_table(summing(Consistency::kBsp, 4), kLong).value();
  ASSERT_TRUE(begin(cluster, {7, {{3, 5}}, milliseconds(1)}));  // nobody will come there
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(came.wait_for(lock, kLong, [&] { return parts.size() == 1; }));
    ASSERT_FALSE(parts[0]);
    EXPECT_EQ(parts[0].error().code, Errc::kCancelled);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(read_manifest(folder).error().code, Errc::kNotFound);
}

TEST_F(CheckpointFiles, AFolderThatCannotBeWrittenEndsTheCheckpointWithItsName) {
  Cluster cluster("loop", 1, 1);
  const auto client = cluster.client(kWorker);
  const Table table = client->open_table(summing(Consistency::kBsp, 4), kLong).value();
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(begin(cluster, {7, {{3, 1}}, kLong}));
  ASSERT_TRUE(client->clock(table, kLong));
  std::unique_lock lock(mutex);
  ASSERT_TRUE(came.wait_for(lock, kLong, [&] { return parts.size() == 1; }));
  ASSERT_FALSE(parts[0]);
  EXPECT_NE(parts[0].error().context.find(folder), std::string::npos);
  lock.unlock();
  EXPECT_TRUE(client->push(table, std::vector<std::uint64_t>{1}, std::vector<float>(4), kLong));
}

TEST_F(CheckpointFiles, OneFolderHoldsOneCheckpoint) {
  Manifest first{.checkpoint = 1, .job = "a"};
  ASSERT_TRUE(write_manifest(folder, first));
  EXPECT_TRUE(write_manifest(folder, first)) << "the same again";
  first.job = "b";
  EXPECT_EQ(write_manifest(folder, first).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(make_folder(folder).error().code, Errc::kAlreadyExists);
}

}  // namespace
}  // namespace dlrun::ps
