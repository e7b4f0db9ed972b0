// The cut of a checkpoint against its definition: workers whose pushes, clocks, marks and retries
// reach two shards in a random order; what is restored, on any number of shards, is the sum of
// exactly the pushes before each worker's mark.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "tests/ps/shard_helper.h"

namespace dlrun::ps {
namespace {

constexpr std::uint32_t kShardsThen = 2;
constexpr std::uint32_t kWorkers = 3;
constexpr std::uint64_t kKeys = 200;
constexpr std::uint32_t kTable = 5;

struct Case {
  const char* name;
  Consistency consistency;
  std::uint32_t staleness;
};

/// One request to one shard, until it was answered well.
struct Part {
  std::uint32_t shard = 0;
  RequestHeader header;
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
};

struct Worker {
  WorkerId id;
  ClientId client;
  std::uint64_t sequence = 0;
  std::uint64_t clock = 0;
  std::vector<Part> under_way;
  std::vector<Part> answered;  ///< some of the last, to be sent again
  std::uint64_t marked = 0;    ///< a checkpoint
};

struct Pushed {
  ClientId client;
  std::uint64_t sequence = 0;
  std::uint64_t clock = 0;
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
};

class World {
 public:
  World(const Case& c, std::uint64_t seed) : case_(c), rng_(seed) {
    for (std::uint32_t s = 0; s < kShardsThen; ++s) {
      shards_.push_back(std::make_unique<HandShard>(kWorkers, map_, ShardId{s}));
      plain_.push_back(std::make_unique<HandShard>(kWorkers, map_, ShardId{s}));
    }
    schema_ = sum_table(c.consistency, 1, c.staleness);
    for (auto* set : {&shards_, &plain_}) {
      for (auto& shard : *set) EXPECT_EQ(shard->create(schema_).header.error, 0);
    }
    for (std::uint32_t w = 0; w < kWorkers; ++w)
      workers_.push_back({.id = WorkerId{w + 1}, .client = ClientId{w + 100}});
  }

  /// One thing of one worker.
  void step() {
    now_ += std::chrono::milliseconds(rng_.below(300));
    Worker& w = workers_[rng_.below(kWorkers)];
    if (w.under_way.empty()) begin(w);
    if (w.under_way.empty()) return;  // it waits for slower ones
    std::swap(w.under_way[rng_.below(w.under_way.size())], w.under_way.back());
    const Part part = w.under_way.back();
    const Reply reply = deliver(part);
    if (rng_.below(4) == 0) {
      EXPECT_EQ(deliver(part).header.error, reply.header.error);
    }
    if (code(reply) == Errc::kUnavailable && part.header.kind == Kind::kMark) return;  // again
    ASSERT_EQ(reply.header.error, 0) << reply.header.context;
    w.under_way.pop_back();
    if (part.header.kind == Kind::kPush) w.answered.push_back(part);
    if (w.answered.size() > 8) w.answered.erase(w.answered.begin());
    if (!w.under_way.empty()) return;
    if (part.header.kind == Kind::kClock) ++w.clock;
    if (rng_.below(6) == 0 && !w.answered.empty()) {  // a retry that comes late
      EXPECT_EQ(deliver(w.answered[rng_.below(w.answered.size())]).header.error, 0);
    }
  }

