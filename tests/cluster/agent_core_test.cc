#include "runtime/cluster/core/agent_core.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dlrun::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AgentTest : public testing::Test {
 protected:
  AgentTest() : core_(settings()) {}
  static AgentSettings settings() {
    AgentSettings s;
    s.node = NodeId{"a"};
    s.incarnation = Incarnation{1};
    return s;
  }
  Now now() const { return {TimePoint{} + at_, WallTime{at_.count()}}; }
  void take(AgentEffects effects) { out_.insert(out_.end(), effects.begin(), effects.end()); }
  void link(std::uint64_t term = 1, std::vector<TaskId> unknown = {}) {
    take(core_.start(now()));
    RegisterAck ack{term, seconds(30), seconds(2), "", "", std::move(unknown), {}, 1};
    take(core_.on_message(ack, now()));
  }
  void tell(ToAgent message) { take(core_.on_message(message, now())); }
  template <class E>
  std::vector<E> of() const {
    std::vector<E> found;
    for (const AgentEffect& effect : out_)
      if (const auto* e = std::get_if<E>(&effect)) found.push_back(*e);
    return found;
  }
  template <class M>
  std::vector<M> said() const {
    std::vector<M> found;
    for (const SendToCoordinator& e : of<SendToCoordinator>())
      if (const auto* m = std::get_if<M>(&e.message)) found.push_back(*m);
    return found;
  }
  PrepareTask prepare(std::uint64_t counter = 1) const {
    PrepareTask m;
    m.task = task_;
    m.epoch = Epoch{1, counter};
    return m;
  }
  StartTask start() const { return StartTask{task_, Epoch{1, 1}, {}, {}}; }
  void run() {
    tell(prepare());
    take(core_.on_prepared(task_, Status{}, now()));
    tell(start());
    take(core_.on_started(task_, 42, now()));
    out_.clear();
  }

  Duration at_{seconds(500)};
  const TaskId task_{JobId{1}, "worker", 0, Generation{1}};
  AgentCore core_;
  AgentEffects out_;
};

TEST_F(AgentTest, RepeatsRegisterWithBackoffUntilItIsAnswered) {
  take(core_.start(now()));
  EXPECT_EQ(said<Register>().size(), 1u);
  at_ += milliseconds(200);
  take(core_.on_tick(now()));
  at_ += milliseconds(399);
  take(core_.on_tick(now()));
  EXPECT_EQ(said<Register>().size(), 2u);
  at_ += milliseconds(1);
  take(core_.on_tick(now()));
  EXPECT_EQ(said<Register>().size(), 3u);
  tell(RegisterAck{1, seconds(30), seconds(2), "", "", {}, {}, 3});
  EXPECT_TRUE(core_.registered());
}

TEST_F(AgentTest, PreparesStartsAndReports) {
  link();
  tell(prepare());
  EXPECT_EQ(of<PrepareDir>().size(), 1u);
  take(core_.on_prepared(task_, Status{}, now()));
  EXPECT_EQ(said<TaskUpdate>().back().state, TaskState::kPrepared);
  tell(start());
  EXPECT_EQ(of<SpawnShim>().size(), 1u);
  tell(start());
  EXPECT_EQ(of<SpawnShim>().size(), 1u) << "a repeat spawns nothing";
  take(core_.on_started(task_, 42, now()));
  EXPECT_EQ(said<TaskUpdate>().back().state, TaskState::kRunning);
  EXPECT_EQ(said<TaskUpdate>().back().pid, 42);
}

TEST_F(AgentTest, ATaskThatCannotBePreparedEndsWithTheReason) {
  link();
  tell(prepare());
  take(core_.on_prepared(task_, fail(Errc::kNotFound, "no program 'train'"), now()));
  EXPECT_EQ(said<TaskUpdate>().back().state, TaskState::kEnded);
  EXPECT_EQ(said<TaskUpdate>().back().end.cause, Cause::kStartFailed);
  EXPECT_EQ(said<TaskUpdate>().back().end.detail, "no program 'train'");
}

TEST_F(AgentTest, RepeatsAnEndUntilItIsAcknowledgedAndThenForgets) {
  link();
  run();
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kExit, .code = 3}, now()));
  EXPECT_EQ(said<TaskUpdate>().size(), 1u);
  at_ += seconds(1);
  take(core_.on_tick(now()));
  EXPECT_EQ(said<TaskUpdate>().size(), 2u);
  tell(TaskEndAck{task_, Epoch{1, 1}});
  EXPECT_EQ(of<CleanTask>().size(), 1u);
  EXPECT_TRUE(core_.tasks().empty());
}

