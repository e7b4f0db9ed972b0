// Slots that move between two shards while pushes are tried, lost and tried again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/ps/shard_helper.h"

namespace dlrun::ps {
namespace {

using testing::ElementsAre;

constexpr WorkerId kA{1}, kB{2};

class TwoShards {
 public:
  explicit TwoShards(std::uint32_t workers) {
    for (std::uint32_t s = 0; s < 2; ++s)
      shards.push_back(std::make_unique<HandShard>(workers, map, ShardId{s}));
  }
  void create(const TableSchema& schema) {
    for (auto& s : shards) s->create(schema);
  }
  /// Snapshot at the old owner, new map at both, then the slot at its new owner. Returns what was
  /// parked.
  std::vector<Reply> move(const std::vector<std::uint32_t>& slots) {
    std::vector<SlotImage> images;
    for (const std::uint32_t slot : slots) {
      images.push_back(shards[map.owner[slot].value]->core.export_slot(slot));
      map.owner[slot] = ShardId{1 - map.owner[slot].value};
    }
    ++map.epoch.counter;
    Effects effects;
    for (auto& s : shards) EXPECT_TRUE(s->core.install_map(map, at(1), effects));
    for (const SlotImage& image : images) {
      const auto status =
          shards[map.owner[image.slot].value]->core.import_slot(image, at(1), effects);
      EXPECT_TRUE(status) << status.error().to_string();
    }
    return HandShard::replies(effects);
  }
  /// One push, cut by the present map; the parts for which `lost` says so have their replies
  /// dropped. true: all acknowledged.
  template <class Lost>
  bool push(RequestHeader header, const std::vector<std::uint64_t>& keys,
            const std::vector<float>& grads, Lost lost) {
    bool all = true;
    for (std::uint32_t s = 0; s < 2; ++s) {
      std::vector<std::uint64_t> part_keys;
      std::vector<float> part_grads;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (map.owner[slot_of(header.table, keys[i])].value != s) continue;
        part_keys.push_back(keys[i]);
        part_grads.push_back(grads[i]);
      }
      if (part_keys.empty()) continue;
      if (lost()) {  // on the way there
        all = false;
        continue;
      }
      header.epoch = map.epoch;
      const Reply reply = shards[s]->one(header, part_keys, part_grads);
      EXPECT_EQ(reply.header.error, 0) << reply.header.context;
      if (lost()) all = false;
    }
    return all;
  }
  float value(std::uint64_t key) {
    RequestHeader h = HandShard::header(Kind::kPull);
    h.epoch = map.epoch;
    h.dim = 1;
    return shards[map.owner[slot_of(5, key)].value]->one(h, {key}).values.at(0);
  }
  std::vector<Reply> clock(WorkerId worker, std::uint64_t clock) {
    std::vector<Reply> all;
    for (auto& s : shards) {
      RequestHeader h = s->clock_header(worker, clock);
      h.epoch = map.epoch;
      for (Reply& r : s->ask(h)) all.push_back(std::move(r));
    }
    return all;
  }