  /// Calls checkpoint `id` while the workers go on; the parts.
  std::vector<PartInfo> checkpoint(std::uint64_t id) {
    for (std::uint64_t ahead = 1;; ahead *= 2, ++id) {
      std::vector<std::vector<TableProgress>> progress;
      for (auto& shard : shards_) {
        progress.push_back(shard->core.progress());
        some_steps();
      }
      const CutPlan plan{id, plan_clocks(progress, ahead), std::chrono::hours(1)};
      Status begun;
      for (auto& shard : shards_) {
        if (begun) begun = shard->core.begin_cut(plan, now_);
        some_steps();
      }
      if (!begun) {
        EXPECT_EQ(begun.error().code, Errc::kFailedPrecondition);
        for (auto& shard : shards_) shard->core.cancel_cut(id, "called again");
        continue;
      }
      id_ = id;
      cut_clock_ = plan.clocks.empty() ? 0 : plan.clocks[0].clock;
      break;
    }
    blocks.assign(kShardsThen, {});
    std::vector<bool> done(kShardsThen);
    for (int i = 0; i < 200'000 && !testing::Test::HasFailure(); ++i) {
      step();
      const std::uint32_t s = static_cast<std::uint32_t>(rng_.below(kShardsThen));
      ShardCore& core = shards_[s]->core;
      if (core.cut().phase == ShardCore::CutPhase::kWriting && rng_.below(2) == 0) {
        aside_most = std::max(aside_most, core.cut().aside_bytes);
        core.write_cut(1 + rng_.below(1000), blocks[s]);
      }
      done[s] = core.cut().phase == ShardCore::CutPhase::kWritten;
      if (std::find(done.begin(), done.end(), false) == done.end()) break;
    }
    std::vector<PartInfo> parts;
    for (std::uint32_t s = 0; s < kShardsThen; ++s) {
      if (!done[s]) {
        ADD_FAILURE() << "shard " << s << " was not cut: " << shards_[s]->core.cut().why;
        return {};
      }
      parts.push_back(shards_[s]->core.part_info());
      parts.back().file = "shard-" + std::to_string(s);
    }
    return parts;
  }

  /// What the definition says.
  std::map<std::uint64_t, float> expected() const {
    std::map<std::uint64_t, float> sums;
    for (const Pushed& push : pushed_) {
      for (std::size_t i = 0; is_in(push) && i < push.keys.size(); ++i)
        sums[push.keys[i]] += push.values[i];
    }
    return sums;
  }
  bool is_in(const Pushed& push) const {
    return case_.consistency == Consistency::kAsp ? push.sequence <= marks_.at(push.client)
                                                  : push.clock < cut_clock_;
  }
  const std::deque<Pushed>& pushed() const { return pushed_; }
  void expect_same_as_without() {
    for (std::uint32_t s = 0; s < kShardsThen; ++s)
      EXPECT_EQ(shards_[s]->core.digest(), plain_[s]->core.digest()) << "shard " << s;
  }
  std::uint64_t cut_clock() const { return cut_clock_; }
  const TableSchema& schema() const { return schema_; }
  const std::vector<Worker>& workers() const { return workers_; }
  std::uint64_t mark_of(ClientId client) const { return marks_.at(client); }
  TimePoint now() const { return now_; }
  void some_steps() {
    for (std::uint64_t n = rng_.below(12); n > 0; --n) step();
  }

  std::vector<std::vector<Block>> blocks;  ///< by shard
  std::uint64_t aside_most = 0;

 private:
  RequestHeader header(const Worker& w, Kind kind) {
    RequestHeader h = HandShard::header(kind, kTable);
    h.worker = w.id;
    h.client = w.client;
    h.clock = w.clock;
    h.dim = 1;
    return h;
  }