TEST_F(AgentTest, ALatePrepareOfAForgottenTaskStartsNothing) {
  link();
  run();
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kExit}, now()));
  tell(TaskEndAck{task_, Epoch{1, 1}});
  out_.clear();
  tell(prepare());
  EXPECT_TRUE(of<PrepareDir>().empty());
  ASSERT_EQ(said<TaskUpdate>().size(), 1u);
  EXPECT_EQ(said<TaskUpdate>()[0].state, TaskState::kEnded);
}

TEST_F(AgentTest, AStopThatOvertakesItsPrepareKeepsItFromStarting) {
  link();
  tell(StopTask{task_, Epoch{1, 1}, seconds(1), Cause::kUserKill});
  out_.clear();
  tell(prepare());
  EXPECT_TRUE(of<PrepareDir>().empty());
}

TEST_F(AgentTest, RefusesAnOlderEpochOfTheJob) {
  link();
  TaskId newer = task_;
  newer.generation = Generation{2};
  PrepareTask second = prepare(2);
  second.task = newer;
  tell(second);
  out_.clear();
  tell(prepare(1));
  EXPECT_TRUE(of<PrepareDir>().empty());
  EXPECT_EQ(said<TaskUpdate>().back().end.cause, Cause::kShimLost);
}

TEST_F(AgentTest, StartsNothingWhileItsLeaseIsOver) {
  link();
  at_ += seconds(15);  // no HeartbeatAck came: half of the lease
  tell(prepare());
  EXPECT_FALSE(core_.registered());
  EXPECT_TRUE(of<PrepareDir>().empty());
  EXPECT_EQ(said<Register>().size(), 2u);
}

TEST_F(AgentTest, TasksRunOnWhileTheLinkIsDownAndAreReportedAfter) {
  link();
  run();
  take(core_.on_link_down(now()));
  at_ += seconds(1);
  take(core_.on_tick(now()));
  ASSERT_EQ(said<Register>().size(), 1u);
  ASSERT_EQ(said<Register>()[0].tasks.size(), 1u);
  EXPECT_EQ(said<Register>()[0].tasks[0].state, TaskState::kRunning);
  EXPECT_TRUE(of<SignalShim>().empty());
}

TEST_F(AgentTest, KillsWhatTheCoordinatorDoesNotKnow) {
  core_.recover(FoundTask{prepare(), start(), 42, std::nullopt, std::nullopt});
  link(2, {task_});
  ASSERT_EQ(of<SignalShim>().size(), 1u);
  EXPECT_EQ(of<SignalShim>()[0].grace, Duration{0});
}

TEST_F(AgentTest, ReattachesToWhatItFindsOnDisk) {
  core_.recover(FoundTask{prepare(), start(), 42, std::nullopt, std::nullopt});
  TaskId ended = task_;
  ended.rank = 1;
  PrepareTask other = prepare();
  other.task = ended;
  core_.recover(
      FoundTask{other, start(), 43, TaskEnd{.cause = Cause::kExit, .code = 4}, std::nullopt});
  link();
  const Register message = said<Register>().at(0);
  ASSERT_EQ(message.tasks.size(), 2u);
  EXPECT_EQ(message.tasks[0].state, TaskState::kRunning);
  EXPECT_EQ(message.tasks[1].state, TaskState::kEnded);
  EXPECT_EQ(message.tasks[1].end.code, 4);
}

TEST_F(AgentTest, AStopGivesItsCauseToTheSignalButNotToAnExit) {
  link();
  run();
  tell(StopTask{task_, Epoch{1, 1}, seconds(2), Cause::kSibling});
  ASSERT_EQ(of<SignalShim>().size(), 1u);
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kSignal, .signal = 15}, now()));
  EXPECT_EQ(said<TaskUpdate>().back().end.cause, Cause::kSibling);
}

TEST_F(AgentTest, AHigherTermMakesItRegisterAgain) {
  link();
  tell(HeartbeatAck{2, 1, true});
  EXPECT_FALSE(core_.registered());
  EXPECT_EQ(said<Register>().size(), 2u);
}