  SlotMap map = SlotMap::even(2, kEpoch);
  std::vector<std::unique_ptr<HandShard>> shards;
};

TEST(SlotMove, ARetryAfterTheMoveAppliesOnce) {
  TwoShards two(1);
  two.create(sum_table(Consistency::kAsp));
  const std::uint64_t key = 123;
  const std::uint32_t slot = slot_of(5, key);
  const RequestHeader push = two.shards[0]->push_header(1, kA, 0);
  // applied, reply lost
  EXPECT_FALSE(two.push(push, {key}, {7}, [n = 0]() mutable { return n++ == 1; }));
  two.move({slot});
  EXPECT_TRUE(two.push(push, {key}, {7}, [] { return false; }));
  EXPECT_EQ(two.value(key), 7);
  two.move({slot});
  EXPECT_TRUE(two.push(push, {key}, {7}, [] { return false; }));
  EXPECT_EQ(two.value(key), 7);
}

TEST(SlotMove, TheOldOwnerAndTheOldEpochAreRefused) {
  TwoShards two(1);
  two.create(sum_table(Consistency::kAsp));
  std::uint64_t key = 0;
  while (two.map.owner[slot_of(5, key)].value != 0) ++key;
  RequestHeader h = two.shards[0]->push_header(1, kA, 0);
  EXPECT_EQ(code(two.shards[1]->one(h, {key}, {1})), Errc::kStaleEpoch);  // not its slot
  two.move({slot_of(5, key)});
  const Reply stale = two.shards[1]->one(h, {key}, {1});
  EXPECT_EQ(code(stale), Errc::kStaleEpoch);  // old epoch
  EXPECT_EQ(stale.header.epoch, two.map.epoch);
  h.epoch = two.map.epoch;
  EXPECT_EQ(code(two.shards[0]->one(h, {key}, {1})), Errc::kStaleEpoch);
  EXPECT_EQ(two.value(key), 0);
}

TEST(SlotMove, ASlotServesOnlyOnceItsRowsHaveArrived) {
  TwoShards two(1);
  two.create(sum_table(Consistency::kAsp));
  std::uint64_t key = 0;
  while (two.map.owner[slot_of(5, key)].value != 0) ++key;
  const std::uint32_t slot = slot_of(5, key);
  two.map.owner[slot] = ShardId{1};
  ++two.map.epoch.counter;
  const SlotImage image = two.shards[0]->core.export_slot(slot);
  Effects effects;
  ASSERT_TRUE(two.shards[1]->core.install_map(two.map, at(1), effects));
  RequestHeader h = two.shards[1]->push_header(1, kA, 0);
  h.epoch = two.map.epoch;
  EXPECT_EQ(code(two.shards[1]->one(h, {key}, {1})), Errc::kUnavailable);
  ASSERT_TRUE(two.shards[1]->core.import_slot(image, at(1), effects));
  EXPECT_EQ(two.shards[1]->one(h, {key}, {1}).header.error, 0);
  EXPECT_EQ(two.shards[1]->core.import_slot(image, at(1), effects).error().code,
            Errc::kFailedPrecondition);
}

TEST(SlotMove, ASlotWithMoreClientsThanTheShardMayHaveIsRefusedAndChangesNothing) {
  SlotMap map = SlotMap::even(2, kEpoch);
  HandShard from(1, map, ShardId{0});
  HandShard to(1, map, ShardId{1}, {.clients_max = 2});
  for (HandShard* shard : {&from, &to}) shard->create(sum_table(Consistency::kAsp));
  std::uint64_t key = 0;
  while (map.owner[slot_of(5, key)].value != 0) ++key;
  for (std::uint64_t client = 1; client <= 2; ++client) {
    RequestHeader h = from.push_header(1, kA, 0);
    h.client = ClientId{client};
    ASSERT_EQ(from.one(h, {key}, {1}).header.error, 0);
  }
  const std::uint32_t slot = slot_of(5, key);
  std::uint64_t own = 0;
  while (map.owner[slot_of(5, own)].value != 1) ++own;
  RequestHeader h = to.push_header(1, kA, 0);
  h.client = ClientId{3};
  ASSERT_EQ(to.one(h, {own}, {1}).header.error, 0);
  const SlotImage image = from.core.export_slot(slot);
  ASSERT_GE(image.windows.size(), 2u);
  map.owner[slot] = ShardId{1};
  ++map.epoch.counter;
  Effects effects;
  ASSERT_TRUE(to.core.install_map(map, at(1), effects));
  const std::uint64_t before = to.core.digest();
  const Status refused = to.core.import_slot(image, at(1), effects);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kOverloaded);
  EXPECT_NE(refused.error().context.find("its most are 2"), std::string::npos);
  EXPECT_EQ(to.core.digest(), before);
}

TEST(SlotMove, ATableThatComesWithASlotGoesOnEvictingWhereItWas) {
  SlotMap map = SlotMap::even(2, kEpoch);
  HandShard from(1, map, ShardId{0});
  HandShard to(1, map, ShardId{1});
  TableSchema schema = sum_table(Consistency::kAsp);
  schema.eviction = Eviction::kLru;
  schema.budget_bytes = 3600;
  from.create(schema);
  std::uint64_t key = 0;
  for (std::uint64_t sequence = 1; sequence <= 300; ++key) {
    if (map.owner[slot_of(5, key)].value != 0) continue;
    ASSERT_EQ(from.one(from.push_header(sequence++, kA, 0), {key}, {1}).header.error, 0);
  }
  while (map.owner[slot_of(5, key)].value != 0) ++key;
  const std::uint32_t slot = slot_of(5, key);
  const SlotImage image = from.core.export_slot(slot);
  ASSERT_NE(image.tables[0].hand, 0u);
  map.owner[slot] = ShardId{1};
  ++map.epoch.counter;
  Effects effects;
  ASSERT_TRUE(to.core.install_map(map, at(1), effects));
  ASSERT_TRUE(to.core.import_slot(image, at(1), effects));
  EXPECT_EQ(to.core.export_slot(slot).tables[0].hand, image.tables[0].hand);
}

TEST(SlotMove, ParkedPullsAreSentBackToRefetchTheMap) {
  TwoShards two(2);
  two.create(sum_table(Consistency::kBsp));
  std::uint64_t key = 0;
  while (two.map.owner[slot_of(5, key)].value != 0) ++key;
  two.clock(kA, 1);
  EXPECT_TRUE(two.shards[0]->ask(two.shards[0]->pull_header(kA, 1), {key}, {}, 11).empty());
  const auto replies = two.move({slot_of(5, key)});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].asker, 11u);
  EXPECT_EQ(code(replies[0]), Errc::kStaleEpoch);
}

