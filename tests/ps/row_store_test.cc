#include "ps/core/row_store.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ps/core/msg.h"

namespace dlrun::ps {
namespace {

constexpr std::uint32_t kTable = 1;

std::vector<std::uint64_t> keys_of(const RowStore& store, std::uint32_t slot) {
  std::vector<std::uint64_t> keys;
  store.index().for_each(slot, [&](RowId row) { keys.push_back(store.header(row).key); });
  return keys;
}

/// Keys that all live in one slot, found by trying.
std::vector<std::uint64_t> keys_in_slot(std::uint32_t slot, std::size_t n) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < n; ++key) {
    if (slot_of(kTable, key) == slot) keys.push_back(key);
  }
  return keys;
}

TEST(RowStore, TakesEveryKeyIncludingTheFirstAndTheLast) {
  RowStore store(kTable, 1);
  const std::vector<std::uint64_t> keys = {0,         1,          ~0ull,
                                           ~0ull - 1, 1ull << 63, 0x8000000080000000ull};
  for (const auto key : keys) EXPECT_EQ(store.find(key), kNoRow);
  for (const auto key : keys) *store.data(store.add(key)) = static_cast<float>(key % 1000);
  for (const auto key : keys) {
    ASSERT_NE(store.find(key), kNoRow);
    EXPECT_EQ(store.header(store.find(key)).key, key);
    EXPECT_EQ(*store.data(store.find(key)), static_cast<float>(key % 1000));
  }
  EXPECT_EQ(store.find(2), kNoRow);
}

TEST(RowStore, AFreedRowComesBackZeroed) {
  RowStore store(kTable, 4);
  for (const bool whole_slot : {false, true}) {
    const RowId row = store.add(5);
    for (int i = 0; i < 4; ++i) store.data(row)[i] = 1e38f;
    store.header(row).frequency = 9;
    store.header(row).version = 7;
    whole_slot ? store.erase_slot(slot_of(kTable, 5)) : store.erase(row);
    EXPECT_EQ(store.find(5), kNoRow);
    EXPECT_EQ(store.rows(), 0u);
    const RowId again = store.add(6);
    EXPECT_EQ(again, row);
    EXPECT_EQ(store.header(again).frequency, 0u);
    EXPECT_EQ(store.header(again).version, 0u);
    EXPECT_EQ(store.header(again).next_free, 0u);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(store.data(again)[i], 0.0f);
    store.erase(again);
  }
}

TEST(RowStore, TwoKeysOfOneFingerprintAreTwoRows) {
  // The hash is a bijection: any slot and fingerprint with other low bits is another key's.
  const std::uint64_t wanted = 0x123456789abcde00ull;
  std::vector<std::uint64_t> hashes = {wanted | 1, wanted | 2, wanted | 3};
  RowStore store(kTable, 1);
  std::map<std::uint64_t, RowId> rows;
  for (std::uint64_t i = 0; i < hashes.size(); ++i) rows[100 + i] = store.add(100 + i, hashes[i]);
  for (std::uint64_t i = 0; i < hashes.size(); ++i)
    EXPECT_EQ(store.find(100 + i, hashes[i]), rows[100 + i]);
  EXPECT_EQ(store.find(99, wanted), kNoRow);
  EXPECT_NE(store.index().candidate(wanted), kNoRow);
}

