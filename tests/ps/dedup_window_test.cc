#include "ps/core/dedup_window.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/base/rng.h"

namespace dlrun::ps {
namespace {

using Seen = DedupWindow::Seen;

TEST(DedupWindow, TellsNewFromAppliedFromTooOld) {
  DedupWindow w;
  EXPECT_EQ(w.look(5), Seen::kNew);
  w.mark(5);
  EXPECT_EQ(w.look(5), Seen::kApplied);
  EXPECT_EQ(w.look(4), Seen::kNew);
  w.mark(5 + kSequencesOpenMax);
  EXPECT_EQ(w.look(5), Seen::kTooOld);
  EXPECT_EQ(w.look(6), Seen::kNew);
}

TEST(DedupWindow, AgreesWithASetUnderRandomOrders) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SplitMix64 rng(seed);
    DedupWindow w;
    std::set<std::uint64_t> applied;
    std::uint64_t highest = 0;
    for (int i = 0; i < 3000; ++i) {
      const std::uint64_t back = rng.below(400);
      const std::uint64_t jump = rng.below(50) == 0 ? rng.below(1000) : rng.below(4);
      const std::uint64_t sequence =
          rng.below(2) == 0 ? highest + 1 + jump : (highest > back ? highest - back : 1);
      const Seen want = sequence + kSequencesOpenMax <= highest ? Seen::kTooOld
                        : applied.contains(sequence)            ? Seen::kApplied
                                                                : Seen::kNew;
      ASSERT_EQ(w.look(sequence), want) << "seed " << seed << " sequence " << sequence;
      if (want == Seen::kNew) {
        w.mark(sequence);
        applied.insert(sequence);
        highest = std::max(highest, sequence);
      }
    }
  }
}

}  // namespace
}  // namespace dlrun::ps