  /// The next operation of its program, cut by shard.
  void begin(Worker& w) {
    const bool clocks = case_.consistency != Consistency::kAsp;
    // It hears of a checkpoint at some time after the first shard has.
    if (!clocks && id_ != w.marked && rng_.below(5) == 0) {
      w.marked = id_;
      marks_[w.client] = w.sequence;
      RequestHeader h = header(w, Kind::kMark);
      h.sequence = w.sequence;
      h.checkpoint = id_;
      for (std::uint32_t s = 0; s < kShardsThen; ++s) w.under_way.push_back({s, h, {}, {}});
      return;
    }
    if (clocks && rng_.below(4) == 0) {
      std::uint64_t slowest = ~0ull;
      for (const Worker& other : workers_) slowest = std::min(slowest, other.clock);
      if (w.clock > slowest + case_.staleness) return;
      RequestHeader h = header(w, Kind::kClock);
      h.clock = w.clock + 1;
      for (std::uint32_t s = 0; s < kShardsThen; ++s) w.under_way.push_back({s, h, {}, {}});
      return;
    }
    Pushed push{w.client, ++w.sequence, w.clock, {}, {}};
    for (std::uint64_t key = rng_.below(20); key < kKeys; key += 1 + rng_.below(40)) {
      push.keys.push_back(key);
      push.values.push_back(static_cast<float>(1 + rng_.below(9)));
    }
    RequestHeader h = header(w, Kind::kPush);
    h.sequence = w.sequence;
    for (std::uint32_t s = 0; s < kShardsThen; ++s) {
      Part part{s, h, {}, {}};
      for (std::size_t i = 0; i < push.keys.size(); ++i) {
        if (map_.owner[slot_of(kTable, push.keys[i])].value != s) continue;
        part.keys.push_back(push.keys[i]);
        part.values.push_back(push.values[i]);
      }
      if (!part.keys.empty()) w.under_way.push_back(std::move(part));
    }
    pushed_.push_back(std::move(push));
  }

  Reply deliver(const Part& part) {
    const auto replies = shards_[part.shard]->ask(part.header, part.keys, part.values, 0, now_);
    EXPECT_EQ(replies.size(), 1u);
    if (part.header.kind != Kind::kMark) {
      const auto plain = plain_[part.shard]->ask(part.header, part.keys, part.values, 0, now_);
      EXPECT_EQ(plain.at(0).header.error, replies.at(0).header.error);
    }
    return replies.empty() ? Reply{} : replies[0];
  }

