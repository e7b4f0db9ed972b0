#include "ps/core/row_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "ps/core/msg.h"

namespace dlrun::ps {
namespace {

constexpr std::uint32_t kTable = 1;

std::vector<std::uint64_t> keys_of(const RowStore& store, std::uint32_t slot) {
  std::vector<std::uint64_t> keys;
  store.index().for_each(slot, [&](RowStore::Place row) { keys.push_back(store.key(row)); });
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
  for (const auto key : keys) EXPECT_FALSE(store.find(key));
  for (const auto key : keys) *store.data(store.add(key).row()) = static_cast<float>(key % 1000);
  for (const auto key : keys) {
    const RowStore::Place row = store.find(key);
    ASSERT_TRUE(row);
    EXPECT_EQ(store.key(row), key);
    EXPECT_EQ(*store.data(row.row()), static_cast<float>(key % 1000));
  }
  EXPECT_FALSE(store.find(2));
}

TEST(RowStore, AHashTellsItsKey) {
  SplitMix64 rng(5);
  for (int i = 0; i < 1000; ++i) {
    const auto table = static_cast<std::uint32_t>(rng.next());
    const std::uint64_t key = rng.next();
    ASSERT_EQ(key_of_hash(table, key_hash(table, key)), key);
  }
}

TEST(RowStore, AFreedRowComesBackZeroed) {
  RowStore store(kTable, 4, true);
  for (const bool whole_slot : {false, true}) {
    const RowStore::Place place = store.add(5);
    const RowId row = place.row();
    for (int i = 0; i < 4; ++i) store.data(row)[i] = 1e38f;
    store.set_frequency(row, 9);
    store.set_stamp(place, store.stamps().take(7, 8));
    EXPECT_EQ(store.version(place), 7u);
    EXPECT_EQ(store.last_use_s(place), 8u);
    EXPECT_EQ(store.frequency(row), 9u);
    whole_slot ? store.erase_slot(slot_of(kTable, 5)) : store.erase(place);
    EXPECT_FALSE(store.find(5));
    EXPECT_EQ(store.rows(), 0u);
    const RowStore::Place again = store.add(6);
    EXPECT_EQ(again.row(), row);
    EXPECT_EQ(store.frequency(row), 0u);
    EXPECT_EQ(store.version(again), 0u);
    EXPECT_EQ(store.last_use_s(again), 0u);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(store.data(row)[i], 0.0f);
    store.erase(again);
  }
}

TEST(RowStore, TwoKeysOfOneFingerprintAreTwoRows) {
  // The hash is a bijection: any slot and fingerprint with other low bits is another key's.
  const std::uint64_t wanted = 0x123456789abcde00ull;
  RowStore store(kTable, 1);
  std::map<std::uint64_t, RowId> rows;
  for (std::uint64_t low = 1; low <= 9; ++low)
    rows[wanted | low] = store.add_hash(wanted | low).row();
  for (const auto& [hash, row] : rows) {
    ASSERT_TRUE(store.index().find(hash));
    EXPECT_EQ(store.index().find(hash).row(), row);
  }
  EXPECT_FALSE(store.index().find(wanted));
  std::set<RowId> different;
  for (const auto& [hash, row] : rows) different.insert(row);
  EXPECT_EQ(different.size(), rows.size());
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
        if (const RowStore::Place row = store.find(key)) store.erase(row);
        model.erase(key);
      } else {
        RowStore::Place row = store.find(key);
        ASSERT_EQ(static_cast<bool>(row), model.contains(key))
            << "seed " << seed << " step " << step;
        if (!row) row = store.add(key);
        store.data(row.row())[2] += 1.0f;
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
        listed[key] = store.data(store.find(key).row())[2];
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
  for (std::uint64_t key = 0; key < 500; ++key) all.insert(store.add(key).row());
  std::vector<RowStore::Place> places;
  std::vector<RowId> rows;
  const auto next_rows = [&](std::uint32_t n) {
    store.index().next_rows(n, places);
    rows.clear();
    for (const RowStore::Place place : places) rows.push_back(place.row());
  };
  for (int round = 0; round < 3; ++round) {
    std::multiset<RowId> seen;
    while (seen.size() < 500) {
      next_rows(static_cast<std::uint32_t>(std::min<std::size_t>(64, 500 - seen.size())));
      seen.insert(rows.begin(), rows.end());
    }
    EXPECT_EQ(std::set<RowId>(seen.begin(), seen.end()), all);
    EXPECT_EQ(seen.size(), 500u);
  }
  for (int i = 0; i < 20; ++i) {  // more than there are: each once, wherever the hand stands
    next_rows(7);
    next_rows(100'000);
    EXPECT_EQ(std::set<RowId>(rows.begin(), rows.end()), all);
    EXPECT_EQ(rows.size(), all.size());
  }
  RowStore empty(kTable, 1);
  empty.index().next_rows(10, places);
  EXPECT_TRUE(places.empty());
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
      rows.emplace_back(std::uint64_t{3} << 52 | fingerprint << 20 | row, row);
      ++by_hash[fingerprint];
      grown.add(rows.back().first, row);
    }
    for (RowId row = 0; row < 900; ++row)
      shrunk.add(std::uint64_t{3} << 52 | mix64(row) >> 12, 5000 + row);
    for (auto it = rows.rbegin(); it != rows.rend(); ++it) shrunk.add(it->first, it->second);
    for (RowId row = 0; row < 900; ++row)
      shrunk.remove(shrunk.find(std::uint64_t{3} << 52 | mix64(row) >> 12));
    grown.set_hand(std::uint64_t{3} << 32 | (rows[0].first >> 20 & 0xffffffff));
    shrunk.set_hand(grown.hand());
    for (int i = 0; i < 40; ++i) {
      const auto want = static_cast<std::uint32_t>(1 + rng.below(n + 3));
      std::vector<RowId> a, b;
      std::vector<SlotIndex::Place> places;
      const std::uint64_t before = grown.hand();
      grown.next_rows(want, places);
      for (const SlotIndex::Place place : places) a.push_back(place.row());
      shrunk.next_rows(want, places);
      for (const SlotIndex::Place place : places) b.push_back(place.row());
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
  EXPECT_FALSE(store.find(keys[0]));
  store.add(keys[0]);
  EXPECT_TRUE(store.find(keys[0]));
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
  EXPECT_TRUE(store.find(keys[0]));
}

TEST(SlotIndex, MovesSaysWhenAPlaceIsNoneAnyMore) {
  SlotIndex index;
  const auto hash = [](std::uint64_t i) { return std::uint64_t{4} << 52 | mix64(i) >> 12; };
  std::map<std::uint64_t, std::pair<SlotIndex::Place, std::uint64_t>> places;
  SplitMix64 rng(7);
  for (int step = 0; step < 5000; ++step) {
    const std::uint64_t h = hash(rng.below(300));
    if (const SlotIndex::Place place = index.find(h)) {
      if (rng.below(3) == 0) {
        index.remove(place);
        places.erase(h);
      }
    } else {
      const SlotIndex::Place made = index.add(h, static_cast<RowId>(step), 3 * step);
      places[h] = {made, index.moves()};
    }
    for (auto& [known, place] : places) {
      if (place.second != index.moves()) place = {index.find(known), index.moves()};
      ASSERT_EQ(place.first.hash(), known);
      ASSERT_EQ(place.first.stamp(), 3 * place.first.row());
    }
  }
}

TEST(Stamps, AreSharedAndComeBackWhenNobodyHoldsThem) {
  Stamps stamps;
  const std::uint32_t a = stamps.take(5, 1);
  EXPECT_EQ(stamps.take(5, 1), a);
  const std::uint32_t b = stamps.take(6, 1);
  EXPECT_NE(a, b);
  EXPECT_EQ(stamps[a].version, 5u);
  EXPECT_EQ(stamps[b].version, 6u);
  stamps.drop(a);
  EXPECT_EQ(stamps[a].version, 5u) << "held once more";
  stamps.drop(a);
  EXPECT_EQ(stamps.take(7, 2), a) << "used again";
  EXPECT_EQ(stamps.take(0, 0), Stamps::kZero);

  // One for each of many pushes, most of them dropped: no more memory than the most that lived.
  std::map<std::uint32_t, std::uint64_t> held;
  SplitMix64 rng(9);
  for (std::uint64_t version = 10; version < 50'000; ++version) {
    const std::uint32_t s = stamps.take(version, 3);
    ASSERT_TRUE(held.emplace(s, version).second) << "given out twice";
    if (held.size() > 1000) {
      const auto gone = std::next(held.begin(), static_cast<std::ptrdiff_t>(rng.below(1000)));
      ASSERT_EQ(stamps[gone->first].version, gone->second);
      stamps.drop(gone->first);
      held.erase(gone);
    }
  }
  EXPECT_LE(stamps.bytes(), 4096u * sizeof(Stamps::Stamp));
}

TEST(PowerPool, BlocksThatAllCameBackMakeALargerOne) {
  PowerPool pool;
  std::vector<void*> blocks;
  for (int i = 0; i < 1 << 10; ++i) blocks.push_back(pool.take(6));
  const std::uint64_t bytes = pool.bytes();
  EXPECT_EQ(bytes, 64u << 10);
  SplitMix64 rng(3);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  for (void* block : blocks) pool.give_back(block, 6);
  void* const large = pool.take(16);
  EXPECT_EQ(pool.bytes(), bytes);
  std::memset(large, 1, 64 << 10);
}

}  // namespace
}  // namespace dlrun::ps
