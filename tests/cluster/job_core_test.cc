#include "runtime/cluster/core/job_core.h"

#include <algorithm>

#include "io/core/ledger_core.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

std::string env_of(const EnvList& env, const std::string& name) {
  for (const auto& [key, value] : env)
    if (key == name) return value;
  return "(none)";
}

TEST(JobCore, StartsNobodyBeforeTheWholeGangIsPrepared) {
  JobHarness h(spec_of(3));
  h.place();
  EXPECT_EQ(h.take_of<PrepareTask>().size(), 3u);
  EXPECT_EQ(h.core->state(), JobState::kStaging);
  h.update("n0", h.task("worker", 0), TaskState::kPrepared);
  h.update("n1", h.task("worker", 1), TaskState::kPrepared);
  EXPECT_TRUE(h.sent_of<StartTask>().empty());
  h.update("n2", h.task("worker", 2), TaskState::kPrepared);
  EXPECT_EQ(h.take_of<StartTask>().size(), 3u);
  EXPECT_EQ(h.core->state(), JobState::kStarting);
}

TEST(JobCore, AGangOfOneIsPreparedAndStartedByOneMessage) {
  JobHarness h(spec_of(1));
  h.place();
  const auto prepare = h.take_of<PrepareTask>();
  ASSERT_EQ(prepare.size(), 1u);
  EXPECT_TRUE(prepare[0].start_at_once);
  EXPECT_EQ(env_of(prepare[0].env, "RANK"), "0");
  EXPECT_EQ(env_of(prepare[0].env, "WORLD_SIZE"), "1");
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  EXPECT_EQ(h.core->state(), JobState::kRunning);
  h.exits("n0", h.task("worker", 0), 0);
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

TEST(JobCore, TheFinalRecordAnswersForTheJobByItself) {
  JobHarness h(spec_of(2));
  h.place();
  for (unsigned i = 0; i < 2; ++i) h.exits("n" + std::to_string(i), h.task("worker", i), 0);
  ASSERT_TRUE(h.ended);
  const auto* record = std::get_if<JobEnded>(&h.log.back());
  ASSERT_NE(record, nullptr);
  EXPECT_TRUE(record->view == *h.ended);
  EXPECT_EQ(record->view.spec.name, spec_of(2).name);
  EXPECT_FALSE(record->view.spec.name.empty());
  EXPECT_EQ(record->view.tasks.size(), 2u);
}

TEST(JobCore, TheFinalRecordHoldsTheWholeViewButNotTheSubmittersEnvironment) {
  JobSpec spec = spec_of(1);
  spec.submit_env = {{"SECRET", "x"}};
  JobHarness h(spec);
  h.place();
  h.exits("n0", h.task("worker", 0), 3);
  ASSERT_TRUE(h.ended);
  const JobView& recorded = std::get<JobEnded>(h.log.back()).view;
  EXPECT_EQ(recorded.spec.name, "job");
  EXPECT_TRUE(recorded.spec.submit_env.empty());
  ASSERT_EQ(recorded.tasks.size(), 1u);
  EXPECT_EQ(recorded.tasks[0].end.code, 3);
  EXPECT_EQ(recorded.reason, h.ended->reason);
  EXPECT_FALSE(recorded.reason.empty());
}

TEST(JobCore, GivesEachRankItsRendezvous) {
  JobHarness h(spec_of(2));
  h.place();
  h.sent.clear();
  h.update("n0", h.task("worker", 0), TaskState::kPrepared);
  h.update("n1", h.task("worker", 1), TaskState::kPrepared);
  const auto start = h.take_of<StartTask>();
  ASSERT_EQ(start.size(), 2u);
  EXPECT_EQ(env_of(start[1].env, "DLRUN_JOB"), "j1");
  EXPECT_EQ(env_of(start[1].env, "DLRUN_ROLE"), "worker");
  EXPECT_EQ(env_of(start[1].env, "RANK"), "1");
  EXPECT_EQ(env_of(start[1].env, "WORLD_SIZE"), "2");
  EXPECT_EQ(env_of(start[1].env, "LOCAL_RANK"), "0");
  EXPECT_EQ(env_of(start[1].env, "MASTER_ADDR"), "10.0.0.0");
  EXPECT_EQ(env_of(start[1].env, "MASTER_PORT"), "20000");
}

TEST(JobCore, WorkersWaitUntilEveryShardIsReadyAndGetItsEndpoint) {
  JobHarness h(spec_of(1, 2));
  h.place();
  h.sent.clear();
  for (int i = 0; i < 3; ++i)
    h.update("n" + std::to_string(i), i < 2 ? h.task("ps", i) : h.task("worker", 0),
             TaskState::kPrepared);
  auto start = h.take_of<StartTask>();
  ASSERT_EQ(start.size(), 2u) << "the shards only";
  EXPECT_EQ(start[0].task.role, "ps");
  h.update("n0", h.task("ps", 0), TaskState::kReady, {}, "tcp://a:1");
  EXPECT_TRUE(h.sent_of<StartTask>().empty());
  h.update("n1", h.task("ps", 1), TaskState::kReady, {}, "tcp://b:2");
  start = h.take_of<StartTask>();
  ASSERT_EQ(start.size(), 1u);
  EXPECT_EQ(start[0].task.role, "worker");
  ASSERT_EQ(start[0].ps.shards.size(), 2u);
  EXPECT_EQ(start[0].ps.shards[1].tcp, "tcp://b:2");
  EXPECT_EQ(start[0].ps.map.owner.size(), ps::kSlots);
  EXPECT_EQ(start[0].ps.map.owner.front(), ShardId{0});
  EXPECT_EQ(start[0].ps.map.owner.back(), ShardId{1});
  EXPECT_EQ(start[0].ps.workers, 1u);
  EXPECT_EQ(start[0].ps.map.epoch, (Epoch{1, 1}));
}

TEST(JobCore, StopsTheShardsWhenAllWorkersEndedWellAndSucceeds) {
  JobHarness h(spec_of(1, 1));
  h.place();
  h.update("n0", h.task("ps", 0), TaskState::kReady, {}, "tcp://a:1");
  h.update("n1", h.task("worker", 0), TaskState::kRunning);
  h.sent.clear();
  h.exits("n1", h.task("worker", 0), 0);
  EXPECT_FALSE(h.ended);
  EXPECT_EQ(h.sent_of<StopTask>().size(), 1u);
  EXPECT_EQ(h.sent_of<WorkerGone>().size(), 1u);
  h.update("n0", h.task("ps", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kSignal, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
  EXPECT_EQ(h.ended->exit_code, 0);
}

TEST(JobCore, ShardsHearThatAWorkerIsGoneOnlyWhenItsEndIsOnDisk) {
  JobHarness h(spec_of(2, 1));
  h.place();
  h.update("n0", h.task("ps", 0), TaskState::kReady, {}, "tcp://a:1");
  h.update("n1", h.task("worker", 0), TaskState::kRunning);
  h.update("n2", h.task("worker", 1), TaskState::kRunning);
  h.sent.clear();
  h.hold_store = true;
  h.exits("n1", h.task("worker", 0), 0);
  h.advance(seconds(30));
  EXPECT_TRUE(h.sent_of<WorkerGone>().empty());
  h.release_store();
  ASSERT_EQ(h.sent_of<WorkerGone>().size(), 1u);
  EXPECT_EQ(h.take_of<WorkerGone>()[0].worker, h.task("worker", 0));
  h.recover();
  EXPECT_GE(h.take_of<WorkerGone>().size(), 1u) << "nobody knows whether the shards heard it";
}

TEST(JobCore, AFailedRankStopsItsSiblingsAndIsNamed) {
  JobHarness h(spec_of(3));
  h.place();
  h.run_all_workers(3);
  h.exits("n1", h.task("worker", 1), 7);
  const auto stops = h.take_of<StopTask>();
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0].cause, Cause::kSibling);
  EXPECT_EQ(stops[0].grace, Duration(seconds(2)));
  EXPECT_FALSE(h.ended) << "not before all have ended";
  h.update("n0", h.task("worker", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kSibling, .signal = 15});
  h.exits("n2", h.task("worker", 2), 9);
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_EQ(h.ended->exit_code, 7);
  ASSERT_TRUE(h.ended->first_failed);
  EXPECT_EQ(h.ended->first_failed->rank, 1u);
}

TEST(JobCore, AShardThatEndsByItselfFailsTheJobWhateverItsCode) {
  JobHarness h(spec_of(1, 1));
  h.place();
  h.update("n0", h.task("ps", 0), TaskState::kReady, {}, "tcp://a:1");
  h.update("n1", h.task("worker", 0), TaskState::kRunning);
  h.exits("n0", h.task("ps", 0), 0);
  h.update("n1", h.task("worker", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kSibling, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_EQ(h.ended->exit_code, 1);
}

TEST(JobCore, FinalStatesFollowTheCause) {
  const std::vector<std::pair<TaskEnd, JobState>> cases = {
      {{.cause = Cause::kOom}, JobState::kOom},
      {{.cause = Cause::kTimeLimit}, JobState::kTimeout},
      {{.cause = Cause::kSignal, .signal = 11}, JobState::kFailed},
      {{.cause = Cause::kShimLost}, JobState::kLost},
      {{.cause = Cause::kStartFailed}, JobState::kFailed}};
  for (const auto& [end, state] : cases) {
    JobHarness h(spec_of(1));
    h.place();
    h.update("n0", h.task("worker", 0), TaskState::kEnded, end);
    ASSERT_TRUE(h.ended);
    EXPECT_EQ(h.ended->state, state) << to_string(end.cause);
    EXPECT_EQ(h.ended->exit_code, exit_code(end));
  }
}

TEST(JobCore, AKillCancelsOnlyWhenEveryTaskHasEnded) {
  JobHarness h(spec_of(2));
  h.place();
  h.run_all_workers(2);
  h.take(h.core->on_input(Kill{{h.job, "enough", {}}}, h.now()));
  const auto stops = h.take_of<StopTask>();
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0].grace, Duration(seconds(30)));
  h.update("n0", h.task("worker", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kUserKill, .signal = 15});
  EXPECT_FALSE(h.ended);
  h.update("n1", h.task("worker", 1), TaskState::kEnded,
           TaskEnd{.cause = Cause::kUserKill, .signal = 9});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kCancelled);
}

