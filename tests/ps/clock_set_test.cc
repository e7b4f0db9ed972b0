#include "ps/core/clock_set.h"

#include <gtest/gtest.h>

namespace dlrun::ps {
namespace {

constexpr WorkerId kA{1}, kB{2}, kC{3};

TEST(ClockSet, WaitsForWorkersThatHaveNotSpokenYet) {
  Members members(2);
  ClockSet clocks;
  ASSERT_TRUE(members.admit(kA));
  clocks.advance(kA, 5);
  EXPECT_EQ(clocks.lowest(members.active()), 0u);
  ASSERT_TRUE(members.admit(kB));
  clocks.advance(kB, 3);
  EXPECT_EQ(clocks.lowest(members.active()), 3u);
}

TEST(ClockSet, NeverGoesBack) {
  ClockSet clocks;
  clocks.advance(kA, 5);
  clocks.advance(kA, 4);
  EXPECT_EQ(clocks.of(kA), 5u);
}

TEST(Members, RefusesOneWorkerTooMany) {
  Members members(2);
  EXPECT_TRUE(members.admit(kA));
  EXPECT_TRUE(members.admit(kB));
  EXPECT_TRUE(members.admit(kA));
  EXPECT_EQ(members.admit(kC).error().code, Errc::kFailedPrecondition);
}

TEST(Members, AWorkerThatLeftBeforeItSpokeGivesUpItsPlace) {
  Members members(2);
  EXPECT_TRUE(members.admit(kA));
  EXPECT_TRUE(members.leave(kB));
  EXPECT_EQ(members.active(), 1u);
  EXPECT_FALSE(members.leave(kB));
  EXPECT_EQ(members.active(), 1u);
  EXPECT_EQ(members.admit(kB).error().code, Errc::kFailedPrecondition);
}

TEST(Members, ANonMemberThatLeavesChangesNothing) {
  Members members(1);
  EXPECT_TRUE(members.admit(kA));
  EXPECT_FALSE(members.leave(kC));
  EXPECT_EQ(members.active(), 1u);
}

TEST(ClockSet, NobodyLeftToWaitForIsTheEndOfTime) {
  Members members(1);
  ASSERT_TRUE(members.leave(kA));
  EXPECT_EQ(ClockSet{}.lowest(members.active()), ClockSet::kNobody);
}

TEST(WorkerId, IsNeverTheOneThatMeansNobody) {
  for (std::uint32_t rank : {0u, 1u, ~0u}) {
    for (const char* role : {"worker", "chief", "", "w"})
      EXPECT_NE(worker_id(role, rank), kNoWorker);
  }
  EXPECT_NE(worker_id("worker", 0), worker_id("chief", 0));
  EXPECT_LT(worker_id("worker", 0), worker_id("worker", 1));
}

}  // namespace
}  // namespace dlrun::ps
