#include "ps/client/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_set>

namespace dlrun::ps {
namespace {

constexpr std::size_t kKeys = 1'000'000;

std::vector<std::uint64_t> sequential() {
  std::vector<std::uint64_t> keys(kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) keys[i] = i;
  return keys;
}
std::vector<std::uint64_t> strided() {
  std::vector<std::uint64_t> keys(kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) keys[i] = i << 20;
  return keys;
}
std::vector<std::uint64_t> clustered() {
  SplitMix64 rng(1);
  std::vector<std::uint64_t> keys;
  while (keys.size() < kKeys) {
    const std::uint64_t base = rng.next() & ~0xfffull;
    for (std::uint64_t i = 0; i < 1000; ++i) keys.push_back(base + i);
  }
  return keys;
}
/// The distinct ids of a Zipf stream (inverse transform of the continuous power law, exponent 1.1).
std::vector<std::uint64_t> zipf() {
  SplitMix64 rng(2);
  std::unordered_set<std::uint64_t> seen;
  while (seen.size() < kKeys)
    seen.insert(static_cast<std::uint64_t>(std::min(std::pow(1 - rng.uniform(), -10.0), 4e18)));
  return {seen.begin(), seen.end()};
}

TEST(SlotMap, SpreadsAMillionKeysEvenlyOverUpTo16Shards) {
  const std::vector<std::pair<const char*, std::vector<std::uint64_t>>> sets = {
      {"sequential", sequential()},
      {"strided", strided()},
      {"clustered", clustered()},
      {"zipf", zipf()}};
  for (const auto& [name, keys] : sets) {
    ASSERT_GE(keys.size(), kKeys);
    for (const std::uint32_t shards : {1u, 2u, 3u, 5u, 7u, 8u, 11u, 16u}) {
      const SlotMap map = SlotMap::even(shards, {1, 1});
      std::vector<std::uint64_t> count(shards);
      for (const std::uint64_t key : keys) ++count[map.owner[slot_of(3, key)].value];
      const double mean = static_cast<double>(keys.size()) / shards;
      EXPECT_LE(*std::max_element(count.begin(), count.end()) / mean, 1.1)
          << name << " over " << shards << " shards";
    }
  }
}

TEST(SlotMap, TheSameSmallKeysOfManyTablesSpreadToo) {
  std::set<std::uint32_t> slots;
  for (std::uint32_t table = 1; table <= 100; ++table)
    slots.insert(slot_of(table_id("t" + std::to_string(table)), 0));
  EXPECT_GT(slots.size(), 90u);
}

TEST(Partition, EveryPlaceOfAPullIsAskedForOnceAndSegmentsKeepTheirSize) {
  SplitMix64 rng(5);
  TableSchema schema{.id = 3, .name = "t", .dim = 10};
  const SlotMap map = SlotMap::even(5, {1, 1});
  for (int round = 0; round < 20; ++round) {
    std::vector<std::uint64_t> keys(rng.below(5000));
    for (auto& key : keys) key = rng.below(2) == 0 ? rng.below(100) : rng.next();
    const auto segments = cut_pull(schema, map, keys, {.segment_bytes_max = 4800});
    std::vector<int> asked(keys.size());
    std::set<std::uint64_t> distinct;
    for (const Segment& s : segments) {
      EXPECT_LE(s.keys.size(), 100u);
      for (const std::uint64_t key : s.keys) {
        EXPECT_EQ(map.owner[slot_of(3, key)], s.shard);
        EXPECT_TRUE(distinct.insert(key).second) << "asked twice";
      }
      for (const auto& [index, row] : s.targets) {
        EXPECT_EQ(s.keys[index], keys[row]);
        ++asked[row];
      }
    }
    EXPECT_TRUE(std::all_of(asked.begin(), asked.end(), [](int n) { return n == 1; }));
  }
}

TEST(Partition, SumsDuplicatesOfAPush) {
  SplitMix64 rng(6);
  TableSchema schema{.id = 3, .name = "t", .dim = 2};
  const SlotMap map = SlotMap::even(3, {1, 1});
  std::vector<std::uint64_t> keys;
  std::vector<float> grads;
  std::map<std::uint64_t, std::pair<float, float>> want;
  for (int i = 0; i < 3000; ++i) {
    keys.push_back(rng.below(500));
    grads.push_back(static_cast<float>(i % 7));
    grads.push_back(1);
    want[keys.back()].first += static_cast<float>(i % 7);
    want[keys.back()].second += 1;
  }
  std::map<std::uint64_t, std::pair<float, float>> got;
  for (const Segment& s : cut_push(schema, map, keys, grads, {.segment_bytes_max = 1600})) {
    for (std::size_t i = 0; i < s.keys.size(); ++i) {
      EXPECT_TRUE(got.emplace(s.keys[i], std::pair{s.values[2 * i], s.values[2 * i + 1]}).second);
    }
  }
  EXPECT_EQ(got, want);
}

TEST(Partition, ASegmentCutAgainUnderANewMapLosesNothing) {
  SplitMix64 rng(7);
  TableSchema schema{.id = 3, .name = "t", .dim = 3};
  std::vector<std::uint64_t> keys(2000);
  for (auto& key : keys) key = rng.below(1500);
  std::vector<float> grads(keys.size() * 3);
  for (auto& g : grads) g = static_cast<float>(rng.below(100));
  SlotMap moved = SlotMap::even(4, {1, 2});
  for (auto& owner : moved.owner) owner = ShardId{static_cast<std::uint32_t>(rng.below(4))};
  for (const Segment& whole : cut_push(schema, SlotMap::even(4, {1, 1}), keys, grads, {})) {
    std::map<std::uint64_t, std::vector<float>> before, after;
    for (std::size_t i = 0; i < whole.keys.size(); ++i) {
      before[whole.keys[i]] = {whole.values.begin() + 3 * i, whole.values.begin() + 3 * i + 3};
    }
    std::set<std::uint32_t> shards;
    for (const Segment& part : recut(schema.id, schema.dim, moved, whole)) {
      EXPECT_TRUE(shards.insert(part.shard.value).second)
          << "two parts with one sequence at one shard";
      for (std::size_t i = 0; i < part.keys.size(); ++i) {
        EXPECT_EQ(moved.owner[slot_of(3, part.keys[i])], part.shard);
        after[part.keys[i]] = {part.values.begin() + 3 * i, part.values.begin() + 3 * i + 3};
      }
    }
    EXPECT_EQ(before, after);
  }
  for (const Segment& whole : cut_pull(schema, SlotMap::even(4, {1, 1}), keys, {})) {
    std::set<std::pair<std::uint64_t, std::uint32_t>> before, after;
    for (const auto& [index, row] : whole.targets) before.emplace(whole.keys[index], row);
    for (const Segment& part : recut(schema.id, schema.dim, moved, whole)) {
      for (const auto& [index, row] : part.targets) after.emplace(part.keys[index], row);
    }
    EXPECT_EQ(before, after);
  }
}

TEST(Partition, KeysInOrderForOneShardAreStretchesOfTheCallersArrays) {
  TableSchema schema{.id = 3, .name = "t", .dim = 3};
  std::vector<std::uint64_t> keys(1000);
  std::vector<float> grads(keys.size() * 3);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = 7 * i;
  for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = static_cast<float>(i);
  const SlotMap one = SlotMap::even(1, {1, 1});
  SlotMap two = SlotMap::even(2, {1, 2});
  for (const bool borrow : {true, false}) {
    const CutRule rule{.segment_bytes_max = 2000, .only = ShardId{0}, .borrow = borrow};
    std::size_t at = 0;
    for (const Segment& s : cut_push(schema, one, keys, grads, rule)) {
      ASSERT_LE(s.keys.size(), 100u);
      EXPECT_EQ(s.keys.data() == keys.data() + at, borrow);
      EXPECT_EQ(s.values.data() == grads.data() + 3 * at, borrow);
      EXPECT_TRUE(std::equal(s.keys.begin(), s.keys.end(), keys.begin() + at));
      EXPECT_TRUE(std::equal(s.values.begin(), s.values.end(), grads.begin() + 3 * at));
      at += s.keys.size();
    }
    EXPECT_EQ(at, keys.size());
    // Each key of a pull has one row, also after the map has changed.
    std::vector<int> asked(keys.size());
    for (const Segment& s : cut_pull(schema, one, keys, rule)) {
      EXPECT_EQ(s.keys.data() == keys.data() + s.first_row, borrow);
      for (const Segment& part : recut(schema.id, schema.dim, two, s)) {
        part.for_each_target([&](std::uint32_t index, std::uint32_t row) {
          EXPECT_EQ(part.keys[index], keys[row]);
          ++asked[row];
        });
      }
    }
    EXPECT_TRUE(std::all_of(asked.begin(), asked.end(), [](int n) { return n == 1; }));
  }
  // A key that comes twice cannot be borrowed.
  keys[5] = keys[4];
  const CutRule rule{.segment_bytes_max = 2000, .only = ShardId{0}, .borrow = true};
  for (const Segment& s : cut_push(schema, one, keys, grads, rule))
    EXPECT_EQ(s.keys.data(), s.own_keys.data());
}

}  // namespace
}  // namespace dlrun::ps
