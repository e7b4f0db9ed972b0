// A forked table against two plain ones: one that has seen every push, and one that has seen those
// before the marks alone.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "ps/core/table.h"
#include "runtime/base/rng.h"

namespace dlrun::ps {
namespace {

constexpr std::uint32_t kTable = 5;
constexpr std::uint32_t kDim = 3;
constexpr std::uint32_t kTtl = 40;

struct Policy {
  const char* name;
  TableSchema schema;
};

TableSchema base() {
  return {.id = kTable,
          .name = "t",
          .dim = kDim,
          .optimizer = Optimizer::kAdagrad,
          .learning_rate = 0.5f,
          .initializer = Initializer::kUniform,
          .init_a = -1,
          .init_b = 1,
          .consistency = Consistency::kAsp};
}

TableSchema with(void (*change)(TableSchema&)) {
  TableSchema schema = base();
  change(schema);
  return schema;
}

const Policy kPolicies[] = {
    {"plain", base()},
    {"half", with([](TableSchema& s) { s.dtype = Dtype::kF16; })},
    {"adam", with([](TableSchema& s) { s.optimizer = Optimizer::kAdam; })},
    {"sightings", with([](TableSchema& s) {
       s.admission = Admission::kSightings;
       s.admission_n = 3;
     })},
    {"probability", with([](TableSchema& s) {
       s.admission = Admission::kProbability;
       s.admission_p = 0.5f;
     })},
    {"ttl", with([](TableSchema& s) {
       s.eviction = Eviction::kTtl;
       s.ttl_s = kTtl;
     })},
    {"lfu", with([](TableSchema& s) {
       s.eviction = Eviction::kLfu;
       s.budget_bytes = 24'000;  // some 250 rows of 300 keys
     })},
};

struct Row {
  std::uint64_t version = 0;
  std::uint32_t last_use_s = 0;
  std::uint32_t frequency = 0;
  std::vector<std::uint32_t> data;
  friend bool operator==(const Row&, const Row&) = default;
};
using Rows = std::map<std::uint64_t, Row>;
using Sightings = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct Content {
  Rows rows;
  std::map<std::uint32_t, Sightings> sightings;
};

/// What the table holds, but for rows that have expired at `now_s`.
Content content_of(const TableState& table, std::uint32_t now_s) {
  Content content;
  const std::size_t words = TableState::words(table.schema());
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    const TableImage image = table.export_slot(slot);
    for (std::size_t i = 0; i < image.rows.size(); ++i) {
      const TableImage::Row& r = image.rows[i];
      if (table.schema().ttl_s != 0 && now_s > r.last_use_s + table.schema().ttl_s) continue;
      content.rows[r.key] = {
          r.version,
          r.last_use_s,
          r.frequency,
          {image.data.begin() + i * words, image.data.begin() + (i + 1) * words}};
    }
    if (!image.sightings.empty()) content.sightings[slot] = image.sightings;
  }
  return content;
}

/// Pushes with duplicates of keys over time, so that rows are made, stepped, evicted and made anew.
class Storm {
 public:
  explicit Storm(std::uint64_t seed) : rng_(seed) {}
  struct Push {
    std::vector<std::uint64_t> keys;
    std::vector<float> grads;
    std::uint64_t version = 0;
    std::uint32_t now_s = 0;
    Side side = Side::kBefore;
  };
  Push next(bool may_be_after) {
    Push push;
    std::uint64_t key = rng_.below(8);
    while (key < 300 && push.keys.size() < 40) {
      push.keys.push_back(key);
      key += 1 + rng_.below(30);
    }
    for (std::size_t i = 0; i < push.keys.size() * kDim; ++i)
      push.grads.push_back(static_cast<float>(rng_.below(200)) / 100 - 1);
    push.version = ++version_;
    push.now_s = now_s_ += static_cast<std::uint32_t>(rng_.below(4));
    if (may_be_after && rng_.below(2) == 0) push.side = Side::kAfter;
    return push;
  }
  std::uint32_t now_s() const { return now_s_; }
  std::uint64_t below(std::uint64_t n) { return rng_.below(n); }

