// The table against a std::map, with every policy on.
#include "ps/core/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ps/core/half.h"

namespace dlrun::ps {
namespace {

struct ModelRow {
  std::vector<float> row;  ///< weights, state
  std::uint64_t version = 0;
  std::uint32_t last_use_s = 0;
  std::uint32_t frequency = 0;
};

/// What TableState promises, said with a map. Evictions by budget are taken from the table, and
/// held against the policy.
class Model {
 public:
  explicit Model(const TableSchema& schema) : s(schema) {}

  bool expired(const ModelRow& r, std::uint32_t now) const {
    return s.ttl_s != 0 && now > r.last_use_s && now - r.last_use_s > s.ttl_s;
  }
  std::vector<float> read(std::uint64_t key, std::uint32_t now) const {
    std::vector<float> out(s.dim);
    const auto it = rows.find(key);
    if (it != rows.end() && !expired(it->second, now)) {
      out.assign(it->second.row.begin(), it->second.row.begin() + s.dim);
      return out;
    }
    if (s.missing == Missing::kValue) {
      out.assign(s.dim, s.missing_value);
    } else {
      init_weights(s, key, out.data());
    }
    return out;
  }
  void round(std::vector<float>& row) const {
    std::uint16_t half;
    for (std::uint32_t i = 0; i < s.dim && s.dtype != Dtype::kF32; ++i) {
      if (s.dtype == Dtype::kF16) {
        f32_to_f16(&row[i], &half, 1);
        f16_to_f32(&half, &row[i], 1);
      } else {
        f32_to_bf16(&row[i], &half, 1);
        bf16_to_f32(&half, &row[i], 1);
      }
    }
  }
  void push(std::uint64_t key, const float* g, std::uint64_t version, std::uint32_t now) {
    const auto it = rows.find(key);
    if (it == rows.end()) {
      if (s.admission == Admission::kSightings && s.admission_n > 1) {
        if (++sightings[key] < s.admission_n) return;
        sightings.erase(key);
      }
      if (s.admission == Admission::kProbability && s.admission_p == 0) return;
    }
    ModelRow& r = rows[key];
    if (it == rows.end() || expired(r, now)) {
      r = ModelRow{std::vector<float>(s.dim + state_floats(s))};
      init_row(s, key, r.row.data(), r.row.data() + s.dim);
      round(r.row);
    }
    apply_gradient(s, r.row.data(), r.row.data() + s.dim, g);
    round(r.row);
    r.version = version;
    r.last_use_s = now;
    ++r.frequency;
  }