TEST_F(AgentTest, RepeatsABarrierUntilItIsDoneAndDeliversItOnce) {
  link();
  run();
  take(core_.on_barrier(task_, "b", 1, now()));
  at_ += seconds(1);
  take(core_.on_tick(now()));
  EXPECT_EQ(said<BarrierArrive>().size(), 2u);
  tell(BarrierDone{task_, Epoch{1, 1}, "b", 1});
  tell(BarrierDone{task_, Epoch{1, 1}, "b", 1});
  EXPECT_EQ(of<DeliverBarrier>().size(), 1u);
}

TEST_F(AgentTest, RepeatsACommitUntilItIsAnsweredAndGivesUpAnOlderOne) {
  link();
  run();
  io::InputCursor cursor;
  cursor.input = "train";
  take(core_.on_commit(task_, 71, "ckpt", {cursor}, now()));
  at_ += seconds(1);
  take(core_.on_tick(now()));
  ASSERT_EQ(said<CommitInputs>().size(), 2u);
  EXPECT_EQ(said<CommitInputs>()[1], (CommitInputs{task_, Epoch{1, 1}, 71, "ckpt", {cursor}}));
  take(core_.on_commit(task_, 72, "next", {}, now()));  // its caller gave the first up
  tell(CommitDone{task_, Epoch{1, 1}, 71, 1, {}, ""});
  EXPECT_TRUE(of<DeliverCommit>().empty());
  tell(CommitDone{task_, Epoch{1, 1}, 72, 2, {}, ""});
  tell(CommitDone{task_, Epoch{1, 1}, 72, 2, {}, ""});
  ASSERT_EQ(of<DeliverCommit>().size(), 1u);
  EXPECT_EQ(of<DeliverCommit>()[0].done.number, 2u);
  out_.clear();
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kExit}, now()));
  take(core_.on_commit(task_, 73, "", {}, now()));
  ASSERT_EQ(of<DeliverCommit>().size(), 1u);
  EXPECT_EQ(of<DeliverCommit>()[0].done.error, Errc::kStaleEpoch);
}

TEST_F(AgentTest, WhatFindsAllRequestsOpenIsRefusedOrToldAndNotLeftToItsDeadline) {
  link();
  run();
  for (std::uint64_t i = 1; i <= AgentSettings{}.requests_max; ++i)
    take(core_.on_barrier(task_, "b", i, now()));
  out_.clear();
  take(core_.on_lease(task_, "train", 8, 5, false, {}, {}, now()));
  take(core_.on_files(task_, "train", {}, 6, now()));
  ASSERT_EQ(of<DeliverLease>().size(), 2u);
  for (const DeliverLease& refused : of<DeliverLease>())
    EXPECT_EQ(refused.reply.error, Errc::kOverloaded);
  take(core_.on_commit(task_, 7, "", {}, now()));
  ASSERT_EQ(of<DeliverCommit>().size(), 1u);
  EXPECT_EQ(of<DeliverCommit>()[0].done.error, Errc::kOverloaded);
  EXPECT_TRUE(said<LeaseSplits>().empty());
  for (int i = 0; i < 3; ++i) take(core_.on_barrier(task_, "one more", 1, now()));
  ASSERT_EQ(said<TaskUpdate>().size(), 1u) << "once";
  EXPECT_NE(said<TaskUpdate>()[0].warning.find("requests open"), std::string::npos);
}

TEST_F(AgentTest, OfTheFilesOfAnInputOnlyTheNewestRequestStaysOpen) {
  link();
  run();
  take(core_.on_files(task_, "other", {}, 4, now()));
  for (std::uint64_t i = 5; i < 9; ++i) take(core_.on_files(task_, "train", {}, i, now()));
  out_.clear();
  at_ += seconds(1);
  take(core_.on_tick(now()));
  ASSERT_EQ(said<InputFiles>().size(), 2u);
  EXPECT_EQ(said<InputFiles>()[0].request + said<InputFiles>()[1].request, 4u + 8u);
}

