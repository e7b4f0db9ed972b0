// Who failed first, what a coordinator's restart must not begin anew, and what a node could not do
// as asked.

#include "runtime/cluster/core/job_core.h"
#include "runtime/cluster/core/port_taken.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

/// A running job of two workers on n1, n2 and a shard on n0.
void run_with_a_shard(JobHarness& h) {
  h.place();
  h.update("n0", h.task("ps", 0), TaskState::kReady, {}, "tcp://a:1");
  h.update("n1", h.task("worker", 0), TaskState::kRunning);
  h.update("n2", h.task("worker", 1), TaskState::kRunning);
  h.sent.clear();
}

TEST(JobFailure, AShardThatDiedIsNamedAlsoWhenAWorkerThatSawItEndsFirst) {
  JobHarness h(spec_of(2, 1));
  run_with_a_shard(h);
  h.exits("n1", h.task("worker", 0), 1);
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  EXPECT_TRUE(h.sent_of<TaskEndAck>().empty()) << "not recorded: its agent repeats it";
  h.advance(milliseconds(300));
  h.update("n0", h.task("ps", 0), TaskState::kEnded, TaskEnd{.cause = Cause::kShimLost});
  EXPECT_EQ(h.sent_of<TaskEndAck>().size(), 2u);
  h.update("n2", h.task("worker", 1), TaskState::kEnded,
           TaskEnd{.cause = Cause::kSibling, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kLost);
  ASSERT_TRUE(h.ended->first_failed);
  EXPECT_EQ(h.ended->first_failed->role, "ps");
}

TEST(JobFailure, AWorkerThatFailedByItselfIsNamedWithinASecond) {
  JobHarness h(spec_of(2, 1));
  run_with_a_shard(h);
  h.exits("n1", h.task("worker", 0), 3);
  h.exits("n1", h.task("worker", 0), 3);  // its agent repeats it
  h.advance(milliseconds(699));
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  h.advance(milliseconds(1));
  EXPECT_EQ(h.sent_of<StopTask>().size(), 2u);
  h.update("n0", h.task("ps", 0), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  h.update("n2", h.task("worker", 1), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->first_failed->role, "worker");
  EXPECT_EQ(h.ended->exit_code, 3);
}

TEST(JobFailure, AKillWhileAFailureWaitsEndsTheJobAsKilled) {
  JobHarness h(spec_of(2, 1));
  run_with_a_shard(h);
  h.exits("n1", h.task("worker", 0), 3);
  h.take(h.core->on_input(Kill{{h.job, "enough", {}}}, h.now()));
  EXPECT_EQ(h.sent_of<TaskEndAck>().size(), 1u);
  h.update("n0", h.task("ps", 0), TaskState::kEnded, TaskEnd{.cause = Cause::kUserKill});
  h.update("n2", h.task("worker", 1), TaskState::kEnded, TaskEnd{.cause = Cause::kUserKill});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kCancelled);
}

TEST(JobFailure, ShardsOfAJobThatIsDoneEndWell) {
  JobHarness h(spec_of(2, 1));
  run_with_a_shard(h);
  h.exits("n1", h.task("worker", 0), 0);
  h.exits("n2", h.task("worker", 1), 0);
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u);
  EXPECT_EQ(h.sent_of<StopTask>()[0].cause, Cause::kStopped);
  h.update("n0", h.task("ps", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kStopped, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
  EXPECT_TRUE(h.ended->tasks[0].end.ok());
  EXPECT_EQ(exit_code(h.ended->tasks[0].end), 0);
}

TEST(JobFailure, OnlyRolesWithClocksAreReportedGoneToTheShards) {
  JobSpec spec = spec_of(2, 1);
  RoleSpec board;
  board.name = "board";
  board.kind = RoleKind::kService;
  board.argv = {"board"};
  spec.roles.push_back(board);
  JobHarness h(spec);
  run_with_a_shard(h);
  h.update("n3", h.task("board", 0), TaskState::kRunning);
  h.update("n3", h.task("board", 0), TaskState::kEnded, TaskEnd{.cause = Cause::kShimLost});
  EXPECT_TRUE(h.sent_of<WorkerGone>().empty());
  h.recover();
  EXPECT_TRUE(h.sent_of<WorkerGone>().empty());
  h.exits("n1", h.task("worker", 0), 0);
  ASSERT_EQ(h.sent_of<WorkerGone>().size(), 1u);
  EXPECT_EQ(h.sent_of<WorkerGone>()[0].worker, h.task("worker", 0));
}

TEST(JobFailure, ARestartOfTheCoordinatorDoesNotRestartTheTimeLimit) {
  JobSpec spec = spec_of(1);
  spec.time_limit = seconds(60);
  JobHarness h(spec);
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.advance(seconds(40));
  h.recover();
  h.advance(seconds(19));
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  h.advance(seconds(1));
  EXPECT_EQ(h.sent_of<StopTask>().size(), 1u);
  std::get<JobPlaced>(h.log[1]).at =
      WallTime{h.now().wall.ns + 1'000'000'000'000};  // the clock was set back
  h.log.resize(2);
  h.recover();
  h.advance(seconds(59));
  EXPECT_TRUE(h.sent_of<StopTask>().empty()) << "at most the whole limit, at least nothing";
}

TEST(JobFailure, AWarningIsRecordedOncePerTask) {
  JobHarness h(spec_of(1));
  h.place();
  TaskUpdate update{h.task("worker", 0), Epoch{1, 1}, TaskState::kRunning};
  update.warning = "no memory cgroup";
  h.from("n0", update);
  h.from("n0", update);
  h.recover();
  h.from("n0", update);
  int warned = 0;
  for (const Event& event : h.log)
    if (const auto* e = std::get_if<TaskWarned>(&event)) {
      ++warned;
      EXPECT_EQ(e->text, "no memory cgroup");
      EXPECT_TRUE(is_for_people(event));
    }
  EXPECT_EQ(warned, 1);
}

TEST(JobFailure, ADirectoryOfARoleIsRequiredThatOfTheSubmitterIsNot) {
  JobSpec spec = spec_of(1);
  spec.cwd = "/home/ann";
  JobHarness h(spec);
  h.place();
  ASSERT_EQ(h.sent_of<PrepareTask>().size(), 1u);
  EXPECT_EQ(h.sent_of<PrepareTask>()[0].cwd, "/home/ann");
  EXPECT_FALSE(h.sent_of<PrepareTask>()[0].cwd_required);
  spec.roles[0].cwd = "/data";
  JobHarness other(spec);
  other.place();
  EXPECT_EQ(other.sent_of<PrepareTask>()[0].cwd, "/data");
  EXPECT_TRUE(other.sent_of<PrepareTask>()[0].cwd_required);
}

TEST(JobFailure, APortThatAnotherProgramHasMovesTheJobToOthersThreeTimesAndUsesUpNoRestart) {
  JobSpec spec = spec_of(2);
  spec.restart = {1, {Cause::kExit}};
  JobHarness h(spec);
  const auto finds_it_taken = [&](std::uint32_t generation) {
    h.update("n1", h.task("worker", 1, generation), TaskState::kEnded,
             port_taken_end(20001, NodeId{"n1"}));
    h.update("n0", h.task("worker", 0, generation), TaskState::kEnded,
             TaskEnd{.cause = Cause::kSibling, .signal = 15});
  };
  h.place();
  finds_it_taken(1);
  EXPECT_EQ(h.wants_generation, 2u);
  h.place(2);
  h.exits("n0", h.task("worker", 0, 2), 3);
  h.update("n1", h.task("worker", 1, 2), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  EXPECT_EQ(h.wants_generation, 3u) << "the one restart was still there";
  h.place(3);
  finds_it_taken(3);
  EXPECT_EQ(h.wants_generation, 4u);
  h.recover();
  h.place(4);
  finds_it_taken(4);
  EXPECT_EQ(h.wants_generation, 5u);
  h.place(5);
  finds_it_taken(5);
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_EQ(h.ended->exit_code, 127);
  EXPECT_NE(h.ended->reason.find("port 20001 on node n1"), std::string::npos) << h.ended->reason;
  int told = 0;
  for (const Event& event : h.log)
    if (const auto* e = std::get_if<GenerationEnded>(&event))
      told += e->reason.find("port 20001 on node n1") != std::string::npos;
  EXPECT_EQ(told, 3) << "each move says why";
}

TEST(JobFailure, AKillOfAJobThatMovesEndsIt) {
  JobHarness h(spec_of(2));
  h.place();
  h.update("n1", h.task("worker", 1), TaskState::kEnded, port_taken_end(20001, NodeId{"n1"}));
  h.take(h.core->on_input(Kill{{h.job, "enough", {}}}, h.now()));
  h.update("n0", h.task("worker", 0), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kCancelled);
}

}  // namespace
}  // namespace dlrun::cluster
