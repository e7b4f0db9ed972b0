#include "runtime/cluster/core/coordinator_core.h"

#include <gtest/gtest.h>

#include "scheduler/core/scheduler_core.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

class CoordinatorTest : public testing::Test {
 protected:
  void SetUp() override { boot(); }
  Now now() const { return {TimePoint{} + at_, WallTime{at_.count()}}; }
  void boot() {
    placer_ = std::make_unique<sched::SchedulerCore>();
    core_ = std::make_unique<CoordinatorCore>(CoordinatorSettings{}, *placer_);
    for (const Event& event : log_) core_->apply(event);
    take(core_->start(now()));
  }
  void take(CoordinatorEffects effects) {
    for (CoordinatorEffect& effect : effects) {
      if (auto* persist = std::get_if<Persist>(&effect)) {
        if (full_) {
          take(core_->on_persist_failed(persist->id, Error{Errc::kResourceExhausted, "disk full"},
                                        now()));
          continue;
        }
        log_.insert(log_.end(), persist->events.begin(), persist->events.end());
        take(core_->on_persisted(persist->id, now()));
      } else {
        out_.push_back(std::move(effect));
      }
    }
  }
  template <class E>
  std::vector<E> out() const {
    std::vector<E> found;
    for (const CoordinatorEffect& effect : out_)
      if (const auto* e = std::get_if<E>(&effect)) found.push_back(*e);
    return found;
  }
  template <class M>
  std::vector<M> sent() const {
    std::vector<M> found;
    for (const SendToAgent& e : out<SendToAgent>())
      if (const auto* m = std::get_if<M>(&e.message)) found.push_back(*m);
    return found;
  }
  Result<ApiReply> call(ApiCall request) {
    out_.clear();
    take(core_->on_call(1, request, now()));
    const auto replies = out<ReplyApi>();
    return replies.size() == 1 ? replies[0].reply
                               : Result<ApiReply>(fail(Errc::kInternal, "no single reply"));
  }
  void join(const std::string& name, std::uint64_t incarnation,
            std::vector<TaskUpdate> tasks = {}) {
    out_.clear();
    sched::NodeCapacity capacity;
    capacity.cpu_milli = 4000;
    capacity.ports = {20000, 16};
    Register message{
        NodeId{name}, Incarnation{incarnation}, "10.0.0.1", capacity, std::move(tasks), "test", 1};
    take(core_->on_agent(NodeId{name}, Incarnation{incarnation}, message, now()));
  }
  void hear(const std::string& name, std::uint64_t incarnation, FromAgent message) {
    out_.clear();
    take(core_->on_agent(NodeId{name}, Incarnation{incarnation}, message, now()));
  }
  /// Looking each time that it asked for.
  void advance(Duration by) {
    out_.clear();
    const Duration until = at_ + by;
    for (auto wake = core_->next_wake(); wake; wake = core_->next_wake()) {
      const Duration at = *wake - TimePoint{};
      if (at <= at_ || at >= until) break;
      at_ = at;
      take(core_->on_tick(now()));
    }
    at_ = until;
    take(core_->on_tick(now()));
  }
  /// As a process that was stopped.
  void stand_still(Duration by) {
    at_ += by;
    take(core_->on_tick(now()));
  }
  NodeState state_of(const char* node) const {
    return core_->membership().find(NodeId{node})->state;
  }
  JobId submit(std::uint32_t workers, const std::string& key = "") {
    const auto reply = call(SubmitJob{spec_of(workers), key});
    EXPECT_TRUE(reply.has_value()) << (reply ? "" : reply.error().to_string());
    return reply ? std::get<SubmitAck>(*reply).job : JobId{};
  }
  Errc code_of(const Result<ApiReply>& reply) { return reply ? Errc{} : reply.error().code; }

  Duration at_{seconds(1000)};
  std::unique_ptr<sched::SchedulerCore> placer_;
  std::unique_ptr<CoordinatorCore> core_;
  std::vector<Event> log_;
  std::vector<CoordinatorEffect> out_;
  bool full_ = false;
};