  const Case case_;
  SplitMix64 rng_;
  TableSchema schema_;
  SlotMap map_ = SlotMap::even(kShardsThen, kEpoch);
  std::vector<std::unique_ptr<HandShard>> shards_, plain_;
  std::vector<Worker> workers_;
  std::deque<Pushed> pushed_;
  std::map<ClientId, std::uint64_t> marks_;
  std::uint64_t id_ = 0;
  std::uint64_t cut_clock_ = 0;
  TimePoint now_ = at(1000);
};

/// Shards that begin with what was written.
std::vector<std::unique_ptr<HandShard>> restore(const World& world, const Manifest& manifest,
                                                std::uint32_t shards, bool with_windows) {
  std::vector<std::unique_ptr<HandShard>> restored;
  const SlotMap map = SlotMap::even(shards, kEpoch);
  for (std::uint32_t s = 0; s < shards; ++s) {
    restored.push_back(std::make_unique<HandShard>(kWorkers, map, ShardId{s}));
    ShardCore& core = restored.back()->core;
    EXPECT_TRUE(core.begin_restore(manifest, with_windows, at(5000)));
    for (std::size_t part = 0; part < world.blocks.size(); ++part) {
      for (const Block& block : world.blocks[part]) {
        if (!core.wants_block(block.header)) continue;
        const Status ok = core.restore_block(part, block.header, block.raw);
        EXPECT_TRUE(ok) << ok.error().to_string();
      }
    }
    EXPECT_TRUE(core.end_restore());
  }
  return restored;
}

class CutOracle : public testing::TestWithParam<Case> {};

TEST_P(CutOracle, WhatIsRestoredIsTheSumOfThePushesBeforeTheMarks) {
  std::uint64_t aside = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    World world(GetParam(), seed);
    for (int i = 0; i < 300; ++i) world.step();
    std::uint64_t id = 0;
    for (int round = 0; round < 3; ++round) {
      id += 10;
      const auto merged = merge_parts("job", kEpoch, world.checkpoint(id), {});
      ASSERT_TRUE(merged) << merged.error().to_string();
      const std::map<std::uint64_t, float> want = world.expected();
      ASSERT_GT(want.size(), 50u);
      for (const std::uint32_t shards : {1u, 2u, 3u}) {
        auto restored = restore(world, *merged, shards, false);
        const SlotMap map = SlotMap::even(shards, kEpoch);
        std::uint64_t rows = 0;
        for (const auto& shard : restored) rows += shard->core.stats().rows;
        EXPECT_EQ(rows, want.size());
        for (std::uint64_t key = 0; key < kKeys; ++key) {
          const auto it = want.find(key);
          ASSERT_EQ(restored[map.owner[slot_of(kTable, key)].value]->row(key).at(0),
                    it == want.end() ? 0 : it->second)
              << "key " << key << " on " << shards << " shards";
        }
        // The workers go on from the clock that was cut.
        RequestHeader push = restored[0]->push_header(1, WorkerId{1}, world.cut_clock());
        push.client = ClientId{9999};
        std::uint64_t key = 0;
        while (map.owner[slot_of(kTable, key)].value != 0) ++key;
        EXPECT_EQ(restored[0]->one(push, {key}, {1}).header.error, 0);
      }
      world.some_steps();
    }
    world.expect_same_as_without();
    aside = std::max(aside, world.aside_most);
    if (HasFailure()) return;
  }
  EXPECT_GT(aside, 0u) << "no push came between the marks and the writing";
}

TEST_P(CutOracle, APushThatIsInIsKnownToTheWindowsAndOneThatIsOutIsNot) {
  World world(GetParam(), 77);
  for (int i = 0; i < 300; ++i) world.step();
  const auto merged = merge_parts("job", kEpoch, world.checkpoint(1), {});
  ASSERT_TRUE(merged) << merged.error().to_string();
  std::map<ClientId, std::uint64_t> highest;
  for (const Pushed& push : world.pushed()) {
    if (world.is_in(push)) highest[push.client] = push.sequence;
  }
  const std::map<std::uint64_t, float> want = world.expected();
  for (const std::uint32_t shards : {2u, 3u}) {
    auto restored = restore(world, *merged, shards, true);
    const SlotMap map = SlotMap::even(shards, kEpoch);
    const auto shard_of = [&](std::uint64_t key) { return map.owner[slot_of(kTable, key)].value; };
    int again = 0;
    for (const Pushed& push : world.pushed()) {
      if (!world.is_in(push) || push.sequence + 200 < highest[push.client]) continue;
      for (std::uint32_t s = 0; s < shards; ++s) {
        std::vector<std::uint64_t> keys;
        for (const std::uint64_t key : push.keys) {
          if (shard_of(key) == s) keys.push_back(key);
        }
        if (keys.empty()) continue;
        RequestHeader h =
            restored[s]->push_header(push.sequence, WorkerId{push.client.value - 99}, push.clock);
        h.client = push.client;
        const std::vector<float> values(keys.size(), 1000.0f);
        const Reply reply = restored[s]->one(h, keys, values);
        EXPECT_EQ(reply.header.error, 0) << reply.header.context;
        ++again;
      }
    }
    EXPECT_GT(again, 20);
    for (const auto& [key, sum] : want)
      ASSERT_EQ(restored[shard_of(key)]->row(key).at(0), sum) << "a push that is in came again";
    if (GetParam().consistency == Consistency::kSsp) {
      int fresh = 0;
      for (const Pushed& push : world.pushed()) {
        if (world.is_in(push)) continue;
        HandShard& shard = *restored[shard_of(push.keys.at(0))];
        RequestHeader h =
            shard.push_header(push.sequence, WorkerId{push.client.value - 99}, push.clock);
        h.client = push.client;
        const float before = shard.row(push.keys[0]).at(0);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(shard.one(h, {push.keys[0]}, {1000}).header.error, 0);
        EXPECT_EQ(shard.row(push.keys[0]).at(0), before + 1000) << "one that is out is new, once";
        ++fresh;
      }
      EXPECT_GT(fresh, 5);
    }
    if (GetParam().consistency != Consistency::kAsp) continue;
    for (const Worker& w : world.workers()) {
      for (std::uint64_t key = 0; key < 20; ++key) {
        HandShard& shard = *restored[shard_of(key)];
        RequestHeader h = shard.push_header(world.mark_of(w.client) + 1 + key, w.id, 0);
        h.client = w.client;
        const float before = shard.row(key).at(0);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(shard.one(h, {key}, {1000}).header.error, 0);
        EXPECT_EQ(shard.row(key).at(0), before + 1000) << "one that is out is new, once";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, CutOracle,
                         testing::Values(Case{"Bsp", Consistency::kBsp, 0},
                                         Case{"Ssp", Consistency::kSsp, 2},
                                         Case{"Asp", Consistency::kAsp, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- one shard by hand

constexpr WorkerId kA{1}, kB{2};

RequestHeader mark_header(WorkerId worker, std::uint64_t checkpoint, std::uint64_t sequence) {
  RequestHeader h = HandShard::header(Kind::kMark, kTable);
  h.worker = worker;
  h.client = ClientId{worker.value + 1000};
  h.sequence = sequence;
  h.checkpoint = checkpoint;
  return h;
}

using Phase = ShardCore::CutPhase;

TEST(Cut, AClockThatSomebodyHasPassedIsRefusedAndNothingHasBegun) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kSsp, 1, 3));
  ASSERT_EQ(shard.one(shard.clock_header(kA, 2)).header.error, 0);
  const std::uint64_t before = shard.core.digest();
  const Status late = shard.core.begin_cut({1, {{kTable, 2}}, std::chrono::hours(1)}, at(1));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kFailedPrecondition);
  EXPECT_NE(late.error().context.find("clock 2"), std::string::npos) << late.error().context;
  EXPECT_EQ(shard.core.cut().phase, Phase::kNone);
  EXPECT_FALSE(shard.core.begin_cut({1, {}, std::chrono::hours(1)}, at(1))) << "no clock for it";
  EXPECT_FALSE(shard.core.begin_cut({1, {{kTable, 3}, {99, 1}}, std::chrono::hours(1)}, at(1)));
  EXPECT_TRUE(shard.core.begin_cut({1, {{kTable, 3}}, std::chrono::hours(1)}, at(1)));
  EXPECT_TRUE(shard.core.begin_cut({1, {{kTable, 3}}, std::chrono::hours(1)}, at(1))) << "again";
  EXPECT_FALSE(shard.core.begin_cut({2, {{kTable, 3}}, std::chrono::hours(1)}, at(1)));
  EXPECT_EQ(shard.core.digest(), before);
}

TEST(Cut, RepliesTellOfItWhileItWaits) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kBsp));
  EXPECT_EQ(shard.one(shard.clock_header(kA, 1)).header.checkpoint, 0u);
  ASSERT_TRUE(shard.core.begin_cut({9, {{kTable, 2}}, std::chrono::hours(1)}, at(1)));
  const Reply reply = shard.one(shard.push_header(1, kB, 0), {1}, {1});
  EXPECT_EQ(reply.header.checkpoint, 9u);
  EXPECT_EQ(reply.header.cut_clock, 2u);
  shard.one(shard.clock_header(kB, 2));
  EXPECT_EQ(shard.core.cut().phase, Phase::kMarking);
  EXPECT_EQ(shard.one(shard.clock_header(kA, 2)).header.checkpoint, 0u) << "that was the last";
  EXPECT_EQ(shard.core.cut().phase, Phase::kWriting);
}

