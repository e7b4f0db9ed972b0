// JobCore: the barriers of a running job.
#include "runtime/cluster/core/job_core.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

TEST(JobCore, ABarrierOpensWhenAllAreThereAndARepeatIsNotAnArrival) {
  JobHarness h(spec_of(2));
  h.place();
  h.run_all_workers(2);
  const Epoch epoch{1, 1};
  h.from("n0", BarrierArrive{h.task("worker", 0), epoch, "b", 1});
  h.from("n0", BarrierArrive{h.task("worker", 0), epoch, "b", 1});
  EXPECT_TRUE(h.sent_of<BarrierDone>().empty());
  h.from("n1", BarrierArrive{h.task("worker", 1), epoch, "b", 1});
  EXPECT_EQ(h.take_of<BarrierDone>().size(), 2u);
  h.from("n0", BarrierArrive{h.task("worker", 0), epoch, "b", 1});
  ASSERT_EQ(h.sent_of<BarrierDone>().size(), 1u) << "its answer was lost: told again";
  EXPECT_EQ(h.take_of<BarrierDone>()[0].round, 1u);
  h.from("n1", BarrierArrive{h.task("worker", 1), epoch, "b", 2});
  EXPECT_TRUE(h.sent_of<BarrierDone>().empty())
      << "the repeat of round 1 did not count for round 2";
}

TEST(JobCore, ARankThatEndedWellIsNotWaitedForAtABarrier) {
  JobHarness h(spec_of(2));
  h.place();
  h.run_all_workers(2);
  h.from("n0", BarrierArrive{h.task("worker", 0), Epoch{1, 1}, "b", 1});
  h.exits("n1", h.task("worker", 1), 0);
  EXPECT_EQ(h.sent_of<BarrierDone>().size(), 1u);
}

TEST(JobCore, ARankThatFailedOpensNoBarrierForItsSiblings) {
  JobHarness h(spec_of(2));
  h.place();
  h.run_all_workers(2);
  h.from("n0", BarrierArrive{h.task("worker", 0), Epoch{1, 1}, "b", 1});
  h.take(h.core->on_input(NodeGone{NodeId{"n1"}, "is lost"}, h.now()));
  h.from("n0", BarrierArrive{h.task("worker", 0), Epoch{1, 1}, "b", 1});
  EXPECT_TRUE(h.sent_of<BarrierDone>().empty());
}

TEST(JobCore, ARecoveredJobRemembersItsFailureAndItsBarriers) {
  JobHarness h(spec_of(3));
  h.place();
  h.run_all_workers(3);
  for (int i = 0; i < 3; ++i)
    h.from("n" + std::to_string(i), BarrierArrive{h.task("worker", i), Epoch{1, 1}, "b", 1});
  h.recover();
  h.from("n0", BarrierArrive{h.task("worker", 0), Epoch{1, 1}, "b", 1});
  EXPECT_EQ(h.sent_of<BarrierDone>().size(), 1u);
  h.exits("n1", h.task("worker", 1), 5);
  h.recover();
  EXPECT_EQ(h.core->state(), JobState::kStopping);
  EXPECT_EQ(h.sent_of<StopTask>().size(), 2u);
}

TEST(JobCore, ABarrierBeyondTheBoundIsToldInTheEventsOnceForEachTask) {
  JobHarness h(spec_of(2));
  h.place();
  h.run_all_workers(2);
  for (std::size_t i = 0; i < kBarriersMax + 3; ++i)
    h.from("n0", BarrierArrive{h.task("worker", 0), Epoch{1, 1}, std::to_string(i), 1});
  std::size_t warned = 0;
  for (const Event& event : h.log)
    if (const auto* e = std::get_if<TaskWarned>(&event)) {
      ++warned;
      EXPECT_EQ(e->task, h.task("worker", 0));
      EXPECT_NE(e->text.find("barriers"), std::string::npos);
    }
  EXPECT_EQ(warned, 1u);
}

}  // namespace
}  // namespace dlrun::cluster