TEST_F(CoordinatorTest, EachStartClaimsAHigherTerm) {
  EXPECT_EQ(core_->term(), 1u);
  boot();
  EXPECT_EQ(core_->term(), 2u);
}

TEST_F(CoordinatorTest, ASubmitAndItsPlacementShareOneCommitAndCarryTheTerm) {
  join("a", 1);
  const std::size_t before = log_.size();
  EXPECT_EQ(submit(2), JobId{1});
  ASSERT_EQ(log_.size(), before + 2);
  EXPECT_TRUE(std::holds_alternative<JobSubmitted>(log_[before]));
  const auto& placed = std::get<JobPlaced>(log_[before + 1]);
  EXPECT_EQ(placed.epoch, (Epoch{1, 1}));
  ASSERT_EQ(placed.tasks.size(), 2u);
  EXPECT_NE(placed.tasks[0].slot.ports, placed.tasks[1].slot.ports);
  ASSERT_EQ(out<StartJob>().size(), 1u);
  ASSERT_EQ(out<ToJob>().size(), 1u);
}

TEST_F(CoordinatorTest, AFullDiskRefusesTheSubmitWithTheReasonAndKeepsTheRest) {
  join("a", 1);
  const JobId first = submit(1);
  full_ = true;
  const auto refused = call(SubmitJob{spec_of(1), "k"});
  EXPECT_EQ(code_of(refused), Errc::kResourceExhausted);
  EXPECT_NE(refused.error().context.find("disk full"), std::string::npos)
      << refused.error().context;
  EXPECT_EQ(code_of(call(SubmitJob{spec_of(1), ""})), Errc::kResourceExhausted);
  EXPECT_TRUE(call(GetJob{first}).has_value());
  full_ = false;
  advance(seconds(2));
  EXPECT_TRUE(call(SubmitJob{spec_of(1), "k"}).has_value())
      << "the key of a refused submit is free";
}

TEST_F(CoordinatorTest, AKeyGivesTheSameJobAlsoAfterARestartAndNeverAnotherSpec) {
  join("a", 1);
  const JobId job = submit(1, "once");
  boot();
  const auto again = call(SubmitJob{spec_of(1), "once"});
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(std::get<SubmitAck>(*again).job, job);
  EXPECT_TRUE(std::get<SubmitAck>(*again).existed);
  EXPECT_EQ(code_of(call(SubmitJob{spec_of(2), "once"})), Errc::kAlreadyExists);
}

TEST_F(CoordinatorTest, AnImpossibleJobWaitsAndSaysWhy) {
  join("a", 1);
  JobSpec spec = spec_of(1);
  spec.roles[0].resources.cpu_milli = 64'000;
  ASSERT_TRUE(call(SubmitJob{spec, ""}).has_value());
  const auto why = call(WhyJob{JobId{1}});
  ASSERT_TRUE(why.has_value());
  const auto& answer = std::get<WhyAnswer>(*why);
  EXPECT_EQ(answer.state, JobState::kPending);
  EXPECT_FALSE(answer.summary.empty());
  EXPECT_FALSE(answer.lines.empty());
}

TEST_F(CoordinatorTest, KnowsUnknownJobsFromFinishedOnes) {
  EXPECT_EQ(code_of(call(GetJob{JobId{9}})), Errc::kNotFound);
  EXPECT_EQ(code_of(call(KillJob{JobId{9}, ""})), Errc::kNotFound);
  join("a", 1);
  const JobId job = submit(1);
  JobView view;
  view.id = job;
  view.state = JobState::kSucceeded;
  take(core_->on_job(JobOver{view}, now()));
  EXPECT_EQ(code_of(call(KillJob{job, ""})), Errc::kFailedPrecondition);
  EXPECT_EQ(core_->live_jobs(), 0u);
  EXPECT_EQ(placer_->usage(NodeId{"a"}).cpu_milli_used, 0);
}

