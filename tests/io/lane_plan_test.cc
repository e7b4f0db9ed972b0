#include "io/core/lane_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "io/core/permutation.h"
#include "runtime/base/rng.h"

namespace dlrun::io {
namespace {

InputSpec spec(Mode mode, bool shuffle = true, std::uint32_t lanes = 12) {
  InputSpec s;
  s.name = "train";
  s.mode = mode;
  s.lanes = lanes;
  s.shuffle = shuffle;
  s.seed = 7;
  s.split_bytes = 10;
  return s;
}

std::vector<FileEntry> files_of(SplitMix64& rng) {
  std::vector<FileEntry> files;
  for (std::uint64_t i = 0, n = 1 + rng.below(9); i < n; ++i)
    files.push_back({"/f" + std::to_string(i), rng.below(400), "e"});
  return files;
}

/// What a pass is for anybody, dealt by hand: splits to lanes, rows to batches, batches to places.
/// A split has as many rows as its id says.
using Batches = std::map<std::uint64_t, std::vector<std::uint64_t>>;  ///< place -> rows
std::uint64_t rows_of(std::uint64_t split) { return split * 7 % 5; }

Batches by_hand(const std::vector<std::uint64_t>& order, std::uint32_t lanes, std::size_t batch) {
  std::vector<std::vector<std::uint64_t>> rows(lanes);
  for (std::size_t place = 0; place < order.size(); ++place)
    for (std::uint64_t row = 0; row < rows_of(order[place]); ++row)
      rows[place % lanes].push_back(order[place] * 100 + row);
  Batches out;
  for (std::size_t lane = 0; lane < lanes; ++lane)
    for (std::size_t at = 0; at < rows[lane].size(); ++at)
      out[at / batch * lanes + lane].push_back(rows[lane][at]);
  return out;
}

TEST(LanePlan, TheNthBatchIsTheSameWhateverTheNumberOfConsumers) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SplitMix64 rng(seed);
    const InputSpec input = spec(Mode::kDeterministic, rng.below(4) != 0);
    const std::size_t batch = 1 + rng.below(6);
    const auto splits = SplitTable::make(files_of(rng), 10);
    ASSERT_TRUE(splits);
    const auto pass = static_cast<std::uint32_t>(rng.below(3));
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < splits->count(); ++i)
      order.push_back(input.shuffle ? Permutation(splits->count(), 7, pass)(i) : i);
    const Batches expected = by_hand(order, 12, batch);
    for (const std::uint32_t world : {1u, 2u, 3u, 4u, 6u, 12u}) {
      const auto plan = LanePlan::make(input, *splits, world);
      ASSERT_TRUE(plan);
      Batches all;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        // What a consumer does: its own lanes, round by round.
        std::map<std::uint32_t, std::vector<std::uint64_t>> rows;
        std::uint64_t steps = 0;
        for (std::uint32_t i = 0; i < plan->lanes_of_consumer(); ++i) {
          const std::uint32_t lane = plan->lane_of(rank, i);
          EXPECT_EQ(lane % world, rank);
          for (std::uint64_t s = 0; s < plan->splits_of(lane); ++s) {
            const SplitKey key = plan->split(lane, pass, s);
            EXPECT_EQ(key.pass, pass);
            for (std::uint64_t row = 0; row < rows_of(key.split_id); ++row)
              rows[lane].push_back(key.split_id * 100 + row);
          }
          const std::uint64_t rounds = (rows[lane].size() + batch - 1) / batch;
          steps = std::max(steps, rounds * plan->lanes_of_consumer());
        }
        for (std::uint64_t step = 0; step < steps; ++step) {
          auto& waiting = rows[plan->lane_of(rank, step)];
          if (waiting.empty()) continue;
          const std::size_t n = std::min(batch, waiting.size());
          const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(n);
          const std::uint64_t place = plan->batch_of(rank, step);
          EXPECT_EQ(place % world, rank);
          EXPECT_TRUE(all.emplace(place, std::vector(waiting.begin(), end)).second);
          waiting.erase(waiting.begin(), end);
        }
      }
      EXPECT_EQ(all, expected) << "seed " << seed << ", " << world << " consumers";
    }
  }
}