 private:
  SplitMix64 rng_;
  std::uint64_t version_ = 0;
  std::uint32_t now_s_ = 1000;
};

void apply(TableState& table, const Storm::Push& push) {
  table.apply(push.keys, push.grads.data(), push.version, push.now_s, push.side);
}

/// All slots, a few at a time, with a push that is after between them.
Content write(TableState& forked, TableState& plain, Storm& storm) {
  BlockBuilder rows(500), sightings(500);
  std::uint64_t written = 0;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    written += forked.write_slot(slot, rows, sightings);
    if (slot % 64 != 0) continue;
    Storm::Push push = storm.next(false);
    push.side = storm.below(2) == 0 ? Side::kAfter : Side::kBefore;  // settled: all are after
    apply(forked, push);
    apply(plain, push);
  }
  rows.close();
  sightings.close();
  TableState restored(forked.schema());
  for (const Block& block : rows.take()) {
    for (std::uint32_t i = 0; i < block.header.n; ++i, --written)
      restored.restore_row(row_at(block.header, block.raw, i), 0);
  }
  EXPECT_EQ(written, 0u);
  for (const Block& block : sightings.take()) {
    for (std::uint32_t i = 0; i < block.header.n; ++i)
      restored.restore_sighting(sighting_at(block.raw, i));
  }
  EXPECT_EQ(forked.aside_bytes(), 0u) << "a written slot gives its copies back";
  return content_of(restored, 0);
}

void expect_equal(const Content& got, const Content& want) {
  EXPECT_EQ(got.rows.size(), want.rows.size());
  for (const auto& [key, row] : want.rows) {
    const auto it = got.rows.find(key);
    ASSERT_NE(it, got.rows.end()) << "key " << key << " is missing";
    ASSERT_EQ(it->second.version, row.version) << "key " << key;
    ASSERT_TRUE(it->second == row) << "key " << key;
  }
  EXPECT_EQ(got.sightings, want.sightings);
}

class ForkedTable : public testing::TestWithParam<Policy> {};