TEST(JobCore, AKillBeforePlacementCancelsAtOnceAndALatePlacementStartsNothing) {
  JobHarness h(spec_of(2));
  h.take(h.core->on_input(Kill{{h.job, "", {}}}, h.now()));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kCancelled);
  h.place();
  EXPECT_TRUE(h.sent_of<PrepareTask>().empty());
}

TEST(JobCore, TheTimeLimitEndsItAsTimeout) {
  JobSpec spec = spec_of(1);
  spec.time_limit = seconds(60);
  spec.grace = seconds(7);
  JobHarness h(spec);
  h.place();
  ASSERT_EQ(h.sent_of<PrepareTask>().size(), 1u);
  EXPECT_EQ(h.sent_of<PrepareTask>()[0].time_limit, spec.time_limit);
  EXPECT_EQ(h.sent_of<PrepareTask>()[0].grace, spec.grace) << "the node may be alone by then";
  h.update("n0", h.task("worker", 0), TaskState::kRunning);
  h.advance(seconds(59));
  EXPECT_TRUE(h.sent_of<StopTask>().empty());
  h.advance(seconds(1));
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u);
  h.update("n0", h.task("worker", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kTimeLimit, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kTimeout);
  EXPECT_EQ(h.ended->exit_code, 124);
}

TEST(JobCore, ALostNodeRestartsTheGangAsANewGenerationWhenThePolicySaysSo) {
  JobSpec spec = spec_of(2);
  spec.restart.restarts_max = 1;
  JobHarness h(spec);
  h.place();
  h.run_all_workers(2);
  h.take(h.core->on_input(NodeGone{NodeId{"n1"}, "is lost"}, h.now()));
  EXPECT_EQ(h.wants_generation, 0u) << "its sibling still runs";
  h.update("n0", h.task("worker", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kSibling, .signal = 15});
  EXPECT_EQ(h.wants_generation, 2u);
  EXPECT_EQ(h.core->state(), JobState::kPending);
  h.sent.clear();
  h.place(2);
  ASSERT_EQ(h.sent_of<PrepareTask>().size(), 2u);
  EXPECT_EQ(h.sent_of<PrepareTask>()[0].epoch, (Epoch{1, 2}));
  h.take(h.core->on_input(NodeGone{NodeId{"n1"}, "is lost"}, h.now()));
  h.update("n0", h.task("worker", 0, 2), TaskState::kEnded, TaskEnd{.cause = Cause::kSibling});
  ASSERT_TRUE(h.ended) << "no restart is left";
  EXPECT_EQ(h.ended->state, JobState::kLost);
}