TEST_F(AgentTest, AnArrivalThatFindsAllRequestsOpenIsLateAndNotLost) {
  link();
  run();
  const std::uint64_t most = AgentSettings{}.requests_max;
  for (std::uint64_t i = 1; i <= most; ++i) take(core_.on_barrier(task_, "b", i, now()));
  out_.clear();
  take(core_.on_barrier(task_, "late", 1, now()));
  take(core_.on_barrier(task_, "later", 1, now()));
  take(core_.on_barrier(task_, "late", 2, now()));  // its caller gave up the first
  EXPECT_TRUE(said<BarrierArrive>().empty());
  tell(BarrierDone{task_, Epoch{1, 1}, "b", 1});  // there is room for one
  ASSERT_EQ(said<BarrierArrive>().size(), 1u);
  EXPECT_EQ(said<BarrierArrive>()[0].name, "late");
  EXPECT_EQ(said<BarrierArrive>()[0].round, 2u);
  out_.clear();
  tell(BarrierDone{task_, Epoch{1, 1}, "late", 2});
  ASSERT_EQ(of<DeliverBarrier>().size(), 1u);
  EXPECT_EQ(of<DeliverBarrier>()[0].name, "late");
  ASSERT_EQ(said<BarrierArrive>().size(), 1u);
  EXPECT_EQ(said<BarrierArrive>()[0].name, "later");
  // What waits when its task ends is forgotten with it.
  take(core_.on_barrier(task_, "too late", 1, now()));
  out_.clear();
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kExit}, now()));
  EXPECT_TRUE(said<BarrierArrive>().empty());
}

TEST_F(AgentTest, ACommitThatIsAskedForAgainWhileItIsUnderWayIsAnsweredSoAndNotBegunAgain) {
  link();
  run();
  const CommitOutputs commit{task_, Epoch{1, 1}, {{"m", "/x", "worker"}}};
  for (int i = 0; i < 3; ++i) tell(commit);
  EXPECT_EQ(of<PublishOutputs>().size(), 1u);
  ASSERT_EQ(said<OutputsCommitted>().size(), 2u);
  EXPECT_EQ(said<OutputsCommitted>()[0].error, Errc{});
  EXPECT_TRUE(said<OutputsCommitted>()[0].under_way);
  take(core_.on_publishing(task_, Epoch{1, 1}, 17, now()));
  take(core_.on_publishing(task_, Epoch{1, 2}, 99, now()));  // another's
  out_.clear();
  tell(commit);
  ASSERT_EQ(said<OutputsCommitted>().size(), 1u);
  EXPECT_EQ(said<OutputsCommitted>()[0].progress, 17u);
  out_.clear();
  take(core_.on_published(task_, Epoch{1, 1}, Status{}, now()));
  ASSERT_EQ(said<OutputsCommitted>().size(), 1u);
  EXPECT_EQ(said<OutputsCommitted>()[0].error, Errc{});
  EXPECT_FALSE(said<OutputsCommitted>()[0].under_way);
  tell(commit);
  EXPECT_EQ(of<PublishOutputs>().size(), 1u) << "its answer was lost";
}

TEST_F(AgentTest, AnEndWaitsUntilTheLastNewsOfItsFeederIsRecordedAlsoWhenThatComesLate) {
  link();
  run();
  take(core_.on_lease(task_, "train", 8, 5, false, {}, {{4, 0}}, now()));
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kExit}, now()));
  EXPECT_EQ(said<TaskUpdate>().back().state, TaskState::kStopping);
  at_ += seconds(1);
  take(core_.on_tick(now()));
  ASSERT_EQ(said<LeaseSplits>().size(), 2u);
  EXPECT_EQ(said<LeaseSplits>().back().splits_max, 0u) << "it wants no more splits";
  EXPECT_EQ(said<LeaseSplits>().back().done, (std::vector<io::SplitKey>{{4, 0}}));
  tell(LeaseReply{task_, Epoch{1, 1}, 5, {}, "", {}});
  EXPECT_EQ(said<TaskUpdate>().back().state, TaskState::kEnded);
  take(core_.on_lease(task_, "train", 0, 6, false, {}, {{5, 0}}, now()));
  EXPECT_EQ(said<LeaseSplits>().back().done, (std::vector<io::SplitKey>{{5, 0}}));
  out_.clear();
  take(core_.on_lease(task_, "train", 4, 7, false, {}, {}, now()));
  ASSERT_EQ(of<DeliverLease>().size(), 1u);
  EXPECT_EQ(of<DeliverLease>()[0].reply.error, Errc::kStaleEpoch);
}

TEST_F(AgentTest, AProgramThatIsReadyBeforeItsShimSaysItRunsKeepsItsPidAndItsStop) {
  link();
  tell(prepare());
  take(core_.on_prepared(task_, Status{}, now()));
  tell(start());
  tell(StopTask{task_, Epoch{1, 1}, seconds(2), Cause::kSibling});
  EXPECT_TRUE(of<SignalShim>().empty()) << "nothing runs yet";
  take(core_.on_ready(task_, TaskReadyInfo{"tcp://a:1", ""}, now()));
  ASSERT_EQ(of<SignalShim>().size(), 1u);
  take(core_.on_started(task_, 42, now()));
  EXPECT_EQ(of<SignalShim>().size(), 1u);
  EXPECT_EQ(said<TaskUpdate>().back().pid, 42);
  EXPECT_EQ(said<TaskUpdate>().back().state, TaskState::kReady);
}