TEST(Cut, AMarkIsRefusedWhereItWouldNotBeTrue) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kAsp));
  EXPECT_EQ(code(shard.one(mark_header(kA, 1, 0))), Errc::kUnavailable) << "not called here yet";
  ASSERT_EQ(shard.one(shard.push_header(3, kA, 0), {1}, {1}).header.error, 0);
  ASSERT_TRUE(shard.core.begin_cut({1, {}, std::chrono::hours(1)}, at(1)));
  EXPECT_EQ(code(shard.one(mark_header(kA, 1, 2))), Errc::kFailedPrecondition) << "3 has come";
  EXPECT_EQ(code(shard.one(mark_header(kNoWorker, 1, 3))), Errc::kInvalidArgument);
  EXPECT_EQ(shard.one(mark_header(kA, 1, 3)).header.error, 0);
  EXPECT_EQ(shard.one(mark_header(kA, 1, 3)).header.error, 0) << "a retry";
  EXPECT_EQ(code(shard.one(mark_header(kA, 1, 4))), Errc::kFailedPrecondition);
  EXPECT_EQ(shard.core.cut().phase, Phase::kMarking) << "the other worker is missing";
  EXPECT_EQ(shard.one(mark_header(kB, 1, 7)).header.error, 0);
  EXPECT_EQ(shard.core.cut().phase, Phase::kWriting);
  // A second client of a worker: one that has pushed nothing here may be late.
  RequestHeader late = mark_header(kB, 1, 5);
  late.client = ClientId{5};
  EXPECT_EQ(shard.one(late).header.error, 0);
  RequestHeader push = shard.push_header(1, kB, 0);
  push.client = late.client = ClientId{6};
  ASSERT_EQ(shard.one(push, {1}, {1}).header.error, 0);
  EXPECT_EQ(code(shard.one(late)), Errc::kFailedPrecondition);
}