TEST_F(CoordinatorTest, ASilentNodeIsSuspectThenLostAndItsJobsAreTold) {
  join("a", 1);
  submit(1);
  advance(seconds(10));
  EXPECT_EQ(core_->membership().find(NodeId{"a"})->state, NodeState::kSuspect);
  advance(seconds(20));
  EXPECT_EQ(core_->membership().find(NodeId{"a"})->state, NodeState::kLost);
  const auto told = out<ToJob>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<NodeGone>(told[0].input));
}

TEST_F(CoordinatorTest, WhyOfAJobThatStartsNamesTheRoleThatIsNotReady) {
  join("a", 1);
  JobSpec spec = spec_of(1);
  spec.roles.push_back(spec.roles[0]);
  spec.roles[1].name = "web";
  spec.roles[1].ready = ReadyWhen::kTold;
  spec.roles[0].after = {"web"};
  const auto reply = call(SubmitJob{spec, ""});
  ASSERT_TRUE(reply) << reply.error().to_string();
  JobView view;
  view.id = std::get<SubmitAck>(*reply).job;
  view.state = JobState::kStarting;
  view.epoch = std::get<JobPlaced>(log_.back()).epoch;
  view.generation = Generation{1};
  const auto add = [&](const char* role, TaskState state) {
    TaskView task;
    task.task = TaskId{view.id, role, 0, Generation{1}};
    task.state = state;
    view.tasks.push_back(task);
  };
  add("worker", TaskState::kPrepared);
  add("web", TaskState::kRunning);
  take(core_->on_job(JobReport{view}, now()));
  EXPECT_EQ(std::get<WhyAnswer>(*call(WhyJob{view.id})).summary,
            "it is placed: STARTING; worker waits for web to be ready (0 of 1 is)");
  view.tasks[1].state = TaskState::kReady;
  take(core_->on_job(JobReport{view}, now()));
  EXPECT_EQ(std::get<WhyAnswer>(*call(WhyJob{view.id})).summary, "it is placed: STARTING");
}

TEST_F(CoordinatorTest, ACoordinatorThatStoodStillCallsNobodyLostForThatTime) {
  join("a", 1);
  join("b", 1);
  submit(1);
  advance(seconds(4));
  out_.clear();
  stand_still(seconds(100));
  EXPECT_NE(state_of("a"), NodeState::kLost);
  EXPECT_NE(state_of("b"), NodeState::kLost);
  EXPECT_TRUE(out<ToJob>().empty());
  hear("a", 1, Heartbeat{NodeId{"a"}, Incarnation{1}, 1});
  EXPECT_EQ(state_of("a"), NodeState::kUp);
  advance(seconds(21));
  EXPECT_EQ(state_of("b"), NodeState::kLost)
      << "what it was not heard while somebody looked counts";
  EXPECT_EQ(state_of("a"), NodeState::kSuspect);
  stand_still(seconds(100));
  EXPECT_EQ(state_of("a"), NodeState::kSuspect);
  advance(seconds(20));
  EXPECT_EQ(state_of("a"), NodeState::kLost);
}

TEST_F(CoordinatorTest, ACoordinatorThatIsAlwaysLateCallsADeadNodeLostAndNoOther) {
  join("a", 1);
  join("b", 1);
  submit(1);
  out_.clear();
  for (int i = 0; i < 20; ++i) {  // each look is five seconds late at least
    stand_still(seconds(15));
    hear("b", 1, Heartbeat{NodeId{"b"}, Incarnation{1}, 1});
  }
  EXPECT_EQ(state_of("a"), NodeState::kLost);
  EXPECT_EQ(state_of("b"), NodeState::kUp);
}

TEST_F(CoordinatorTest, ASuspectNodeThatIsHeardIsUpAgain) {
  join("a", 1);
  advance(seconds(12));
  hear("a", 1, Heartbeat{NodeId{"a"}, Incarnation{1}, 1});
  EXPECT_EQ(core_->membership().find(NodeId{"a"})->state, NodeState::kUp);
}