TEST(JobCore, TheRoleThatFailedFirstSaysAfterWhichCausesTheGangStartsAgain) {
  JobSpec spec = spec_of(1);
  spec.restart = {2, {Cause::kExit}};
  RoleSpec other = spec.roles[0];
  other.name = "other";
  other.restart_on = {Cause::kSignal};
  spec.roles.push_back(other);
  const TaskEnd stopped{.cause = Cause::kSibling, .signal = 15};
  {
    JobHarness h(spec);
    h.place();
    h.exits("n1", h.task("other", 0), 3);
    h.update("n0", h.task("worker", 0), TaskState::kEnded, stopped);
    ASSERT_TRUE(h.ended) << "an exit of this role is none of its causes";
    EXPECT_EQ(h.ended->exit_code, 3);
  }
  JobHarness h(spec);
  h.place();
  h.update("n1", h.task("other", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kSignal, .signal = 11});
  h.update("n0", h.task("worker", 0), TaskState::kEnded, stopped);
  EXPECT_FALSE(h.ended);
  EXPECT_EQ(h.wants_generation, 2u);
  h.recover();
  h.place(2);
  h.exits("n0", h.task("worker", 0, 2), 3);
  h.update("n1", h.task("other", 0, 2), TaskState::kEnded, stopped);
  EXPECT_FALSE(h.ended) << "a role without causes of its own has the job's";
  EXPECT_EQ(h.wants_generation, 3u);
}

