// JobCore: jobs on hold, preempted jobs, and outputs that take their places at the end.
#include "runtime/cluster/core/job_core.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

TEST(JobCore, AHeldJobSaysSoUntilItIsReleased) {
  JobSpec spec = spec_of(1);
  spec.hold = true;
  JobHarness h(spec);
  EXPECT_EQ(h.core->state(), JobState::kHeld);
  const JobHeld released{h.job, false, "", {}};
  h.log.push_back(released);
  h.take(h.core->on_input(Hold{released}, h.now()));
  EXPECT_EQ(h.core->state(), JobState::kPending);
  h.recover();
  EXPECT_EQ(h.core->state(), JobState::kPending);
  h.place();
  EXPECT_EQ(h.core->state(), JobState::kStarting);
}

void preempt(JobHarness& h, std::uint32_t generation) {
  const JobStateChanged stopping{
      h.job, Generation{generation}, JobState::kStopping, Cause::kPreempted, "requeued by a user",
      {}};
  h.log.push_back(stopping);
  h.take(h.core->on_input(Preempt{stopping}, h.now()));
}

TEST(JobCore, APreemptedJobStopsWithItsGraceIsQueuedAgainAndUsesUpNoRestart) {
  JobSpec spec = spec_of(2);
  spec.restart = {1, {Cause::kExit}};
  JobHarness h(spec);
  h.place();
  h.run_all_workers(2);
  preempt(h, 1);
  const auto stops = h.take_of<StopTask>();
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0].cause, Cause::kPreempted);
  EXPECT_EQ(stops[0].grace, spec.grace);
  EXPECT_EQ(h.core->state(), JobState::kStopping);
  // One saves and ends well, one dies of its signal: neither is an end of the job.
  h.exits("n0", h.task("worker", 0), 0);
  h.update("n1", h.task("worker", 1), TaskState::kEnded,
           TaskEnd{.cause = Cause::kPreempted, .signal = 15});
  EXPECT_FALSE(h.ended);
  EXPECT_EQ(h.wants_generation, 2u);
  EXPECT_EQ(h.core->state(), JobState::kPreempted);
  h.recover();
  EXPECT_EQ(h.core->state(), JobState::kPreempted);
  h.place(2);
  h.exits("n0", h.task("worker", 0, 2), 3);
  h.update("n1", h.task("worker", 1, 2), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  EXPECT_FALSE(h.ended) << "the one restart is still there";
  EXPECT_EQ(h.wants_generation, 3u);
  EXPECT_EQ(h.core->state(), JobState::kPending);
}

TEST(JobCore, AKillOfAPreemptedJobEndsIt) {
  JobHarness h(spec_of(1));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  preempt(h, 1);
  h.take(h.core->on_input(Kill{{h.job, "", {}}}, h.now()));
  h.update("n0", h.task("worker", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kPreempted, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kCancelled);
}

JobSpec spec_with_output(std::uint32_t workers) {
  JobSpec spec = spec_of(workers);
  spec.restart = {3, {Cause::kNodeLost}};
  spec.outputs = {{"model", "/out/model", "worker"}};
  return spec;
}

TEST(JobCore, OutputsAreCommittedByOneGrantThatIsOnDiskBeforeAnyAgentHearsOfIt) {
  JobHarness h(spec_with_output(2));
  h.place();
  const auto prepared = h.take_of<PrepareTask>();
  ASSERT_EQ(prepared.size(), 2u);
  EXPECT_EQ(prepared[0].outputs.size(), 1u) << "rank 0 writes it";
  EXPECT_TRUE(prepared[1].outputs.empty());
  h.run_all_workers(2);
  h.exits("n1", h.task("worker", 1), 0);
  h.hold_store = true;
  h.exits("n0", h.task("worker", 0), 0);
  EXPECT_TRUE(h.sent_of<CommitOutputs>().empty());
  EXPECT_EQ(h.core->state(), JobState::kCommitting);
  h.release_store();  // the end of the task, with it the grant or right after
  const auto commits = h.take_of<CommitOutputs>();
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].epoch, (Epoch{1, 1}));
  EXPECT_TRUE(std::any_of(h.log.begin(), h.log.end(),
                          [](const Event& e) { return std::holds_alternative<CommitGranted>(e); }));
  EXPECT_FALSE(h.ended);
  h.advance(seconds(1));
  EXPECT_EQ(h.take_of<CommitOutputs>().size(), 1u) << "repeated until it is answered";
  h.from("n1", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, {}, ""});
  EXPECT_FALSE(h.ended) << "another node speaks for nobody";
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 9}, {}, ""});
  EXPECT_FALSE(h.ended) << "another epoch";
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, {}, ""});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

TEST(JobCore, AJobThatFailedCommitsNothing) {
  JobHarness h(spec_with_output(1));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.exits("n0", h.task("worker", 0), 1);
  ASSERT_TRUE(h.ended);
  EXPECT_TRUE(h.sent_of<CommitOutputs>().empty());
}