TEST_P(ForkedTable, HoldsWhatThePushesBeforeTheMarksAloneGive) {
  const TableSchema schema = GetParam().schema;
  const bool budget = schema.budget_bytes != 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Storm storm(seed);
    TableSchema unbounded = schema;
    if (budget) unbounded.eviction = Eviction::kNone;
    TableState forked(schema), plain(schema), before(unbounded);
    for (int i = 0; i < 30; ++i) {
      const Storm::Push push = storm.next(false);
      for (TableState* table : {&forked, &plain, &before}) apply(*table, push);
    }
    for (int round = 0; round < 2; ++round) {  // a second fork, over the traces of the first
      if (round == 1) {
        // The oracle of the second begins as the table is then.
        before = TableState(unbounded);
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
          const TableImage image = plain.export_slot(slot);
          const std::size_t words = TableState::words(schema);
          for (std::size_t i = 0; i < image.rows.size(); ++i) {
            const TableImage::Row& r = image.rows[i];
            before.restore_row({r.key, r.version, r.last_use_s, r.frequency,
                                reinterpret_cast<const char*>(image.data.data() + i * words)},
                               0);
          }
          for (const auto& [fingerprint, count] : image.sightings)
            before.restore_sighting({slot, fingerprint, count});
        }
      }
      forked.fork(0);
      int after = 0;
      for (int i = 0; i < 60; ++i) {
        const Storm::Push push = storm.next(true);
        apply(forked, push);
        apply(plain, push);
        if (push.side == Side::kBefore) apply(before, push);
        after += push.side == Side::kAfter ? 1 : 0;
      }
      ASSERT_GT(after, 10);
      ASSERT_GT(forked.aside_bytes(), 0u);
      forked.settle();
      const std::uint32_t now_s = schema.ttl_s == 0 ? 0 : storm.now_s();
      const Content want = content_of(before, now_s);
      Content got = write(forked, plain, storm);
      std::erase_if(got.rows, [&](const auto& entry) {
        return now_s != 0 && now_s > entry.second.last_use_s + kTtl;
      });
      if (!budget) {
        expect_equal(got, want);
      } else {
        // Which rows a budget lets go depends on those that are after; but a row that was never
        // let go is what it should be.
        std::size_t same = 0;
        for (const auto& [key, row] : got.rows) {
          const auto it = want.rows.find(key);
          ASSERT_NE(it, want.rows.end()) << "a row of a key that was never pushed before";
          if (it->second.frequency != row.frequency) continue;
          ++same;
          ASSERT_TRUE(it->second.data == row.data) << key;
        }
        EXPECT_GT(same, 10u);
      }
      EXPECT_EQ(forked.digest(), plain.digest()) << "the table itself knows nothing of its fork";
      forked.drop_fork();
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ForkedTable, ADroppedForkLeavesNothing) {
  Storm storm(7);
  TableState forked(GetParam().schema), plain(GetParam().schema);
  for (int round = 0; round < 3; ++round) {
    forked.fork(0);
    for (int i = 0; i < 20; ++i) {
      const Storm::Push push = storm.next(true);
      apply(forked, push);
      apply(plain, push);
    }
    forked.drop_fork();
    EXPECT_EQ(forked.aside_bytes(), 0u);
    EXPECT_EQ(forked.digest(), plain.digest());
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, ForkedTable, testing::ValuesIn(kPolicies),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ForkedTable, ABspTableIsCutBetweenTwoClocksThatCloseAtOnce) {
  TableSchema schema = base();
  schema.consistency = Consistency::kBsp;
  schema.optimizer = Optimizer::kSgd;
  schema.learning_rate = -1;
  schema.initializer = Initializer::kZero;
  TableState table(schema);
  const auto keep = [&](std::uint64_t clock, float value) {
    table.keep(clock, {WorkerId{1}, ClientId{1}, clock + 1, {9}, {value, value, value}});
  };
  table.fork(2);
  table.set_rate_from(2, -10);
  keep(0, 1);
  keep(1, 2);
  keep(2, 4);
  EXPECT_FALSE(table.settled());
  table.close_below(3, 7, 1000);
  EXPECT_TRUE(table.settled());
  EXPECT_EQ(table.rate(), -10);
  EXPECT_EQ(table.cut_rate(), -1) << "the rate of a clock that is after";
  BlockBuilder rows, sightings;
  const std::uint32_t slot = slot_of(kTable, 9);
  ASSERT_EQ(table.write_slot(slot, rows, sightings), 1u);
  rows.close();
  const std::vector<Block> blocks = rows.take();
  ASSERT_EQ(blocks.size(), 1u);
  float value;
  std::memcpy(&value, row_at(blocks[0].header, blocks[0].raw, 0).data, sizeof value);
  EXPECT_EQ(value, 3);
  const std::vector<std::uint64_t> keys = {9};
  float now[kDim];
  table.read(keys, now, 1000);
  EXPECT_EQ(now[0], 43);
}

TEST(ForkedTable, ARestoredRowIsAsOldAsItWas) {
  TableState table(with([](TableSchema& s) {
    s.eviction = Eviction::kLfu;
    s.budget_bytes = 1 << 20;
  }));
  const float data[2 * kDim] = {};
  const auto restore = [&](std::uint64_t key, std::uint32_t last_use_s, std::int64_t shift_s) {
    table.restore_row({key, 77, last_use_s, 3, reinterpret_cast<const char*>(data)}, shift_s);
    const RowStore::Place row = table.rows().find(key);
    EXPECT_EQ(table.rows().version(row), 77u);
    EXPECT_EQ(table.rows().frequency(row.row()), 3u);
    return table.rows().last_use_s(row);
  };
  EXPECT_EQ(restore(1, 100, 50), 150u);
  EXPECT_EQ(restore(2, 100, -60), 40u);
  EXPECT_EQ(restore(3, 100, -600), 0u) << "older than this machine's clock";
}

}  // namespace
}  // namespace dlrun::ps