TEST(JobCore, AProgramGetsTheTimeLimitOfItsRoleOrOfTheJobWhicheverIsShorter) {
  JobSpec spec = spec_of(1);
  spec.roles.push_back(spec.roles[0]);
  spec.roles[1].name = "short";
  spec.roles[1].time_limit = seconds(5);
  spec.roles.push_back(spec.roles[0]);
  spec.roles[2].name = "long";
  spec.roles[2].time_limit = seconds(90);
  const auto limits = [](const JobSpec& of) {
    JobHarness h(of);
    h.place();
    std::vector<Duration> out;
    for (const auto& prepare : h.sent_of<PrepareTask>()) out.push_back(prepare.time_limit);
    return out;
  };
  EXPECT_EQ(limits(spec), (std::vector<Duration>{seconds(0), seconds(5), seconds(90)}));
  spec.time_limit = seconds(60);
  EXPECT_EQ(limits(spec), (std::vector<Duration>{seconds(60), seconds(5), seconds(60)}));
}

TEST(JobCore, RefusesWhatComesUnderAnOlderEpoch) {
  JobSpec spec = spec_of(1);
  spec.restart.restarts_max = 1;
  io::InputSpec input;
  input.name = "train";
  input.uris = {"x"};
  spec.inputs = {input};
  JobHarness h(spec, [](const auto& inputs) { return std::make_unique<io::LedgerCore>(inputs); });
  h.place();
  h.take(h.core->on_input(NodeGone{NodeId{"n0"}, "is lost"}, h.now()));
  h.place(2);
  h.sent.clear();
  h.from("n0", LeaseSplits{h.task("worker", 0, 1), Epoch{1, 1}, "train", 1, 5});
  ASSERT_EQ(h.sent_of<LeaseReply>().size(), 1u);
  EXPECT_EQ(h.sent_of<LeaseReply>()[0].error, Errc::kStaleEpoch);
  h.sent.clear();
  h.update("n0", h.task("worker", 0, 1), TaskState::kRunning);
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u) << "what runs under an old epoch is stopped";
  EXPECT_EQ(h.sent_of<StopTask>()[0].epoch, (Epoch{1, 1}));
  EXPECT_FALSE(h.ended);
}