TEST(Cut, MarksThatDoNotComeCancelTheCheckpointAndNotTheTraining) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kAsp));
  ASSERT_TRUE(shard.core.begin_cut({1, {}, std::chrono::seconds(5)}, at(10)));
  ASSERT_EQ(shard.one(mark_header(kA, 1, 0)).header.error, 0);
  ASSERT_EQ(shard.one(shard.push_header(1, kA, 0), {1}, {7}).header.error, 0);
  ASSERT_EQ(shard.core.next_deadline(), at(15));
  Effects effects;
  shard.core.on_tick(at(14), effects);
  EXPECT_EQ(shard.core.cut().phase, Phase::kMarking);
  shard.core.on_tick(at(15), effects);
  EXPECT_EQ(shard.core.cut().phase, Phase::kCancelled);
  EXPECT_FALSE(shard.core.cut().why.empty());
  EXPECT_EQ(shard.core.next_deadline(), std::nullopt);
  EXPECT_EQ(shard.row(1).at(0), 7);
  EXPECT_EQ(code(shard.one(mark_header(kB, 1, 0))), Errc::kFailedPrecondition);
  EXPECT_TRUE(shard.core.begin_cut({2, {}, std::chrono::seconds(5)}, at(20)));
}

TEST(Cut, CopiesBeyondTheirBoundCancelItWhileMarksAreMissingAndPressAfterwards) {
  for (const bool marked : {false, true}) {
    HandShard shard(marked ? 1 : 2, SlotMap::even(1, kEpoch), ShardId{0}, {.aside_bytes_max = 200});
    shard.create(sum_table(Consistency::kAsp));
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < 10; ++key) keys.push_back(key);
    const std::vector<float> ones(keys.size(), 1.0f);
    ASSERT_EQ(shard.one(shard.push_header(1, kA, 0), keys, ones).header.error, 0);
    ASSERT_TRUE(shard.core.begin_cut({1, {}, std::chrono::hours(1)}, at(1)));
    ASSERT_EQ(shard.one(mark_header(kA, 1, 1)).header.error, 0);
    ASSERT_EQ(shard.one(shard.push_header(2, kA, 0), keys, ones).header.error, 0);
    EXPECT_EQ(shard.core.cut().phase, marked ? Phase::kWriting : Phase::kCancelled);
    EXPECT_EQ(shard.core.cut().pressing, marked);
    EXPECT_EQ(shard.row(1).at(0), 2);
    if (!marked) continue;
    std::vector<Block> blocks;
    while (shard.core.cut().phase == Phase::kWriting) shard.core.write_cut(1, blocks);
    EXPECT_EQ(shard.core.cut().aside_bytes, 0u);
    EXPECT_EQ(shard.core.part_info().tables.at(0).rows, 10u);
  }
}