TEST(LanePlan, StepsCountFromAPlaceOfTheOrder) {
  const auto splits = SplitTable::make({{"/a", 1000, "e"}}, 10);
  const auto plan = LanePlan::make(spec(Mode::kDeterministic), *splits, 4);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    for (std::uint64_t batch = 0; batch < 50; ++batch) {
      const std::uint64_t step = plan->step_from(rank, batch);
      EXPECT_GE(plan->batch_of(rank, step), batch);
      if (step > 0) {
        EXPECT_LT(plan->batch_of(rank, step - 1), batch);
      }
    }
}

TEST(LanePlan, StaticPartsAreWholeFilesOrEvenPartsTheSameInEveryPassAndTogetherAll) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SplitMix64 rng(seed);
    InputSpec input = spec(Mode::kStatic, rng.below(2) == 0);
    input.static_by = rng.below(2) == 0 ? StaticBy::kFiles : StaticBy::kBytes;
    const auto files = files_of(rng);
    const auto splits = SplitTable::make(files, 10);
    const auto world = static_cast<std::uint32_t>(1 + rng.below(7));
    const auto plan = LanePlan::make(input, *splits, world);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->lanes_of_consumer(), 1u);
    std::set<std::uint64_t> all;
    std::uint64_t least = ~0ull, most = 0;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      std::set<std::uint64_t> part[2];
      for (std::uint32_t pass : {0u, 1u})
        for (std::uint64_t i = 0; i < plan->splits_of(rank); ++i) {
          const SplitKey key = plan->split(rank, pass, i);
          EXPECT_TRUE(part[pass].insert(key.split_id).second);
          if (input.static_by == StaticBy::kFiles) {
            const std::string uri = splits->split(key).uri;
            EXPECT_EQ(std::stoul(uri.substr(2)) % world, rank);
          }
        }
      EXPECT_EQ(part[0], part[1]);
      least = std::min<std::uint64_t>(least, part[0].size());
      most = std::max<std::uint64_t>(most, part[0].size());
      for (const std::uint64_t id : part[0]) EXPECT_TRUE(all.insert(id).second);
    }
    EXPECT_EQ(all.size(), splits->count());
    if (input.static_by == StaticBy::kBytes) {
      EXPECT_LE(most - least, 1u);
    }
  }
}

TEST(LanePlan, RefusesConsumersThatCannotShareTheLanes) {
  const auto splits = SplitTable::make({{"/a", 1000, "e"}}, 10);
  const auto plan = LanePlan::make(spec(Mode::kDeterministic), *splits, 5);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Errc::kFailedPrecondition);
  EXPECT_NE(plan.error().context.find("12 lanes cannot be dealt to 5 consumers"),
            std::string::npos);
  EXPECT_FALSE(LanePlan::make(spec(Mode::kDeterministic), *splits, 0));
  EXPECT_FALSE(LanePlan::make(spec(Mode::kDeterministic, true, kLanesMax + 1), *splits, 1));
}

TEST(LanePlan, RefusesToDropEveryStepBecauseOneLaneHasNone) {
  for (const Mode mode : {Mode::kDeterministic, Mode::kStatic}) {
    InputSpec input = spec(mode);
    input.ends = Ends::kDrop;
    const auto few = SplitTable::make({{"/a", 50, "e"}, {"/b", 0, "e"}}, 10);
    const auto plan = LanePlan::make(input, *few, 2);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Errc::kFailedPrecondition);
    EXPECT_NE(plan.error().context.find("has none of the 5 splits"), std::string::npos)
        << plan.error().context;
    EXPECT_TRUE(LanePlan::make(input, *SplitTable::make({{"/a", 0, "e"}}, 10), 2)) << "no data";
    const auto enough = SplitTable::make({{"/a", 500, "e"}, {"/b", 500, "e"}}, 10);
    EXPECT_TRUE(LanePlan::make(input, *enough, 2));
    input.ends = Ends::kPad;
    EXPECT_TRUE(LanePlan::make(input, *few, 2));
  }
}