TEST(JobCore, AcknowledgesAnEndOnlyWhenItIsDurable) {
  JobHarness h(spec_of(2));
  h.place();
  h.run_all_workers(2);
  h.hold_store = true;
  h.exits("n0", h.task("worker", 0), 0);
  h.exits("n0", h.task("worker", 0), 0);
  EXPECT_TRUE(h.sent_of<TaskEndAck>().empty());
  h.release_store();
  EXPECT_EQ(h.sent_of<TaskEndAck>().size(), 2u);
}

TEST(JobCore, AFullDiskDelaysAnEndAndLosesNothing) {
  JobHarness h(spec_of(1));
  h.place();
  h.store_ok = false;
  h.exits("n0", h.task("worker", 0), 0);
  EXPECT_FALSE(h.ended);
  EXPECT_TRUE(h.sent_of<TaskEndAck>().empty());
  h.store_ok = true;
  h.advance(seconds(1));
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

TEST(JobCore, RepeatsACommandWithBackoffUntilItTookEffect) {
  JobHarness h(spec_of(2));
  h.place();
  h.sent.clear();
  h.update("n0", h.task("worker", 0), TaskState::kPrepared);
  h.advance(milliseconds(499));
  EXPECT_TRUE(h.sent_of<PrepareTask>().empty());
  h.advance(milliseconds(1));
  ASSERT_EQ(h.sent_of<PrepareTask>().size(), 1u) << "only the silent one";
  EXPECT_EQ(h.take_of<PrepareTask>()[0].task.rank, 1u);
  h.advance(milliseconds(999));
  EXPECT_TRUE(h.sent_of<PrepareTask>().empty());
  h.advance(milliseconds(1));
  EXPECT_EQ(h.sent_of<PrepareTask>().size(), 1u);
}

TEST(JobCore, AGangThatIsNotPreparedInTimeFailsAndSaysWho) {
  JobHarness h(spec_of(2));
  h.place();
  h.update("n0", h.task("worker", 0), TaskState::kPrepared);
  h.advance(seconds(120));
  EXPECT_EQ(h.core->state(), JobState::kStopping);
  for (int i = 0; i < 2; ++i)
    h.update("n" + std::to_string(i), h.task("worker", i), TaskState::kEnded,
             TaskEnd{.cause = Cause::kCoordinator});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kFailed);
  EXPECT_NE(h.ended->reason.find("worker/1"), std::string::npos) << h.ended->reason;
}

