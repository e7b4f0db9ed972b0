// End rules at work in a job: who is waited for, who lingers and how long, what a restart of the
// coordinator remembers of it.

#include "runtime/cluster/core/job_core.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

/// worker/0 and worker/1 on n0, n1; a process `other` on n2, with this rule.
JobSpec spec_with(EndRule rule) {
  JobSpec spec = spec_of(2);
  RoleSpec other;
  other.name = "other";
  other.argv = {"other"};
  other.end = rule;
  spec.roles.push_back(other);
  return spec;
}

void run(JobHarness& h) {
  h.place();
  for (const auto& [node, role, rank] :
       {std::tuple{"n0", "worker", 0u}, {"n1", "worker", 1u}, {"n2", "other", 0u}}) {
    h.update(node, h.task(role, rank), TaskState::kPrepared);
    h.update(node, h.task(role, rank), TaskState::kRunning);
  }
  h.sent.clear();
}

void stopped(JobHarness& h, const char* node, const TaskId& task) {
  h.update(node, task, TaskState::kEnded, TaskEnd{.cause = Cause::kStopped, .signal = 15});
}

TEST(JobEnd, AServerHasItsGraceAfterTheWorkersBeforeItIsStopped) {
  JobSpec spec = spec_with(EndRule::kServes);
  spec.roles[1].linger = seconds(20);
  JobHarness h(spec);
  run(h);
  h.exits("n0", h.task("worker", 0), 0);
  h.exits("n1", h.task("worker", 1), 0);
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  EXPECT_EQ(h.core->state(), JobState::kStopping);
  ASSERT_TRUE(h.core->next_wake());
  h.advance(seconds(20) - milliseconds(1));
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  h.advance(milliseconds(1));
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u);
  EXPECT_EQ(h.sent_of<StopTask>()[0].cause, Cause::kStopped);
  EXPECT_EQ(h.sent_of<StopTask>()[0].task, h.task("other", 0));
  stopped(h, "n2", h.task("other", 0));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
  EXPECT_EQ(h.ended->exit_code, 0);
}

TEST(JobEnd, AServerThatEndsByItselfInItsGraceEndsTheJobAtOnceHoweverItEnds) {
  for (const int code : {0, 9}) {
    JobHarness h(spec_with(EndRule::kServes));
    run(h);
    h.exits("n0", h.task("worker", 0), 0);
    h.exits("n1", h.task("worker", 1), 0);
    h.exits("n2", h.task("other", 0), code);
    ASSERT_TRUE(h.ended) << code;
    EXPECT_EQ(h.ended->state, JobState::kSucceeded) << "its workers are gone: it may stumble";
    EXPECT_TRUE(h.sent_of<StopTask>().empty());
  }
}

TEST(JobEnd, AServerThatFailsUnderItsWorkersFailsTheJob) {
  JobHarness h(spec_with(EndRule::kServes));
  run(h);
  h.exits("n2", h.task("other", 0), 9);
  EXPECT_EQ(h.sent_of<StopTask>().size(), 2u);
  h.update("n0", h.task("worker", 0), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  h.update("n1", h.task("worker", 1), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_EQ(h.ended->exit_code, 9);
  EXPECT_EQ(h.ended->first_failed->role, "other");
}

TEST(JobEnd, AChiefsExitStopsWorkersThatDoNotEndByThemselves) {
  JobHarness h(spec_with(EndRule::kDecides));
  run(h);
  h.exits("n2", h.task("other", 0), 0);
  h.exits("n0", h.task("worker", 0), 0);
  EXPECT_TRUE(h.sent_of<StopTask>().empty()) << "they have a moment to end by themselves";
  h.advance(seconds(5));
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u);
  EXPECT_EQ(h.sent_of<StopTask>()[0].task, h.task("worker", 1));
  stopped(h, "n1", h.task("worker", 1));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

TEST(JobEnd, AnEvaluatorsFailureIsShownAndChangesNothing) {
  JobHarness h(spec_with(EndRule::kIgnored));
  run(h);
  h.exits("n2", h.task("other", 0), 1);
  h.advance(seconds(2));
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  h.exits("n0", h.task("worker", 0), 0);
  h.exits("n1", h.task("worker", 1), 0);
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
  EXPECT_EQ(h.ended->exit_code, 0);
  EXPECT_EQ(h.ended->tasks[2].end.code, 1);
}

TEST(JobEnd, ARestartOfTheCoordinatorDoesNotBeginTheGraceAnew) {
  JobSpec spec = spec_with(EndRule::kServes);
  spec.roles[1].linger = seconds(20);
  JobHarness h(spec);
  run(h);
  h.exits("n0", h.task("worker", 0), 0);
  h.exits("n1", h.task("worker", 1), 0);
  h.advance(seconds(15));
  h.recover();
  h.update("n2", h.task("other", 0), TaskState::kRunning);
  h.advance(seconds(5) - milliseconds(1));
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  h.advance(milliseconds(1));
  EXPECT_EQ(h.sent_of<StopTask>().size(), 1u);
}

TEST(JobEnd, AKillOfAJobThatIsDoneEndsTheGrace) {
  JobSpec spec = spec_with(EndRule::kServes);
  spec.roles[1].linger = seconds(3600);
  JobHarness h(spec);
  run(h);
  h.exits("n0", h.task("worker", 0), 0);
  h.exits("n1", h.task("worker", 1), 0);
  h.take(h.core->on_input(Kill{{h.job, "enough", {}}}, h.now()));
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u);
  stopped(h, "n2", h.task("other", 0));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded) << "it was done before it was killed";
}

TEST(JobEnd, NothingWakesTheJobWhileWhatWasStoppedEnds) {
  JobHarness h(spec_with(EndRule::kServes));
  run(h);
  h.exits("n0", h.task("worker", 0), 0);
  h.exits("n1", h.task("worker", 1), 0);
  h.advance(seconds(5));
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u);
  h.advance(milliseconds(300));  // a report that was due
  ASSERT_TRUE(h.core->next_wake());
  EXPECT_GT(*h.core->next_wake(), h.now().at) << "the end of the grace is no time to wake again";
}

TEST(JobEnd, ATolerantRolesFailuresStopNobodyUntilTheyAreTooMany) {
  JobSpec spec = spec_of(4);
  spec.roles[0].end = EndRule::kTolerant;
  JobHarness h(spec);
  h.place();
  h.run_all_workers(4);
  h.exits("n2", h.task("worker", 2), 7);
  h.advance(seconds(1));
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  h.exits("n0", h.task("worker", 0), 8);
  EXPECT_EQ(h.sent_of<StopTask>().size(), 2u);
  for (const std::uint32_t rank : {1u, 3u})
    h.update("n" + std::to_string(rank), h.task("worker", rank), TaskState::kEnded,
             TaskEnd{.cause = Cause::kSibling, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_EQ(h.ended->exit_code, 7) << "of the first of them";
  EXPECT_EQ(h.ended->first_failed->rank, 2u);
}

TEST(JobEnd, AReplayOfTheLogComesToTheSameVerdict) {
  JobSpec spec = spec_of(3);
  spec.roles[0].end = EndRule::kQuorum;
  spec.roles[0].quorum = 2;
  JobHarness h(spec);
  h.place();
  h.run_all_workers(3);
  h.exits("n1", h.task("worker", 1), 1);
  h.advance(seconds(1));
  h.exits("n0", h.task("worker", 0), 0);
  h.recover();
  EXPECT_EQ(h.core->record().verdict, Verdict::kNone);
  h.exits("n2", h.task("worker", 2), 0);
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

}  // namespace
}  // namespace dlrun::cluster