  TableSchema s;
  std::map<std::uint64_t, ModelRow> rows;
  std::map<std::uint64_t, std::uint32_t> sightings;
};

struct Policy {
  const char* name;
  void (*set)(TableSchema&);
};
const Policy kPolicies[] = {
    {"Plain", [](TableSchema&) {}},
    {"F16Adam",
     [](TableSchema& s) {
       s.dtype = Dtype::kF16;
       s.optimizer = Optimizer::kAdam;
       s.dim = 3;
     }},
    {"Bf16FtrlOdd",
     [](TableSchema& s) {
       s.dtype = Dtype::kBf16;
       s.optimizer = Optimizer::kFtrl;
       s.dim = 5;
     }},
    {"MissingValue",
     [](TableSchema& s) {
       s.missing = Missing::kValue;
       s.missing_value = -3;
     }},
    {"ThirdSighting",
     [](TableSchema& s) {
       s.admission = Admission::kSightings;
       s.admission_n = 3;
     }},
    {"NobodyAdmitted",
     [](TableSchema& s) {
       s.admission = Admission::kProbability;
       s.admission_p = 0;
     }},
    {"Ttl",
     [](TableSchema& s) {
       s.eviction = Eviction::kTtl;
       s.ttl_s = 20;
     }},
    {"LruOf40Rows",
     [](TableSchema& s) {
       s.eviction = Eviction::kLru;
       s.budget_bytes = 40 * (64 + 32);
     }},
    {"LfuOf40Rows",
     [](TableSchema& s) {
       s.eviction = Eviction::kLfu;
       s.budget_bytes = 40 * (96 + 32);
     }},
    {"LruOf1RowSmallerThanABatch",
     [](TableSchema& s) {
       s.eviction = Eviction::kLru;
       s.budget_bytes = 1;
     }},
    {"EverythingAtOnce",
     [](TableSchema& s) {
       s.dtype = Dtype::kBf16;
       s.eviction = Eviction::kLfu;
       s.budget_bytes = 150 * (64 + 32);
       s.ttl_s = 30;
       s.admission = Admission::kSightings;
       s.admission_n = 2;
       s.missing = Missing::kValue;
       s.missing_value = 7;
     }},
};

class Policies : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, Policies, testing::Range(0, 11),
                         [](const auto& info) { return std::string(kPolicies[info.param].name); });

TEST_P(Policies, AgreeWithAMapUnderRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SplitMix64 rng(seed);
    TableSchema schema{.id = 9,
                       .name = "t",
                       .dim = 8,
                       .optimizer = Optimizer::kAdagrad,
                       .initializer = Initializer::kUniform,
                       .init_a = -1,
                       .init_b = 1,
                       .consistency = Consistency::kAsp};
    kPolicies[GetParam()].set(schema);
    ASSERT_TRUE(validate(schema));
    auto table = std::make_unique<TableState>(schema);
    const std::uint64_t budget = schema.budget_bytes / (table->rows().row_bytes() + 32);
    if (budget > 1) {
      ASSERT_EQ(budget % 10, 0u) << "not the bytes of a row that were meant";
    }
    table->watch_evictions();
    Model model(schema);
    std::uint32_t now = 1000;
    for (std::uint64_t version = 1; version <= 250; ++version) {
      now += static_cast<std::uint32_t>(rng.below(4));
      std::set<std::uint64_t> batch;
      for (std::uint64_t n = rng.below(120); n > 0; --n)
        batch.insert(rng.below(3) == 0 ? ~rng.below(400) : rng.below(60));
      const std::vector<std::uint64_t> keys(batch.begin(), batch.end());
      std::vector<float> grads(keys.size() * schema.dim);
      for (float& g : grads) g = static_cast<float>(rng.uniform() * 2 - 1);
      table->apply(keys, grads.data(), version, now);
      for (std::size_t i = 0; i < keys.size(); ++i)
        model.push(keys[i], grads.data() + i * schema.dim, version, now);

      const std::size_t before = model.rows.size();
      for (const std::uint64_t key : table->take_evicted()) {
        const auto it = model.rows.find(key);
        ASSERT_NE(it, model.rows.end()) << "evicted twice, or a key that was never there";
        if (!model.expired(it->second, now)) {
          ASSERT_GT(schema.budget_bytes, 0u) << "neither expired nor over a budget";
          ASSERT_GT(model.rows.size(), std::max<std::uint64_t>(1, budget));
          if (before <= 64) {  // the hand sees all: the very worst goes
            for (const auto& [other, r] : model.rows) {
              const auto rank = [&](std::uint64_t k, const ModelRow& row) {
                return std::tuple(schema.eviction == Eviction::kLfu ? row.frequency : 0u,
                                  row.version, k);
              };
              ASSERT_LE(rank(key, it->second), rank(other, r));
            }
          }
        }
        model.rows.erase(it);
      }
      if (schema.budget_bytes > 0) {
        ASSERT_LE(table->rows().rows(), std::max<std::uint64_t>(1, budget));
      }
      // Expired rows that the sweep has not met are still there, but nobody can see them.
      ASSERT_EQ(table->rows().rows(), model.rows.size()) << "seed " << seed << " op " << version;

      std::vector<std::uint64_t> asked;
      for (int i = 0; i < 70; ++i)
        asked.push_back(rng.below(3) == 0 ? ~rng.below(400) : rng.below(60));
      std::vector<float> out(asked.size() * schema.dim);
      table->read(asked, out.data(), now);
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const std::vector<float> got(out.begin() + i * schema.dim,
                                     out.begin() + (i + 1) * schema.dim);
        ASSERT_EQ(got, model.read(asked[i], now)) << "seed " << seed << " key " << asked[i];
      }

      if (rng.below(40) == 0) {  // every slot leaves and comes back elsewhere
        auto other = std::make_unique<TableState>(schema);
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
          if (table->rows().rows_of_slot(slot) == 0 && schema.admission == Admission::kAlways)
            continue;
          other->import_slot(slot, table->export_slot(slot), version);
        }
        for (auto& [key, row] : model.rows) row.version = version;
        table = std::move(other);
        table->watch_evictions();
      }
    }
    if (schema.budget_bytes > 0) {
      EXPECT_GT(table->stats().evicted, 0u);
    }
  }
}