TEST(SplitTable, DeterministicInputsAreCutSoThatALaneHasManySplits) {
  InputSpec input = spec(Mode::kDeterministic, true, 24);
  input.split_bytes = 4u << 20;
  const std::vector<FileEntry> files{{"/a", 100u << 20, "e"}};
  EXPECT_GE(SplitTable::of(input, files)->count(), 24 * 64u);
  EXPECT_EQ(SplitTable::of(input, {{"/a", 8192, "e"}})->count(), 2u) << "4 KiB at least";
  input.format = Format::kTfRecord;
  EXPECT_EQ(SplitTable::of(input, files)->count(), 1u);
  input.mode = Mode::kDynamic;
  input.format = Format::kLibsvm;
  EXPECT_EQ(SplitTable::of(input, files)->count(), 25u);
}

// ---- weights

std::vector<FileEntry> two_sources() {
  return {{"/a0", 40, "e", 0}, {"/a1", 60, "e", 0}, {"/b", 100, "e", 1}};
}

TEST(SplitTable, WeightsShareAPassAndEverySplitOfASourceComesEquallyOften) {
  for (const bool shuffle : {false, true}) {
    InputSpec input = spec(Mode::kDynamic, shuffle);
    input.weights = {3, 1};
    const auto table = SplitTable::of(input, two_sources());
    ASSERT_TRUE(table);
    ASSERT_EQ(table->count(), 20u);
    std::map<std::string, std::map<std::uint64_t, int>> shown;  // uri, begin -> times
    for (std::uint32_t pass = 0; pass < 4; ++pass) {
      std::map<char, int> of;
      for (std::uint64_t id = 0; id < 20; ++id) {
        const Split split = table->split({id, pass});
        EXPECT_EQ(split.id, id);
        ++of[split.uri[1]];
        ++shown[split.uri][split.begin];
      }
      EXPECT_EQ(of['a'], 15);
      EXPECT_EQ(of['b'], 5);
    }
    // 60 showings of ten splits, 20 of ten.
    for (const auto& [uri, begins] : shown)
      for (const auto& [begin, times] : begins) EXPECT_EQ(times, uri == "/b" ? 2 : 6) << uri;
    EXPECT_EQ(shown["/b"].size(), 10u);
  }
}

TEST(SplitTable, SharesAddUpWhateverTheWeights) {
  SplitMix64 rng(3);
  for (int i = 0; i < 300; ++i) {
    InputSpec input = spec(Mode::kDynamic);
    std::vector<FileEntry> files;
    std::uint64_t sum = 0;
    const std::uint64_t sources = 1 + rng.below(5);
    for (std::uint32_t s = 0; s < sources; ++s) {
      input.weights.push_back(static_cast<std::uint32_t>(1 + rng.below(1000)));
      files.push_back({"/" + std::to_string(s), rng.below(3) == 0 ? 0 : rng.below(500), "e", s});
      if (files.back().size_bytes > 0) sum += input.weights.back();
    }
    const auto table = SplitTable::of(input, files);
    const std::uint64_t total = SplitTable::make(files, 10)->count();
    ASSERT_EQ(table->count(), total);
    std::map<std::string, double> of;
    for (std::uint64_t id = 0; id < total; ++id) ++of[table->split({id, 1}).uri];
    for (std::uint32_t s = 0; s < sources; ++s) {
      const bool any = files[s].size_bytes > 0;
      const double exact =
          any ? static_cast<double>(total) * input.weights[s] / static_cast<double>(sum) : 0;
      EXPECT_LE(std::abs(of[files[s].uri] - exact), 1.0);
    }
  }
}

TEST(SplitTable, AFileOfASourceWithoutAWeightIsRefused) {
  InputSpec input = spec(Mode::kDynamic);
  input.weights = {1};
  EXPECT_EQ(SplitTable::of(input, two_sources()).error().code, Errc::kInvalidArgument);
}

TEST(FileTable, ItsDigestHangsOnEveryField) {
  const auto files = two_sources();
  std::set<std::uint64_t> seen{digest_of(files), digest_of({})};
  const auto other = [&](auto change) {
    auto changed = files;
    change(changed[1]);
    EXPECT_TRUE(seen.insert(digest_of(changed)).second);
  };
  other([](FileEntry& f) { f.uri += "x"; });
  other([](FileEntry& f) { ++f.size_bytes; });
  other([](FileEntry& f) { f.etag = ""; });
  other([](FileEntry& f) { f.source = 1; });
  EXPECT_EQ(seen.size(), 6u);
}

}  // namespace
}  // namespace dlrun::io
