#include "io/core/step_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/base/rng.h"

namespace dlrun::io {
namespace {

/// Consumers of given lengths that read ahead, ask, lose the job's memory now and then, and step as
/// they like; how many steps each took of each pass.
std::vector<std::vector<std::uint64_t>> run(Ends ends, const std::vector<std::uint64_t>& lengths,
                                            std::uint32_t passes, SplitMix64& rng) {
  const auto world = static_cast<std::uint32_t>(lengths.size());
  struct Consumer {
    std::uint32_t pass = 0;
    std::uint64_t step = 0, read = 0;
    std::optional<StepReport> before;
    StepNews news;
  };
  std::vector<Consumer> consumers(world);
  std::vector<std::vector<std::uint64_t>> steps(world, std::vector<std::uint64_t>(passes, 0));
  StepGate gate(world);
  for (int turn = 0; turn < 200000; ++turn) {
    if (rng.below(500) == 0) gate = StepGate(world);
    const auto rank = static_cast<std::uint32_t>(rng.below(world));
    Consumer& c = consumers[rank];
    if (c.pass == passes) {  // its feeder still says what it knows while others read
      if (c.before) gate.report(rank, *c.before);
      continue;
    }
    const bool ended = c.read == lengths[rank];
    const StepReport own{c.pass, c.read, ended};
    switch (rng.below(3)) {
      case 0:
        c.read = std::max(c.read, std::min({lengths[rank], c.read + rng.below(4), c.step + 5}));
        break;
      case 1:
        if (c.before) gate.report(rank, *c.before);
        gate.report(rank, own);
        c.news = gate.news(c.pass);
        break;
      default:
        switch (step_verdict(ends, c.step, own, c.news)) {
          case StepVerdict::kGive:
          case StepVerdict::kFill:
            ++c.step;
            break;
          case StepVerdict::kWait:
            break;
          case StepVerdict::kEnd:
            steps[rank][c.pass] = c.step;
            c.before = StepReport{c.pass, lengths[rank], true};
            ++c.pass;
            c.step = c.read = 0;
        }
    }
    if (std::all_of(consumers.begin(), consumers.end(),
                    [&](const Consumer& one) { return one.pass == passes; }))
      return steps;
  }
  ADD_FAILURE() << "they wait for ever";
  return steps;
}

TEST(StepGate, EveryConsumerTakesAsManyStepsAsTheRuleSays) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SplitMix64 rng(seed);
    std::vector<std::uint64_t> lengths(1 + rng.below(5));
    for (std::uint64_t& length : lengths) length = rng.below(12);
    const std::uint64_t least = *std::min_element(lengths.begin(), lengths.end());
    const std::uint64_t most = *std::max_element(lengths.begin(), lengths.end());
    for (const Ends ends : {Ends::kUneven, Ends::kDrop, Ends::kPad, Ends::kWrap}) {
      const auto steps = run(ends, lengths, 3, rng);
      for (std::size_t rank = 0; rank < lengths.size(); ++rank)
        for (const std::uint64_t taken : steps[rank])
          EXPECT_EQ(taken, ends == Ends::kUneven ? lengths[rank]
                           : ends == Ends::kDrop ? least
                                                 : most)
              << "seed " << seed << ", rule " << static_cast<int>(ends);
    }
  }
}

TEST(StepGate, WhatIsKnownOnlyGrowsAndNobodyWaitsForWhoIsGone) {
  constexpr std::uint64_t kNone = ~0ull;
  StepGate gate(2);
  EXPECT_EQ(gate.news(0), (StepNews{0, 0, 0, kNone, false}));
  gate.report(0, {0, 5, false});
  gate.report(0, {0, 3, false});
  EXPECT_EQ(gate.news(0), (StepNews{0, 0, 5, kNone, false}));
  gate.report(0, {0, 6, true});
  gate.report(0, {0, 9, false});
  EXPECT_EQ(gate.news(0), (StepNews{0, 0, 6, 6, false}));
  gate.gone(1);
  EXPECT_EQ(gate.news(0), (StepNews{0, 6, 6, 6, true, true}));
  gate.report(1, {0, 4, true});
  EXPECT_EQ(gate.news(0), (StepNews{0, 4, 6, 4, true, true})) << "said before it went";
  for (std::uint32_t pass = 1; pass <= StepGate::kPasses; ++pass) gate.report(0, {pass, 1, true});
  EXPECT_EQ(gate.news(0), (StepNews{0, 0, 0, kNone, false})) << "forgotten";
}

TEST(StepGate, WhoLeavesInTheMiddleOfAPassHoldsUpNobody) {
  StepGate gate(3);
  gate.report(0, {0, 9, true});
  gate.report(1, {0, 8, true});
  gate.report(2, {0, 5, false});
  EXPECT_EQ(gate.news(0), (StepNews{0, 5, 9, 8, false, true}));
  gate.gone(2);
  const StepNews news{0, 8, 9, 8, true, true};
  EXPECT_EQ(gate.news(0), news);
  EXPECT_EQ(step_verdict(Ends::kDrop, 7, {0, 9, true}, news), StepVerdict::kGive);
  EXPECT_EQ(step_verdict(Ends::kDrop, 8, {0, 9, true}, news), StepVerdict::kEnd);
  EXPECT_EQ(step_verdict(Ends::kPad, 8, {0, 8, true}, news), StepVerdict::kFill);
  EXPECT_EQ(step_verdict(Ends::kPad, 9, {0, 8, true}, news), StepVerdict::kEnd);
  gate.report(0, {1, 1, false});
  gate.report(1, {1, 2, false});
  EXPECT_EQ(gate.news(1).least, 1u) << "nor in the next one";
}

}  // namespace
}  // namespace dlrun::io