TEST(JobCore, ACoordinatorThatDiesWhileItCommitsGoesOnCommitting) {
  JobHarness h(spec_with_output(1));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.exits("n0", h.task("worker", 0), 0);
  EXPECT_EQ(h.core->state(), JobState::kCommitting);
  h.recover();
  EXPECT_EQ(h.core->state(), JobState::kCommitting);
  EXPECT_EQ(h.take_of<CommitOutputs>().size(), 1u);
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, {}, ""});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

TEST(JobCore, AnOutputThatCannotTakeItsPlaceFailsTheJobWithTheReason) {
  JobHarness h(spec_with_output(1));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.exits("n0", h.task("worker", 0), 0);
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, Errc::kAlreadyExists,
                                "/out/model exists already"});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_NE(h.ended->reason.find("/out/model exists already"), std::string::npos)
      << h.ended->reason;
  EXPECT_NE(h.ended->exit_code, 0);
}

TEST(JobCore, ANodeLostWhileItCommitsEndsTheJobAndNoGenerationFollows) {
  JobHarness h(spec_with_output(1));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.exits("n0", h.task("worker", 0), 0);
  h.take(h.core->on_input(NodeGone{NodeId{"n0"}, "is lost"}, h.now()));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kLost);
  EXPECT_EQ(h.wants_generation, 0u);
}

TEST(JobCore, ACommitThatNobodyAnswersEndsInTime) {
  JobHarness h(spec_with_output(1));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.exits("n0", h.task("worker", 0), 0);
  ASSERT_TRUE(h.core->next_wake());
  h.advance(seconds(121));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
}

/// A job that commits.
struct Committing : JobHarness {
  Committing() : JobHarness(spec_with_output(1)) {
    place();
    update("n0", task("worker", 0), TaskState::kRunning);
    exits("n0", task("worker", 0), 0);
  }
};
void under_way(JobHarness& h, std::uint64_t progress) {
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, {}, "", true, progress});
}
void done(JobHarness& h) {
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, {}, ""});
}

TEST(JobCore, ACommitThatGetsOnMayTakeItsTimeAndOneThatStandsStillEndsTheJob) {
  Committing h;
  std::uint64_t files = 0;
  for (int minute = 0; minute < 300; ++minute) {
    h.advance(seconds(60));
    if (minute % 20 == 0) ++files;
    under_way(h, files);
  }
  EXPECT_FALSE(h.ended) << "five hours, a file in twenty minutes";
  under_way(h, 0);  // a new agent process began anew
  int minutes = 0;
  for (; minutes < 60 && !h.ended; ++minutes) {
    h.advance(seconds(60));
    if (!h.ended) under_way(h, 0);
  }
  EXPECT_EQ(minutes, 30);
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_NE(h.ended->reason.find("worker/0#1 on n0 does not get on"), std::string::npos)
      << h.ended->reason;
  EXPECT_NE(h.ended->exit_code, 0);
}

TEST(JobCore, AFailureThatIsCalledOverloadedIsAFailure) {
  Committing h;
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, Errc::kOverloaded, "no quota"});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
}

TEST(JobCore, AKillWaitsItsGraceForACommitAndThenCancelsTheJob) {
  const auto kill = [](JobHarness& h) {
    const JobKillRequested request{h.job, "", {}};
    h.log.push_back(request);
    h.take(h.core->on_input(Kill{request}, h.now()));
  };
  Committing late;
  kill(late);
  late.advance(seconds(29));
  EXPECT_FALSE(late.ended);
  done(late);
  ASSERT_TRUE(late.ended);
  EXPECT_EQ(late.ended->state, JobState::kSucceeded) << "they are in their places";

  Committing h;
  kill(h);
  h.recover();
  ASSERT_TRUE(h.core->next_wake());
  for (int i = 0; i < 3; ++i) {
    under_way(h, 1);
    h.advance(seconds(9));
  }
  EXPECT_FALSE(h.ended);
  under_way(h, 2);
  h.advance(seconds(4));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kCancelled);
  EXPECT_NE(h.ended->reason.find("may be there or still come"), std::string::npos)
      << h.ended->reason;
  EXPECT_EQ(h.ended->exit_code, 130);
}

TEST(JobCore, ADeadlineThatPassedWhileNobodyLookedIsNoReasonToGiveUp) {
  JobHarness h(spec_with_output(1));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.exits("n0", h.task("worker", 0), 0);
  h.advance(seconds(600));  // as a process that was stopped
  EXPECT_FALSE(h.ended);
  h.from("n0", OutputsCommitted{h.task("worker", 0), Epoch{1, 1}, {}, ""});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);

  JobHarness other(spec_of(1));
  other.place();
  other.advance(seconds(600));
  EXPECT_NE(other.core->state(), JobState::kStopping);
  other.advance(seconds(6));
  EXPECT_EQ(other.core->state(), JobState::kStopping);

  JobHarness always(spec_of(1));  // nobody ever looks in time
  always.place();
  always.advance(seconds(600));
  EXPECT_NE(always.core->state(), JobState::kStopping);
  always.advance(seconds(600));
  EXPECT_EQ(always.core->state(), JobState::kStopping) << "put off once, not for ever";
}

}  // namespace
}  // namespace dlrun::cluster