// Half of the keys live in a few slots, so that erasing shifts through long probe runs.
TEST(RowStore, AgreesWithAMapUnderRandomOperations) {
  std::vector<std::uint64_t> crowded;
  for (const std::uint32_t slot : {0u, 1u, 4095u}) {
    for (const auto key : keys_in_slot(slot, 60)) crowded.push_back(key);
  }
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SplitMix64 rng(seed);
    RowStore store(kTable, 3);
    std::map<std::uint64_t, float> model;
    for (int step = 0; step < 4000; ++step) {
      const std::uint64_t key =
          rng.below(2) == 0 ? crowded[rng.below(crowded.size())] : ~rng.below(600);
      const std::uint64_t what = rng.below(40);
      if (what == 0) {
        const auto gone = slot_of(kTable, key);
        store.erase_slot(gone);
        std::erase_if(model, [&](const auto& e) { return slot_of(kTable, e.first) == gone; });
      } else if (what < 12) {
        if (const RowId row = store.find(key); row != kNoRow) store.erase(row);
        model.erase(key);
      } else {
        RowId row = store.find(key);
        ASSERT_EQ(row != kNoRow, model.contains(key)) << "seed " << seed << " step " << step;
        if (row == kNoRow) row = store.add(key);
        store.data(row)[2] += 1.0f;
        model[key] += 1.0f;
      }
      ASSERT_EQ(store.rows(), model.size());
    }
    std::map<std::uint64_t, float> listed;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      const auto keys = keys_of(store, slot);
      EXPECT_EQ(keys.size(), store.rows_of_slot(slot));
      for (const auto key : keys) {
        EXPECT_EQ(slot_of(kTable, key), slot);
        listed[key] = store.data(store.find(key))[2];
      }
    }
    EXPECT_EQ(listed, model) << "seed " << seed;
  }
}

TEST(RowStore, MemoryStaysFlatWhenRowsComeAndGo) {
  RowStore store(kTable, 16);
  std::uint64_t key = 0;
  std::uint64_t bytes = 0;
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t first = key;
    for (int i = 0; i < 20000; ++i, ++key) store.add(key);
    if (round == 3) bytes = store.bytes();
    if (round % 2 == 0) {
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) store.erase_slot(slot);
    } else {
      for (std::uint64_t k = first; k < key; ++k) store.erase(store.find(k));
    }
  }
  // Other keys fill other slots a little more: an index here and there doubles once more.
  EXPECT_LE(store.bytes(), bytes * 21 / 20);
}