TEST_F(CoordinatorTest, AReturningNodeIsFencedUntilWhatRanThereHasEnded) {
  join("a", 1);
  submit(1);
  const auto placed = std::get<JobPlaced>(log_.back());
  advance(seconds(31));
  TaskUpdate running{placed.tasks[0].task, placed.epoch, TaskState::kRunning, {}, {}, 1};
  join("a", 1, {running});
  ASSERT_EQ(sent<RegisterAck>().size(), 1u);
  EXPECT_EQ(sent<RegisterAck>()[0].unknown_tasks.size(), 1u);
  EXPECT_EQ(core_->membership().find(NodeId{"a"})->state, NodeState::kFenced);
  running.state = TaskState::kEnded;
  hear("a", 1, running);
  EXPECT_EQ(core_->membership().find(NodeId{"a"})->state, NodeState::kUp);
}

TEST_F(CoordinatorTest, AnExpelledNodeIsLostAtOnceAndItsJobsAreTold) {
  join("a", 1);
  submit(1);
  EXPECT_TRUE(call(ExpelNode{NodeId{"nobody"}, "x"}).has_value());
  ASSERT_TRUE(call(ExpelNode{NodeId{"a"}, "its certificate is revoked"}).has_value());
  EXPECT_EQ(core_->membership().find(NodeId{"a"})->state, NodeState::kLost);
  ASSERT_EQ(out<ToJob>().size(), 1u);
  EXPECT_NE(std::get<NodeGone>(out<ToJob>()[0].input).reason.find("revoked"), std::string::npos);
  ASSERT_TRUE(call(ExpelNode{NodeId{"a"}, "again"}).has_value());
  EXPECT_TRUE(out<ToJob>().empty());
}

TEST_F(CoordinatorTest, AnIncarnationThatWasReplacedNeverComesBack) {
  join("a", 1);
  join("a", 2);
  join("a", 1);
  EXPECT_EQ(core_->membership().find(NodeId{"a"})->incarnation, Incarnation{2});
  EXPECT_TRUE(sent<RegisterAck>().empty());
}

TEST_F(CoordinatorTest, AfterARestartNothingIsScheduledUntilTheNodesOfRunningJobsHaveReported) {
  join("a", 1);
  submit(1);
  const auto placed = std::get<JobPlaced>(log_.back());
  boot();
  ASSERT_EQ(out<StartJob>().size() >= 1, true);
  EXPECT_FALSE(core_->serving());
  join("b", 5);
  submit(1);
  EXPECT_FALSE(std::holds_alternative<JobPlaced>(log_.back())) << "still reconciling";
  join("a", 1, {TaskUpdate{placed.tasks[0].task, placed.epoch, TaskState::kRunning, {}, {}, 1}});
  EXPECT_TRUE(core_->serving());
  ASSERT_TRUE(std::holds_alternative<JobPlaced>(log_.back()));
  EXPECT_EQ(std::get<JobPlaced>(log_.back()).epoch, (Epoch{2, 1}));
  EXPECT_TRUE(sent<RegisterAck>().at(0).unknown_tasks.empty()) << "its task is still wanted";
}

TEST_F(CoordinatorTest, AfterARestartANodeThatDoesNotComeBackIsLost) {
  join("a", 1);
  submit(1);
  boot();
  advance(seconds(31));
  EXPECT_TRUE(core_->serving());
  bool told = false;
  for (const ToJob& e : out<ToJob>()) told = told || std::holds_alternative<NodeGone>(e.input);
  EXPECT_TRUE(told);
}

TEST_F(CoordinatorTest, RefusesLeasesOfAnEpochThatIsOver) {
  join("a", 1);
  submit(1);
  hear("a", 1,
       LeaseSplits{TaskId{JobId{1}, "worker", 0, Generation{1}}, Epoch{0, 9}, "train", 1, 3});
  ASSERT_EQ(sent<LeaseReply>().size(), 1u);
  EXPECT_EQ(sent<LeaseReply>()[0].error, Errc::kStaleEpoch);
  EXPECT_TRUE(out<ToJob>().empty());
}