TEST(Table, ProbableAdmissionLetsThatShareIn) {
  TableSchema schema{.id = 9, .name = "t", .consistency = Consistency::kAsp};
  schema.admission = Admission::kProbability;
  schema.admission_p = 0.25f;
  TableState table(schema);
  std::vector<std::uint64_t> keys(20'000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const std::vector<float> g(keys.size(), 1.0f);
  table.apply(keys, g.data(), 1, 1);
  const std::uint64_t first = table.rows().rows();
  EXPECT_NEAR(static_cast<double>(first), 5000, 250);
  EXPECT_EQ(table.stats().not_admitted, 20'000 - first);
  table.apply(keys, g.data(), 2, 1);  // a second draw, not the same one
  EXPECT_NEAR(static_cast<double>(table.rows().rows()), 8750, 300);
  EXPECT_EQ(table.stats().not_admitted, 40'000 - first - table.rows().rows());
}

TEST(Table, AGradientOfAKeyThatIsNotAdmittedIsConsumed) {
  TableSchema schema{.id = 9, .name = "t", .learning_rate = -1, .consistency = Consistency::kAsp};
  schema.admission = Admission::kSightings;
  schema.admission_n = 2;
  TableState table(schema);
  const std::vector<float> first = {5, 6};
  table.apply(std::vector<std::uint64_t>{1, 3}, first.data(), 1, 1);
  const std::vector<float> second = {10, 20, 30};
  table.apply(std::vector<std::uint64_t>{1, 2, 3}, second.data(), 2, 1);
  std::vector<float> out(3);
  table.read(std::vector<std::uint64_t>{1, 2, 3}, out.data(), 1);
  EXPECT_THAT(out, testing::ElementsAre(10, 0, 30));
}

TEST(Table, LargeBudgetsEvictWhatIsWorstAmongNeighbours) {
  TableSchema schema{.id = 9, .name = "t", .dim = 8, .consistency = Consistency::kAsp};
  schema.eviction = Eviction::kLru;
  schema.budget_bytes = 10'000 * (32 + 32);
  TableState table(schema);
  table.watch_evictions();
  std::vector<std::uint64_t> keys(1);
  const std::vector<float> g(8, 1.0f);
  for (std::uint64_t key = 0; key < 20'000; ++key) {
    keys[0] = key;
    table.apply(keys, g.data(), key + 1, 1);
  }
  EXPECT_EQ(table.rows().rows(), 10'000u);
  const auto evicted = table.take_evicted();
  EXPECT_EQ(evicted.size(), 10'000u);
  std::size_t young = 0;  // of the newest half, which exact LRU would have kept
  for (const std::uint64_t key : evicted) young += key >= 10'000 ? 1 : 0;
  EXPECT_LT(young, 2'500u);
}

// Where the hand stands is state, and means the same in an index that grew another way.
TEST(Table, TablesMadeOfTheSameImagesEvictTheSameRowsHoweverTheyWereMade) {
  for (const Eviction eviction : {Eviction::kLru, Eviction::kLfu, Eviction::kTtl}) {
    TableSchema schema{.id = 9, .name = "t", .dim = 8, .consistency = Consistency::kAsp};
    schema.eviction = eviction;
    if (eviction == Eviction::kLru) schema.budget_bytes = 2000 * (32 + 32);
    if (eviction == Eviction::kLfu) schema.budget_bytes = 2000 * (64 + 32);
    schema.ttl_s = 40;
    SplitMix64 rng(7);
    const auto some_keys = [&rng] {
      std::set<std::uint64_t> keys;
      while (keys.size() < 40) keys.insert(rng.below(6000));
      return std::vector<std::uint64_t>(keys.begin(), keys.end());
    };
    const std::vector<float> g(40 * 8, 1.0f);
    TableState first(schema), twice(schema);
    std::uint64_t version = 0;
    for (; version < 300; ++version)
      first.apply(some_keys(), g.data(), version + 1, static_cast<std::uint32_t>(version / 3));
    std::vector<TableImage> images;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) images.push_back(first.export_slot(slot));
    ASSERT_NE(images[0].hand, 0u);

    std::vector<std::uint64_t> others(12'000);
    for (std::size_t i = 0; i < others.size(); ++i) others[i] = 1'000'000 + i;
    const std::vector<float> other_grads(others.size() * 8, 1.0f);
    twice.apply(others, other_grads.data(), 1, 1);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) twice.erase_slot(slot);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      first.erase_slot(slot);
      first.import_slot(slot, images[slot], version);
      twice.import_slot(kSlots - 1 - slot, images[kSlots - 1 - slot], version);
    }
    twice.set_hand(images[0].hand);
    ASSERT_EQ(first.digest(), twice.digest());
    first.watch_evictions();
    twice.watch_evictions();
    first.take_evicted();
    twice.take_evicted();
    std::size_t evicted = 0;
    for (int i = 0; i < 100; ++i, ++version) {
      const auto keys = some_keys();
      for (TableState* table : {&first, &twice})
        table->apply(keys, g.data(), version + 1, static_cast<std::uint32_t>(version / 3));
      const auto gone = first.take_evicted();
      ASSERT_EQ(gone, twice.take_evicted()) << "push " << i;
      evicted += gone.size();
    }
    EXPECT_EQ(first.digest(), twice.digest());
    EXPECT_GT(evicted, 100u);
  }
}

TEST(Combiner, SumsEqualKeysInTheirOrder) {
  const TableSchema schema{.id = 9, .name = "t", .dim = 2};
  Combiner combiner;
  const std::vector<std::uint64_t> keys = {7, 1, 7, ~0ull, 1, 7};
  const std::vector<float> g = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto batch = combiner.combine(schema, keys, g.data());
  EXPECT_THAT(batch.keys, testing::ElementsAre(1, 7, ~0ull));
  EXPECT_THAT(std::vector<float>(batch.grads, batch.grads + 6),
              testing::ElementsAre(12, 14, 17, 20, 7, 8));
  TableSchema assign = schema;
  assign.optimizer = Optimizer::kAssign;
  const auto last = combiner.combine(assign, keys, g.data());
  EXPECT_THAT(std::vector<float>(last.grads, last.grads + 6),
              testing::ElementsAre(9, 10, 11, 12, 7, 8));
  const std::vector<std::uint64_t> sorted = {1, 2, 3};
  EXPECT_EQ(combiner.combine(schema, sorted, g.data()).grads, g.data()) << "copied for nothing";
}

}  // namespace
}  // namespace dlrun::ps