TEST_F(AgentTest, AWarningOfTheShimGoesWithEveryUpdate) {
  link();
  tell(prepare());
  take(core_.on_prepared(task_, Status{}, now()));
  tell(start());
  take(core_.on_started(task_, 42, now(), "no memory cgroup"));
  EXPECT_EQ(said<TaskUpdate>().back().warning, "no memory cgroup");
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kExit}, now()));
  EXPECT_EQ(said<TaskUpdate>().back().warning, "no memory cgroup");
}

TEST_F(AgentTest, ACommandForATaskThatIsNotHereIsAnsweredWithItsEnd) {
  link();
  tell(start());
  ASSERT_EQ(said<TaskUpdate>().size(), 1u);
  EXPECT_EQ(said<TaskUpdate>()[0].state, TaskState::kEnded);
  EXPECT_EQ(said<TaskUpdate>()[0].end.cause, Cause::kShimLost);
}

TEST_F(AgentTest, OfManyProgressReportsFiveASecondAreToldAndTheLastOneAlways) {
  link();
  run();
  for (int i = 1; i <= 1000; ++i) {  // one second of a script that reports each step
    take(core_.on_progress(task_, i / 1000.0, std::to_string(i), now()));
    at_ += milliseconds(1);
    if (const auto wake = core_.next_wake(); wake && *wake <= now().at) take(core_.on_tick(now()));
  }
  EXPECT_GE(said<Progress>().size(), 4u);
  EXPECT_LE(said<Progress>().size(), 6u);
  ASSERT_TRUE(core_.next_wake());
  at_ += milliseconds(200);
  take(core_.on_tick(now()));
  EXPECT_EQ(said<Progress>().back().text, "1000");
  const std::size_t before = said<Progress>().size();
  at_ += milliseconds(1000);
  take(core_.on_tick(now()));
  EXPECT_EQ(said<Progress>().size(), before) << "nothing new to tell";
}

TEST_F(AgentTest, TheLastProgressIsToldBeforeTheEnd) {
  link();
  run();
  take(core_.on_progress(task_, 0.5, "half", now()));
  take(core_.on_progress(task_, 1.0, "all", now()));
  take(core_.on_exit(task_, TaskEnd{.cause = Cause::kExit}, now()));
  ASSERT_EQ(said<Progress>().size(), 2u);
  EXPECT_EQ(said<Progress>()[1].text, "all");
}

TEST_F(AgentTest, StopsOfTasksThatAreNotHereAreRememberedWithinTheBound) {
  AgentSettings small = settings();
  small.tombstones_max = 4;
  core_ = AgentCore(small);
  link();
  const auto stop = [&](std::uint64_t job) {
    tell(StopTask{
        TaskId{JobId{job}, "worker", 0, Generation{1}}, Epoch{1, job}, {}, Cause::kUserKill});
  };
  for (std::uint64_t job = 1; job <= 100; ++job) stop(job);
  EXPECT_LE(core_.tombstones(), 4u);
  out_.clear();
  PrepareTask late = prepare(100);
  late.task.job = JobId{100};
  tell(late);
  EXPECT_TRUE(of<PrepareDir>().empty()) << "the newest are remembered";
}

TEST_F(AgentTest, OfTheEpochsOfIdleJobsTheNewestAreKept) {
  AgentSettings small = settings();
  small.tombstones_max = 3;
  core_ = AgentCore(small);
  link();
  for (std::uint64_t job = 1; job <= 4; ++job) {  // each comes and goes
    PrepareTask m = prepare(10 + job);
    m.task.job = JobId{job};
    tell(m);
    take(core_.on_prepared(m.task, fail(Errc::kIo, "no"), now()));
    tell(TaskEndAck{m.task, m.epoch});
  }
  out_.clear();
  PrepareTask stale = prepare(1);  // an older epoch of the newest job
  stale.task.job = JobId{4};
  tell(stale);
  EXPECT_TRUE(of<PrepareDir>().empty());
}

}  // namespace
}  // namespace dlrun::cluster