TEST(Cut, AWorkerThatDiesIsWaitedForNoLonger) {
  for (const Consistency consistency : {Consistency::kAsp, Consistency::kBsp}) {
    HandShard shard(2);
    shard.create(sum_table(consistency));
    ASSERT_EQ(shard.one(shard.push_header(1, kB, 0), {1}, {1}).header.error, 0);
    const bool clocks = consistency == Consistency::kBsp;
    CutPlan plan{1, {}, std::chrono::hours(1)};
    if (clocks) plan.clocks = {{kTable, 1}};
    ASSERT_TRUE(shard.core.begin_cut(plan, at(1)));
    ASSERT_EQ(shard.one(clocks ? shard.clock_header(kA, 1) : mark_header(kA, 1, 0)).header.error,
              0);
    EXPECT_EQ(shard.core.cut().phase, Phase::kMarking);
    Effects effects;
    shard.core.on_worker_left(kB, at(2), effects);
    EXPECT_EQ(shard.core.cut().phase, Phase::kWriting);
  }
}

TEST(Cut, WhatDoesNotBelongIsRefusedWhenAShardIsRestored) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kAsp));
  ASSERT_EQ(shard.one(shard.push_header(1, kA, 0), {1, 2, 3}, {1, 2, 3}).header.error, 0);
  ASSERT_TRUE(shard.core.begin_cut({1, {}, std::chrono::hours(1)}, at(1)));
  ASSERT_EQ(shard.one(mark_header(kA, 1, 1)).header.error, 0);
  std::vector<Block> blocks;
  shard.core.write_cut(1 << 20, blocks);
  PartInfo part = shard.core.part_info();
  part.file = "shard-0";
  const auto manifest = merge_parts("job", kEpoch, {part}, {});
  ASSERT_TRUE(manifest) << manifest.error().to_string();
  ASSERT_GE(blocks.size(), 2u);
  ASSERT_EQ(blocks[0].header.n, 3u);

  EXPECT_EQ(shard.core.begin_restore(*manifest, false, at(1)).error().code,
            Errc::kFailedPrecondition)
      << "it has done something";
  HandShard fresh(1);
  EXPECT_FALSE(fresh.core.restore_block(0, blocks[0].header, blocks[0].raw)) << "not begun";
  ASSERT_TRUE(fresh.core.begin_restore(*manifest, false, at(1)));
  EXPECT_EQ(code(fresh.one(fresh.push_header(1, kA, 0), {1}, {1})), Errc::kUnavailable);
  EXPECT_FALSE(fresh.core.restore_block(1, blocks[0].header, blocks[0].raw)) << "no such part";
  BlockHeader other = blocks[0].header;
  other.table = 77;
  EXPECT_EQ(fresh.core.restore_block(0, other, blocks[0].raw).error().code, Errc::kCorrupt);
  std::string raw = blocks[0].raw;
  raw[8] = static_cast<char>(0x7f);  // a version beyond the cut
  raw[14] = 1;
  EXPECT_EQ(fresh.core.restore_block(0, blocks[0].header, raw).error().code, Errc::kCorrupt);
  ASSERT_TRUE(fresh.core.restore_block(0, blocks[0].header, blocks[0].raw));
  EXPECT_EQ(fresh.core.restore_block(0, blocks[0].header, blocks[0].raw).error().code,
            Errc::kCorrupt)
      << "a second time";
  ASSERT_TRUE(fresh.core.end_restore());
  EXPECT_EQ(fresh.row(3).at(0), 3);
  EXPECT_EQ(fresh.core.stats().log_sequence, part.log_sequence);
}

}  // namespace
}  // namespace dlrun::ps