TEST(SlotMove, PushesOfAnOpenClockMoveWithTheirSlot) {
  TwoShards two(2);
  two.create(sum_table(Consistency::kBsp));
  const std::vector<std::uint64_t> keys = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> ones(8, 1.0f);
  const auto none = [] { return false; };
  ASSERT_TRUE(two.push(two.shards[0]->push_header(1, kA, 0), keys, ones, none));
  two.move({slot_of(5, 1), slot_of(5, 2), slot_of(5, 3)});
  ASSERT_TRUE(two.push(two.shards[0]->push_header(1, kB, 0), keys, ones, none));
  two.clock(kA, 1);
  two.move({slot_of(5, 3), slot_of(5, 4)});
  for (const std::uint64_t key : keys) EXPECT_EQ(two.value(key), 0);
  two.clock(kB, 1);
  for (const std::uint64_t key : keys) EXPECT_EQ(two.value(key), 2);
}

// One push cut under the first map, whose keys come to the same shard one move after the other,
// each part under the number of the whole.
TEST(SlotMove, PartsOfOnePushThatMeetAtAShardAllApply) {
  for (const bool known_before : {false, true}) {
    for (const bool slow : {false, true}) {
      TwoShards two(2);
      two.create(sum_table(Consistency::kAsp));
      std::vector<std::uint64_t> at_one;
      for (std::uint64_t key = 0; at_one.size() < 3; ++key) {
        if (two.map.owner[slot_of(5, key)].value == 1) at_one.push_back(key);
      }
      const auto lost = [] { return true; };
      const auto none = [] { return false; };
      const auto header = [&](std::uint64_t sequence) {
        return two.shards[0]->push_header(sequence, kA, 0);
      };
      std::uint64_t elsewhere = 0;
      while (two.map.owner[slot_of(5, elsewhere)].value != 0) ++elsewhere;
      if (known_before) {
        ASSERT_TRUE(two.push(header(1), {elsewhere}, {1}, none));
      }
      ASSERT_FALSE(two.push(header(200), {at_one[0], at_one[1]}, {5, 7}, lost));
      two.move({slot_of(5, at_one[0])});
      // A younger one that arrives first, as others of the same window may.
      ASSERT_TRUE(two.push(header(400), {at_one[0], elsewhere}, {100, 1}, none));
      if (!slow) {
        ASSERT_TRUE(two.push(header(200), {at_one[0]}, {5}, none));
      }
      two.move({slot_of(5, at_one[1])});
      ASSERT_TRUE(two.push(header(200), {at_one[1]}, {7}, none));
      ASSERT_TRUE(two.push(header(200), {at_one[0]}, {5}, none));
      ASSERT_TRUE(two.push(header(200), {at_one[1]}, {7}, none)) << "a retry";
      EXPECT_EQ(two.value(at_one[0]), 105);
      EXPECT_EQ(two.value(at_one[1]), 7);
      // Long after, the slots that came are like the others.
      for (std::uint64_t q = 401; q < 1200; ++q)
        ASSERT_TRUE(two.push(header(q), {at_one[0]}, {1}, none));
      ASSERT_TRUE(two.push(header(1199), {at_one[0]}, {1}, none));
      EXPECT_EQ(two.value(at_one[0]), 105 + 799);
    }
  }
}

TEST(SlotMove, RandomMovesLossesAndRetriesApplyEveryPushOnce) {
  for (const Consistency consistency : {Consistency::kAsp, Consistency::kBsp}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      SplitMix64 rng(seed);
      TwoShards two(2);
      two.create(sum_table(consistency));
      std::map<std::uint64_t, float> want;
      std::map<std::uint64_t, std::uint64_t> sequences, clocks;
      for (int step = 0; step < 60; ++step) {
        const WorkerId worker = rng.below(2) == 0 ? kA : kB;
        std::vector<std::uint64_t> keys;
        std::vector<float> grads;
        for (std::uint64_t k = 0; k < 10; ++k) {
          if (rng.below(2) == 0) continue;
          keys.push_back(k);
          grads.push_back(static_cast<float>(1 + rng.below(5)));
          want[k] += grads.back();
        }
        const RequestHeader push =
            two.shards[0]->push_header(++sequences[worker.value], worker, clocks[worker.value]);
        const auto lost = [&] { return rng.below(3) == 0; };
        for (int tries = 0; !two.push(push, keys, grads, lost); ++tries) {
          ASSERT_LT(tries, 200);
          std::set<std::uint32_t> slots;
          for (std::uint64_t n = rng.below(4); n > 0; --n) slots.insert(slot_of(5, rng.below(10)));
          two.move({slots.begin(), slots.end()});
        }
        if (rng.below(3) == 0) two.clock(worker, ++clocks[worker.value]);
      }
      for (const WorkerId worker : {kA, kB}) two.clock(worker, 1000);
      for (const auto& [key, sum] : want)
        ASSERT_EQ(two.value(key), sum) << "seed " << seed << " key " << key;
    }
  }
}

}  // namespace
}  // namespace dlrun::ps
