#include "runtime/cluster/core/barrier_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrun::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const BarrierSet::Key kStep{"worker", "step"};

TEST(BarrierSet, ClosesOnceAllWhoAreExpectedHaveArrived) {
  BarrierSet set;
  ASSERT_TRUE(set.arrive(kStep, 0));
  ASSERT_TRUE(set.arrive(kStep, 0));
  EXPECT_FALSE(set.close_if_met(kStep, {0, 1}));
  ASSERT_TRUE(set.arrive(kStep, 1));
  const auto arrived = set.close_if_met(kStep, {0, 1});
  ASSERT_TRUE(arrived);
  EXPECT_THAT(*arrived, ElementsAre(0, 1));
  EXPECT_FALSE(set.close_if_met(kStep, {0, 1})) << "the next round starts with nobody";
}

TEST(BarrierSet, ABarrierThatNobodyEnteredIsNotMetByNobody) {
  BarrierSet set;
  EXPECT_FALSE(set.close_if_met(kStep, {}));
}

TEST(BarrierSet, NamesAreOfARole) {
  BarrierSet set;
  ASSERT_TRUE(set.arrive(kStep, 0));
  ASSERT_TRUE(set.arrive({"chief", "step"}, 3));
  EXPECT_THAT(set.open_in("worker"), ElementsAre(kStep));
  EXPECT_FALSE(set.close_if_met(kStep, {0, 3}));
}

TEST(BarrierSet, NamesThatComeAfterTheBoundAreNotKept) {
  BarrierSet set;
  for (std::size_t i = 0; i < kBarriersMax; ++i)
    ASSERT_TRUE(set.arrive({"worker", std::to_string(i)}, 0));
  EXPECT_FALSE(set.arrive({"worker", "one more"}, 0));
  EXPECT_TRUE(set.arrive({"worker", "0"}, 1)) << "one that is open takes arrivals";
  set.clear();
  EXPECT_THAT(set.open_in("worker"), IsEmpty());
}

TEST(BarrierSet, TheOpenRoundIsTheOneAfterTheLastThatWasMet) {
  JobRecord record;
  EXPECT_EQ(open_round(record, kStep), 1u);
  record.barriers_met[kStep] = 4;
  EXPECT_EQ(open_round(record, kStep), 5u);
}

}  // namespace
}  // namespace dlrun::cluster