TEST_F(CoordinatorTest, AJobOfARangeTakesWhatFitsNow) {
  join("a", 1);
  JobSpec spec = spec_of(1);
  spec.roles[0].count_max = 9;  // 4 CPUs are there
  ASSERT_TRUE(call(SubmitJob{spec, ""}).has_value());
  ASSERT_TRUE(std::holds_alternative<JobPlaced>(log_.back()));
  EXPECT_EQ(std::get<JobPlaced>(log_.back()).tasks.size(), 4u);
}

TEST_F(CoordinatorTest, AJobOfARangeThatWaitedGetsTheLargestThatFitsWhenItsTurnComes) {
  join("a", 1);
  const JobId first = submit(4);
  JobSpec spec = spec_of(2);
  spec.roles[0].count_max = 100;
  const auto reply = call(SubmitJob{spec, ""});
  ASSERT_TRUE(reply.has_value());
  const JobId ranged = std::get<SubmitAck>(*reply).job;
  const JobId behind = submit(1);
  JobView over;
  over.id = first;
  over.state = JobState::kSucceeded;
  take(core_->on_job(JobOver{over}, now()));
  ASSERT_TRUE(std::holds_alternative<JobPlaced>(log_.back()));
  EXPECT_EQ(std::get<JobPlaced>(log_.back()).job, ranged);
  EXPECT_EQ(std::get<JobPlaced>(log_.back()).tasks.size(), 4u);
  EXPECT_FALSE(call(WhyJob{behind}).value().valueless_by_exception());
  EXPECT_EQ(placer_->queued(), 1u) << "nobody overtook it while it was measured";
}

TEST_F(CoordinatorTest, AHeldJobIsPlacedOnlyAfterItsReleaseAlsoAcrossARestart) {
  join("a", 1);
  JobSpec spec = spec_of(1);
  spec.hold = true;
  const JobId job = std::get<SubmitAck>(*call(SubmitJob{spec, ""})).job;
  EXPECT_TRUE(std::holds_alternative<JobSubmitted>(log_.back()));
  EXPECT_EQ(std::get<JobView>(*call(GetJob{job})).state, JobState::kHeld);
  EXPECT_NE(std::get<WhyAnswer>(*call(WhyJob{job})).summary.find("held"), std::string::npos);
  boot();
  join("a", 1);
  EXPECT_EQ(std::get<JobView>(*call(GetJob{job})).state, JobState::kHeld);
  EXPECT_EQ(placer_->queued() + placer_->placed(), 0u);
  ASSERT_TRUE(call(HoldJob{job, false, ""}).has_value());
  ASSERT_TRUE(std::holds_alternative<JobPlaced>(log_.back()));
  const auto again = call(HoldJob{job, false, ""});
  ASSERT_EQ(code_of(again), Errc::kFailedPrecondition);
  EXPECT_EQ(again.error().context, "j1 is not held: it is ADMITTED");
  EXPECT_EQ(code_of(call(HoldJob{job, true, ""})), Errc::kFailedPrecondition) << "it has a place";
  EXPECT_EQ(code_of(call(HoldJob{JobId{9}, true, ""})), Errc::kNotFound);
}

TEST_F(CoordinatorTest, AWaitingJobCanBeHeldAndAnotherTakesItsRoom) {
  join("a", 1);
  const JobId first = submit(4), second = submit(4), third = submit(4);
  ASSERT_TRUE(call(HoldJob{second, true, "later"}).has_value());
  JobView over;
  over.id = first;
  over.state = JobState::kSucceeded;
  take(core_->on_job(JobOver{over}, now()));
  ASSERT_TRUE(std::holds_alternative<JobPlaced>(log_.back()));
  EXPECT_EQ(std::get<JobPlaced>(log_.back()).job, third);
  ASSERT_TRUE(call(KillJob{second, ""}).has_value()) << "a held job can be killed";
}

