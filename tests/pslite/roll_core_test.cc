#include "ps/pslite/core/roll_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dlrun::pslite {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

Register node(Role role, int rank = kNobody) {
  Register wish;
  wish.role = role;
  wish.rank = rank;
  wish.workers = 2;
  wish.servers = 1;
  wish.tcp = role == Role::kServer ? "tcp://h:1" : "";
  wish.name = "host";
  return wish;
}

template <class T>
std::map<RollCore::Session, T> of(const RollCore::Effects& effects) {
  std::map<RollCore::Session, T> found;
  for (const auto& [session, payload] : effects)
    if (const T* one = std::get_if<T>(&payload)) found[session] = *one;
  return found;
}

struct Roll : testing::Test {
  RollCore core{{2, 1, 77, seconds(10)}, TimePoint{}};
  /// Sessions 10 (a server), 20 and 21 (workers).
  RollCore::Effects all(int rank20 = kNobody, int rank21 = kNobody) {
    EXPECT_THAT(core.on_register(20, node(Role::kWorker, rank20)), IsEmpty());
    EXPECT_THAT(core.on_register(10, node(Role::kServer)), IsEmpty());
    return core.on_register(21, node(Role::kWorker, rank21));
  }
};

TEST_F(Roll, GivesRanksInTheOrderOfArrivalWhenAllHaveCome) {
  const auto rosters = of<Roster>(all());
  ASSERT_EQ(rosters.size(), 4u) << "each of the three, and the scheduler";
  EXPECT_EQ(rosters.at(20).you, 9);
  EXPECT_EQ(rosters.at(21).you, 11);
  EXPECT_EQ(rosters.at(10).you, 8);
  EXPECT_EQ(rosters.at(RollCore::kSelf).you, kSchedulerId);
  for (const auto& [session, roster] : rosters) {
    EXPECT_EQ(roster.job, 77u);
    ASSERT_EQ(roster.nodes.size(), 3u);
    EXPECT_EQ(roster.nodes[0].tcp, "tcp://h:1");
  }
}

TEST_F(Roll, AWishedRankIsGivenToTheFirstWhoAsks) {
  const auto rosters = of<Roster>(all(1, 1));
  EXPECT_EQ(rosters.at(20).you, 11);
  EXPECT_EQ(rosters.at(21).you, 9);
}

TEST_F(Roll, AWishOutOfRangeIsNone) {
  const auto rosters = of<Roster>(all(7, 0));
  EXPECT_EQ(rosters.at(20).you, 11);
  EXPECT_EQ(rosters.at(21).you, 9);
}

TEST_F(Roll, CustomersOfOneProcessAreSoManyWorkersAndHaveOneAddress) {
  EXPECT_THAT(core.on_register(20, node(Role::kWorker)), IsEmpty());
  EXPECT_THAT(core.on_register(20, node(Role::kWorker)), IsEmpty());
  const auto rosters = of<Roster>(core.on_register(10, node(Role::kServer)));
  ASSERT_EQ(rosters.size(), 3u);
  ASSERT_EQ(rosters.at(20).nodes.size(), 3u);
  EXPECT_EQ(rosters.at(20).nodes[1].process, 9);
  EXPECT_EQ(rosters.at(20).nodes[2].process, 9);
  // Both enter; the process hears of it once.
  EXPECT_THAT(core.on_enter(20, kWorkerBit), IsEmpty());
  const auto passed = of<Passed>(core.on_enter(20, kWorkerBit));
  EXPECT_EQ(passed.size(), 1u);
}

TEST_F(Roll, RefusesOneTooManyAndWhoCountsDifferently) {
  (void)all();
  const auto refused = of<Refused>(core.on_register(22, node(Role::kWorker)));
  EXPECT_THAT(refused.at(22).reason, HasSubstr("the job has its 2 workers already"));

  RollCore other({3, 1, 77, seconds(10)}, TimePoint{});
  EXPECT_THAT(of<Refused>(other.on_register(5, node(Role::kWorker))).at(5).reason,
              HasSubstr("it counts 2 workers and 1 server, the scheduler 3 workers"));
}

TEST_F(Roll, ABarrierOfAGroupPassesWhenEachOfItHasEntered) {
  (void)all();
  EXPECT_THAT(core.on_enter(20, kWorkerBit), IsEmpty());
  EXPECT_THAT(core.on_enter(10, kServerBit + kWorkerBit), IsEmpty()) << "another group";
  auto passed = of<Passed>(core.on_enter(21, kWorkerBit));
  EXPECT_EQ(passed.size(), 2u);
  EXPECT_TRUE(passed.contains(20) && passed.contains(21));
  // And again: rounds are apart.
  EXPECT_THAT(core.on_enter(20, kWorkerBit), IsEmpty());
  EXPECT_EQ(of<Passed>(core.on_enter(21, kWorkerBit)).size(), 2u);
  EXPECT_EQ(of<Passed>(core.on_enter(10, kServerBit)).size(), 1u);
}

TEST_F(Roll, ALostNodeFailsTheJobForEverybodyOnce) {
  (void)all();
  const auto failed = of<Failed>(core.on_lost(21, "nothing heard for 3 s"));
  EXPECT_EQ(failed.size(), 4u);
  EXPECT_THAT(failed.at(10).reason, HasSubstr("worker 1 (host) is lost: nothing heard for 3 s"));
  EXPECT_THAT(core.on_failed(10, "server 0 has lost worker 1"), IsEmpty()) << "the first reason";
}

TEST_F(Roll, WhoHasSaidGoodbyeIsNotLostAndABarrierThatNeedsHimFails) {
  (void)all();
  EXPECT_THAT(core.on_goodbye(21), IsEmpty());
  EXPECT_THAT(core.on_lost(21, "silence"), IsEmpty());
  const auto failed = of<Failed>(core.on_enter(20, kWorkerBit));
  EXPECT_THAT(failed.at(20).reason, HasSubstr("waits for worker 1"));
}

TEST_F(Roll, LeavingWhileOthersWaitForOneFailsTheirBarrier) {
  (void)all();
  EXPECT_THAT(core.on_enter(20, kWorkerBit), IsEmpty());
  EXPECT_THAT(of<Failed>(core.on_goodbye(21)).at(20).reason, HasSubstr("has left"));
}

TEST_F(Roll, WhoIsMissingAtTheDeadlineIsTold) {
  (void)core.on_register(20, node(Role::kWorker));
  EXPECT_THAT(core.on_time(TimePoint{} + seconds(10)), IsEmpty());
  const auto failed = of<Failed>(core.on_time(TimePoint{} + seconds(11)));
  EXPECT_THAT(failed.at(20).reason, HasSubstr("1 of 2 workers, 0 of 1 server"));
  EXPECT_THAT(of<Refused>(core.on_register(10, node(Role::kServer))).at(10).reason,
              HasSubstr("not all nodes have come"));
}

TEST_F(Roll, AllHaveLeftWhenEachHasSaidGoodbye) {
  (void)all();
  (void)core.on_goodbye(20);
  (void)core.on_goodbye(10);
  EXPECT_FALSE(core.all_left());
  (void)core.on_goodbye(21);
  EXPECT_TRUE(core.all_left());
}

}  // namespace
}  // namespace dlrun::pslite