TEST(RowStore, APayloadOf256BytesTakesAtMostAQuarterMore) {
  RowStore store(kTable, 64);
  for (std::uint64_t key = 0; key < 200'000; ++key) store.add(key * 7919);
  EXPECT_LE(static_cast<double>(store.bytes()) / (200'000 * 256.0), 1.25);
}

TEST(SlotIndex, TheHandGoesRoundEveryRowOnce) {
  RowStore store(kTable, 1);
  std::set<RowId> all;
  for (std::uint64_t key = 0; key < 500; ++key) all.insert(store.add(key));
  std::vector<RowId> rows;
  for (int round = 0; round < 3; ++round) {
    std::multiset<RowId> seen;
    while (seen.size() < 500) {
      store.index().next_rows(
          static_cast<std::uint32_t>(std::min<std::size_t>(64, 500 - seen.size())), rows);
      seen.insert(rows.begin(), rows.end());
    }
    EXPECT_EQ(std::set<RowId>(seen.begin(), seen.end()), all);
    EXPECT_EQ(seen.size(), 500u);
  }
  for (int i = 0; i < 20; ++i) {  // more than there are: each once, wherever the hand stands
    store.index().next_rows(7, rows);
    store.index().next_rows(100'000, rows);
    EXPECT_EQ(std::set<RowId>(rows.begin(), rows.end()), all);
    EXPECT_EQ(rows.size(), all.size());
  }
  RowStore empty(kTable, 1);
  empty.index().next_rows(10, rows);
  EXPECT_TRUE(rows.empty());
}

TEST(SlotIndex, TheHandGoesByFingerprintHoweverTheSlotGrew) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SplitMix64 rng(seed);
    const std::uint64_t n = 1 + rng.below(200);
    std::map<std::uint64_t, std::size_t> by_hash;  // of slot 3 alone: hash bits -> number of rows
    SlotIndex grown, shrunk;
    std::vector<std::pair<std::uint64_t, RowId>> rows;
    for (RowId row = 0; row < n; ++row) {
      // Many at the end of the table, where entries go round to its beginning; some equal.
      const std::uint64_t fingerprint =
          rng.below(3) == 0 ? 0xfffffff0 + rng.below(16) : rng.next() & 0xffffffff;
      rows.emplace_back(std::uint64_t{3} << 52 | fingerprint << 20, row);
      ++by_hash[fingerprint];
      grown.add(rows.back().first, row);
    }
    for (RowId row = 0; row < 900; ++row)
      shrunk.add(std::uint64_t{3} << 52 | mix64(row) >> 12, 5000 + row);
    for (auto it = rows.rbegin(); it != rows.rend(); ++it) shrunk.add(it->first, it->second);
    for (RowId row = 0; row < 900; ++row)
      shrunk.remove(std::uint64_t{3} << 52 | mix64(row) >> 12, 5000 + row);
    grown.set_hand(std::uint64_t{3} << 32 | (rows[0].first >> 20 & 0xffffffff));
    shrunk.set_hand(grown.hand());
    for (int i = 0; i < 40; ++i) {
      const auto want = static_cast<std::uint32_t>(1 + rng.below(n + 3));
      std::vector<RowId> a, b;
      const std::uint64_t before = grown.hand();
      grown.next_rows(want, a);
      shrunk.next_rows(want, b);
      ASSERT_EQ(grown.hand(), shrunk.hand()) << "seed " << seed;
      // By the definition: whole groups of equal fingerprints from the hand on, round once.
      std::multiset<std::uint64_t> expected, got;
      std::size_t left = want;
      const std::uint64_t from = (before >> 32) == 3  ? before & 0xffffffff
                                 : (before >> 32) > 3 ? 1ull << 32
                                                      : 0;
      for (int lap = 0; lap < 2; ++lap) {
        for (const auto& [fingerprint, count] : by_hash) {
          if ((fingerprint >= from) != (lap == 0) || left == 0) continue;
          for (std::size_t k = 0; k < count; ++k) expected.insert(fingerprint);
          left -= std::min(left, count);
        }
      }
      for (const RowId row : a) got.insert(rows[row].first >> 20 & 0xffffffff);
      ASSERT_EQ(got, expected) << "seed " << seed << " want " << want << " hand " << before;
      std::sort(a.begin(), a.end());
      std::sort(b.begin(), b.end());
      ASSERT_EQ(a, b) << "seed " << seed;
    }
  }
}

TEST(SlotIndex, CountsSightingsUntilTheRowComesAndBoundsThem) {
  RowStore store(kTable, 1);
  SlotIndex& index = store.index();
  const auto keys = keys_in_slot(9, 3);
  EXPECT_EQ(index.sight(store.hash(keys[0])), 1u);
  EXPECT_EQ(index.sight(store.hash(keys[0])), 2u);
  EXPECT_EQ(index.sight(store.hash(keys[1])), 1u);
  EXPECT_EQ(store.find(keys[0]), kNoRow);
  store.add(keys[0]);
  EXPECT_NE(store.find(keys[0]), kNoRow);
  int sightings = 0;
  index.for_each_sighting(9, [&](std::uint32_t, std::uint32_t count) {
    ++sightings;
    EXPECT_EQ(count, 1u);
  });
  EXPECT_EQ(sightings, 1);

  const std::uint64_t slot_bits = 9ull << 52;
  for (std::uint64_t i = 0; i < 3 * SlotIndex::kSightingsMax; ++i)
    index.sight(slot_bits | mix64(i) >> 12);
  sightings = 0;
  index.for_each_sighting(9, [&](std::uint32_t, std::uint32_t) { ++sightings; });
  EXPECT_LE(sightings, static_cast<int>(SlotIndex::kSightingsMax));
  EXPECT_NE(store.find(keys[0]), kNoRow);
}

}  // namespace
}  // namespace dlrun::ps