TEST_F(CoordinatorTest, WhyOfAHeldJobGivesTheReasonAlsoAcrossARestart) {
  const JobId job = submit(1);
  ASSERT_TRUE(call(HoldJob{job, true, "its input is not there yet"}).has_value());
  for (int life = 0; life < 2; ++life) {
    const std::string why = std::get<WhyAnswer>(*call(WhyJob{job})).summary;
    EXPECT_EQ(why, "is held (its input is not there yet): it waits for dlrun release");
    EXPECT_EQ(std::get<JobView>(*call(GetJob{job})).reason, why);
    boot();
  }
}

TEST_F(CoordinatorTest, AKillWhileOutputsTakeTheirPlacesSaysWhatItDoes) {
  join("a", 1);
  const JobId job = submit(1);
  EXPECT_EQ(std::get<KillAck>(*call(KillJob{submit(1), ""})).note, "");
  JobView view;
  view.id = job;
  view.state = JobState::kCommitting;
  view.epoch = std::get<JobView>(*call(GetJob{job})).epoch;
  take(core_->on_job(JobReport{view}, now()));
  for (int i = 0; i < 2; ++i) {
    const std::string note = std::get<KillAck>(*call(KillJob{job, ""})).note;
    EXPECT_NE(note.find("SUCCEEDED when they are there within 30 s, else CANCELLED"),
              std::string::npos)
        << note;
  }
}

TEST_F(CoordinatorTest, ARequeueIsRecordedThenToldToTheJobAndGivesItANewEpoch) {
  join("a", 1);
  const JobId job = submit(1);
  const Epoch first = std::get<JobPlaced>(log_.back()).epoch;
  ASSERT_TRUE(call(RequeueJob{job, false, ""}).has_value());
  const auto& stopping = std::get<JobStateChanged>(log_.back());
  EXPECT_EQ(stopping.cause, Cause::kPreempted);
  ASSERT_EQ(out<ToJob>().size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Preempt>(out<ToJob>()[0].input));
  JobView between;  // told before the end of the generation is durable
  between.id = job;
  between.generation = Generation{2};
  between.state = JobState::kPreempted;
  take(core_->on_job(JobReport{between}, now()));
  EXPECT_EQ(std::get<JobView>(*call(GetJob{job})).state, JobState::kPreempted);
  take(core_->on_job(JobNeedsPlacement{job, Generation{2}}, now()));
  take(core_->on_job(JobReport{between}, now()));
  EXPECT_EQ(std::get<JobView>(*call(GetJob{job})).state, JobState::kAdmitted)
      << "an older report does not take the placement back";
  ASSERT_TRUE(std::holds_alternative<JobPlaced>(log_.back()));
  EXPECT_GT(std::get<JobPlaced>(log_.back()).epoch, first);
  const JobId waiting = submit(4);
  EXPECT_EQ(code_of(call(RequeueJob{waiting, false, ""})), Errc::kFailedPrecondition);
  ASSERT_TRUE(call(RequeueJob{job, true, ""}).has_value());
  take(core_->on_job(JobNeedsPlacement{job, Generation{3}}, now()));
  EXPECT_EQ(std::get<JobPlaced>(log_.back()).job, waiting) << "the requeued one is held";
}

TEST_F(CoordinatorTest, HealthCountsJobsAndNodesByState) {
  join("a", 1);
  submit(4);
  submit(4);
  JobSpec spec = spec_of(1);
  spec.hold = true;
  ASSERT_TRUE(call(SubmitJob{spec, ""}).has_value());
  advance(seconds(3));
  auto health = std::get<Health>(*call(GetHealth{}));
  EXPECT_EQ(health.jobs_by_state[JobState::kAdmitted], 1u);
  EXPECT_EQ(health.jobs_by_state[JobState::kPending], 1u);
  EXPECT_EQ(health.jobs_by_state[JobState::kHeld], 1u);
  EXPECT_EQ(health.nodes_by_state[NodeState::kUp], 1u);
  EXPECT_EQ(health.oldest_wait, Duration(seconds(3)));
}

}  // namespace
}  // namespace dlrun::cluster
