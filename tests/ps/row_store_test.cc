#include "ps/core/row_store.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ps/core/msg.h"

namespace dlrun::ps {
namespace {

TEST(RowStore, TakesEveryKeyIncludingTheFirstAndTheLast) {
  RowStore store(1, kSlots);
  const std::vector<std::uint64_t> keys = {0,         1,          ~0ull,
                                           ~0ull - 1, 1ull << 63, 0x8000000080000000ull};
  for (const auto key : keys) EXPECT_EQ(store.find(key), kNoRow);
  for (const auto key : keys)
    *store.data(store.add(key, slot_of(1, key))) = static_cast<float>(key % 1000);
  for (const auto key : keys) {
    ASSERT_NE(store.find(key), kNoRow);
    EXPECT_EQ(store.header(store.find(key)).key, key);
    EXPECT_EQ(*store.data(store.find(key)), static_cast<float>(key % 1000));
  }
  EXPECT_EQ(store.find(2), kNoRow);
}

TEST(RowStore, AFreedRowComesBackZeroed) {
  RowStore store(4, kSlots);
  const RowId row = store.add(5, 3);
  for (int i = 0; i < 4; ++i) store.data(row)[i] = 1e38f;
  store.header(row).frequency = 9;
  store.erase_slot(3);
  EXPECT_EQ(store.find(5), kNoRow);
  EXPECT_EQ(store.rows(), 0u);
  const RowId again = store.add(6, 3);
  EXPECT_EQ(again, row);
  EXPECT_EQ(store.header(again).frequency, 0u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(store.data(again)[i], 0.0f);
}

// Few slots and clustered keys, so that erasing shifts through long probe runs.
TEST(RowStore, AgreesWithAMapUnderRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SplitMix64 rng(seed);
    constexpr std::uint32_t kFew = 7;
    RowStore store(3, kFew);
    std::map<std::uint64_t, float> model;
    const auto slot = [](std::uint64_t key) { return static_cast<std::uint32_t>(key % kFew); };
    for (int step = 0; step < 4000; ++step) {
      const std::uint64_t key = rng.below(3) == 0 ? ~rng.below(300) : rng.below(900);
      switch (rng.below(20)) {
        case 0: {
          const auto gone = static_cast<std::uint32_t>(rng.below(kFew));
          store.erase_slot(gone);
          std::erase_if(model, [&](const auto& entry) { return slot(entry.first) == gone; });
          break;
        }
        default: {
          RowId row = store.find(key);
          ASSERT_EQ(row != kNoRow, model.contains(key)) << "seed " << seed << " step " << step;
          if (row == kNoRow) row = store.add(key, slot(key));
          store.data(row)[2] += 1.0f;
          model[key] += 1.0f;
        }
      }
      ASSERT_EQ(store.rows(), model.size());
    }
    std::map<std::uint64_t, float> listed;
    for (std::uint32_t s = 0; s < kFew; ++s) {
      std::uint32_t count = 0;
      for (RowId row = store.first_of_slot(s); row != kNoRow;
           row = store.header(row).next_in_slot, ++count) {
        EXPECT_EQ(slot(store.header(row).key), s);
        listed[store.header(row).key] = store.data(row)[2];
      }
      EXPECT_EQ(count, store.rows_of_slot(s));
    }
    EXPECT_EQ(listed, model) << "seed " << seed;
  }
}

TEST(RowStore, MemoryStaysFlatWhenRowsComeAndGo) {
  RowStore store(16, kSlots);
  std::uint64_t key = 0;
  std::uint64_t bytes = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 20000; ++i, ++key) store.add(key, 1);
    if (round == 1) bytes = store.bytes();
    store.erase_slot(1);
  }
  EXPECT_EQ(store.bytes(), bytes);
}

}  // namespace
}  // namespace dlrun::ps