TEST(JobCore, ARecoveredJobAsksForWhatItCannotKnowAndEndsAsBefore) {
  JobHarness h(spec_of(2));
  h.place();
  h.run_all_workers(2);
  h.exits("n0", h.task("worker", 0), 0);
  h.recover();
  EXPECT_EQ(h.core->state(), JobState::kRunning);
  ASSERT_EQ(h.sent_of<StartTask>().size(), 1u) << "a probe: it never runs a task twice";
  EXPECT_TRUE(h.sent_of<PrepareTask>().empty());
  h.update("n1", h.task("worker", 1), TaskState::kRunning);
  h.exits("n1", h.task("worker", 1), 0);
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

TEST(JobCore, ARoleThatTellsItsReadinessHoldsBackThoseThatComeAfterIt) {
  JobSpec spec = spec_of(1);
  RoleSpec server = spec.roles[0];
  server.name = "server";
  server.kind = RoleKind::kService;
  server.ready = ReadyWhen::kTold;
  spec.roles.insert(spec.roles.begin(), server);
  spec.roles[1].after = {"server"};
  JobHarness h(spec);
  h.place();
  EXPECT_EQ(h.take_of<PrepareTask>()[0].ready, ReadyWhen::kTold);
  for (unsigned i = 0; i < 2; ++i)
    h.update("n" + std::to_string(i), h.task(i == 0 ? "server" : "worker", 0),
             TaskState::kPrepared);
  EXPECT_EQ(h.take_of<StartTask>().size(), 1u);
  h.update("n0", h.task("server", 0), TaskState::kRunning);
  EXPECT_TRUE(h.take_of<StartTask>().empty() || h.core->state() == JobState::kStarting);
  h.advance(milliseconds(1));
  for (const SendToAgent& s : h.sent) EXPECT_NE(s.node, NodeId{"n1"});
  h.update("n0", h.task("server", 0), TaskState::kReady);
  bool worker_started = false;
  for (const SendToAgent& s : h.sent)
    worker_started =
        worker_started || (s.node == NodeId{"n1"} && std::holds_alternative<StartTask>(s.message));
  EXPECT_TRUE(worker_started);
  // It outlives its peer, and is stopped when the work is done.
  h.update("n1", h.task("worker", 0), TaskState::kRunning);
  h.sent.clear();
  h.exits("n1", h.task("worker", 0), 0);
  ASSERT_EQ(h.sent_of<StopTask>().size(), 1u);
  h.update("n0", h.task("server", 0), TaskState::kEnded,
           TaskEnd{.cause = Cause::kSignal, .signal = 15});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

TEST(JobCore, AShardIsToldOfEachGoneWorkerOnceUntilTheRepeat) {
  JobHarness h(spec_of(3, 1));
  h.place();
  h.update("n0", h.task("ps", 0), TaskState::kReady, {}, "tcp://a:1");
  for (unsigned i = 0; i < 3; ++i)
    h.update("n" + std::to_string(i + 1), h.task("worker", i), TaskState::kRunning);
  h.sent.clear();
  h.exits("n1", h.task("worker", 0), 0);
  h.exits("n2", h.task("worker", 1), 0);
  const auto told = h.take_of<WorkerGone>();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].worker, h.task("worker", 0));
  EXPECT_EQ(told[1].worker, h.task("worker", 1));
  h.advance(JobSettings{}.resend_max);
  EXPECT_EQ(h.take_of<WorkerGone>().size(), 2u) << "neither is acknowledged";
}

TEST(JobCore, AGangOfAThousandBehindAShardStartsAndEnds) {
  constexpr std::uint32_t kWorkers = 1024;
  JobHarness h(spec_of(kWorkers, 1));
  const auto all = [&](TaskState state, TaskEnd end = {}) {
    for (std::uint32_t i = 0; i < kWorkers; ++i)
      h.update("n" + std::to_string(i + 1), h.task("worker", i), state, end);
  };
  h.place();
  h.update("n0", h.task("ps", 0), TaskState::kPrepared);
  all(TaskState::kPrepared);
  h.update("n0", h.task("ps", 0), TaskState::kReady, {}, "tcp://a:1");
  EXPECT_EQ(h.take_of<StartTask>().size(), kWorkers + 1);
  all(TaskState::kRunning);
  EXPECT_EQ(h.core->state(), JobState::kRunning);
  all(TaskState::kEnded, TaskEnd{.cause = Cause::kExit});
  h.update("n0", h.task("ps", 0), TaskState::kEnded, TaskEnd{.cause = Cause::kStopped});
  ASSERT_TRUE(h.ended);
  EXPECT_EQ(h.ended->state, JobState::kSucceeded);
}

}  // namespace
}  // namespace dlrun::cluster
