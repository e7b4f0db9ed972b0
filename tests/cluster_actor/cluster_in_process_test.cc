// Coordinator and agents in one actor system, without network, shims or disk: the actors' wiring.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <condition_variable>
#include <future>
#include <mutex>

#include "runtime/actor/agent_link.h"
#include "runtime/actor/link_messages.h"
#include "runtime/actor/system.h"
#include "runtime/cluster/actor/agent_actor.h"
#include "runtime/cluster/actor/coordinator_node.h"
#include "runtime/cluster/actor/hmac_tokens.h"
#include "runtime/cluster/actor/messages.h"
#include "runtime/cluster/actor/store_actor.h"
#include "runtime/store/memory_event_log.h"
#include "scheduler/core/scheduler_core.h"

namespace dlrun::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Performs an agent's effects as a machine would on which every program ends at once with `code`,
/// or runs until stopped.
class FakeMachine {
 public:
  int code = 0;
  bool run_until_stopped = false;
  void perform(AgentEffect effect) {
    if (const auto* dir = std::get_if<PrepareDir>(&effect))
      emit(TaskPrepared{dir->task.task, Status{}});
    if (const auto* spawn = std::get_if<SpawnShim>(&effect)) {
      emit(TaskStarted{spawn->task.task, 4711});
      if (!run_until_stopped) exit(spawn->task.task, Cause::kExit, code, 0);
    }
    if (const auto* stop = std::get_if<SignalShim>(&effect)) exit(stop->task, stop->cause, 0, 15);
  }
  void attach(caf::actor agent) {
    const std::lock_guard lock(mutex_);
    agent_ = std::move(agent);
    for (HostEvent& event : std::exchange(early_, {}))
      caf::anon_send(agent_, FromHost{std::move(event)});
  }
  void detach() {
    const std::lock_guard lock(mutex_);
    agent_ = nullptr;
  }

 private:
  void exit(const TaskId& task, Cause cause, int exit_code, int signal) {
    TaskEnd end;
    end.cause = cause;
    end.code = exit_code;
    end.signal = signal;
    emit(TaskExited{task, end});
  }
  void emit(HostEvent event) {
    const std::lock_guard lock(mutex_);
    if (agent_)
      caf::anon_send(agent_, FromHost{std::move(event)});
    else
      early_.push_back(std::move(event));
  }
  std::mutex mutex_;
  caf::actor agent_;
  std::vector<HostEvent> early_;
};

/// A log whose commits take as long as the test wants.
class GatedLog final : public store::EventLog {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = true;
    int commits = 0;  ///< begun
    bool removals_refused = false;
    int removals = 0;
  };
  explicit GatedLog(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  Result<std::uint64_t> append(const std::vector<store::Record>& records,
                               const std::vector<store::JobRow>& rows) override {
    std::unique_lock lock(gate_->mutex);
    ++gate_->commits;
    gate_->changed.wait(lock, [&] { return gate_->open; });
    return log_.append(records, rows);
  }
  using Visit = std::function<bool(const store::Record&)>;
  Status read_from(std::uint64_t first, const Visit& visit) override {
    return log_.read_from(first, visit);
  }
  Status read_job(std::uint64_t job, std::uint64_t first, const Visit& visit) override {
    return log_.read_job(job, first, visit);
  }
  Result<std::optional<store::JobRow>> job(std::uint64_t id) override { return log_.job(id); }
  Result<std::vector<store::JobRow>> jobs(const store::JobFilter& filter) override {
    return log_.jobs(filter);
  }
  Result<std::vector<store::JobRow>> unfinished() override { return log_.unfinished(); }
  Result<std::uint64_t> finished_count() override { return log_.finished_count(); }
  Result<std::uint64_t> max_job() override { return log_.max_job(); }
  Result<std::vector<std::uint64_t>> finished_with_key(std::uint32_t limit) override {
    return log_.finished_with_key(limit);
  }
  Result<std::vector<std::uint64_t>> retire(WallTime before, std::uint32_t jobs_max) override {
    return log_.retire(before, jobs_max);
  }
  Status remove(const std::vector<std::uint64_t>& indexes) override {
    const std::lock_guard lock(gate_->mutex);
    ++gate_->removals;
    gate_->changed.notify_all();
    if (gate_->removals_refused) return fail(Errc::kResourceExhausted, "no room to delete");
    return log_.remove(indexes);
  }

 private:
  std::shared_ptr<Gate> gate_;
  store::MemoryEventLog log_;
};

struct InProcess : ::testing::Test {
  void SetUp() override {
    actor::SystemOptions options;
    system = actor::System::start(options, clock.wall()).value();
  }
  void TearDown() override {
    for (auto& [machine, agent] : agents) {
      machine->detach();
      caf::anon_send_exit(agent, caf::exit_reason::user_shutdown);
    }
    agents.clear();
    coordinator.reset();
    system.reset();
  }

  void start_coordinator(
      std::unique_ptr<store::EventLog> log = std::make_unique<store::MemoryEventLog>()) {
    CoordinatorNodeOptions options;
    options.settings.membership.heartbeat = milliseconds(50);
    options.settings.version = "test";
    options.job_settings.report_interval = milliseconds(10);
    options.log = std::move(log);
    options.placer = std::make_shared<sched::SchedulerCore>();
    options.tokens = &tokens;
    options.say = [this](const std::string& line) {
      const std::lock_guard lock(said_mutex);
      said += line + "\n";
    };
    options.clock = &clock;
    options.meters = &meters;
    options.make_ledger = [](const std::vector<io::InputSpec>&) {
      return std::unique_ptr<io::Ledger>();
    };
    auto started = CoordinatorNode::start(system->get(), std::move(options));
    ASSERT_TRUE(started) << started.error().to_string();
    coordinator = std::move(*started);
  }

  FakeMachine& add_agent(const std::string& name) {
    auto machine = std::make_shared<FakeMachine>();
    AgentSettings settings;
    settings.node = NodeId(name);
    settings.incarnation = Incarnation(agents.size() + 1);
    settings.address = "127.0.0.1";
    settings.capacity.node = settings.node;
    settings.capacity.cpu_milli = 4000;
    settings.capacity.memory_bytes = 1 << 30;
    settings.capacity.ports = {20000, 100};
    AgentActorOptions options;
    options.core = std::make_shared<AgentCore>(settings);
    options.clock = &clock;
    options.perform = [machine](AgentEffect effect) { machine->perform(std::move(effect)); };
    actor::AgentLinkOptions link;
    link.local = [this] { return coordinator->hub(); };
    wire::LinkHello hello;
    hello.node = settings.node;
    hello.incarnation = settings.incarnation;
    link.hello = [hello]() -> Result<wire::LinkHello> { return hello; };
    caf::actor agent =
        spawn_agent(system->get(), std::move(options), [this, link](const caf::actor& owner) {
          return actor::spawn_agent_link(system->get(), owner, link);
        });
    machine->attach(agent);
    agents.emplace_back(machine, agent);
    return *machine;
  }

  std::string so_far() {
    const std::lock_guard lock(said_mutex);
    return said;
  }

  Result<ApiReply> call(ApiCall request, Duration timeout = seconds(10)) {
    auto promise = std::make_shared<std::promise<Result<ApiReply>>>();
    coordinator->call(std::move(request), timeout,
                      [promise](Result<ApiReply> r) { promise->set_value(std::move(r)); });
    auto future = promise->get_future();
    if (future.wait_for(seconds(20)) != std::future_status::ready)
      return fail(Errc::kInternal, "no answer at all");
    return future.get();
  }

  static JobSpec spec_of(std::uint32_t count) {
    JobSpec spec;
    spec.name = "t";
    spec.owner = "ann";
    spec.cwd = "/";
    RoleSpec role;
    role.name = "worker";
    role.argv = {"/bin/true"};
    role.count_min = role.count_max = count;
    spec.roles = {role};
    return spec;
  }

  JobId submit(JobSpec spec) {
    // Until the term is claimed the coordinator says kUnavailable.
    const TimePoint until = clock.now() + seconds(20);
    for (;;) {
      auto reply = call(SubmitJob{spec, ""});
      if (reply) return std::get<SubmitAck>(*reply).job;
      if (reply.error().code != Errc::kUnavailable || clock.now() > until) {
        ADD_FAILURE() << reply.error().to_string();
        return {};
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  JobView wait(JobId job, const std::function<bool(const JobView&)>& done) {
    const TimePoint until = clock.now() + seconds(20);
    JobView view;
    while (clock.now() < until) {
      auto reply = call(GetJob{job});
      if (reply) view = std::get<JobView>(*reply);
      if (reply && done(view)) return view;
      std::this_thread::sleep_for(milliseconds(5));
    }
    ADD_FAILURE() << "last seen: " << to_string(view.state) << " " << view.reason;
    return view;
  }

  SystemClock clock;
  HmacTokens tokens{std::string(32, 'k')};
  std::unique_ptr<actor::System> system;
  std::mutex said_mutex;
  std::string said;
  Meters meters;
  std::unique_ptr<CoordinatorNode> coordinator;
  std::vector<std::pair<std::shared_ptr<FakeMachine>, caf::actor>> agents;
};

TEST_F(InProcess, JobOfOneSucceeds) {
  start_coordinator();
  add_agent("a");
  const JobView view = wait(submit(spec_of(1)), [](const JobView& v) { return is_final(v.state); });
  EXPECT_EQ(view.state, JobState::kSucceeded);
  EXPECT_EQ(view.exit_code, 0);
  ASSERT_EQ(view.tasks.size(), 1u);
  EXPECT_EQ(view.tasks[0].node, NodeId("a"));
}

TEST_F(InProcess, GangOverTwoAgentsFailsWithTheUsersCode) {
  start_coordinator();
  add_agent("a").code = 7;
  add_agent("b").code = 7;
  const JobView view = wait(submit(spec_of(6)), [](const JobView& v) { return is_final(v.state); });
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.exit_code, 7);
  EXPECT_TRUE(view.first_failed);
}

TEST_F(InProcess, KillEndsARunningJob) {
  start_coordinator();
  add_agent("a").run_until_stopped = true;
  const JobId job = submit(spec_of(2));
  wait(job, [](const JobView& v) { return v.state == JobState::kRunning; });
  ASSERT_TRUE(call(KillJob{job, "enough"}));
  EXPECT_EQ(wait(job, [](const JobView& v) { return is_final(v.state); }).state,
            JobState::kCancelled);
  EXPECT_EQ(call(KillJob{job, "again"}).error().code, Errc::kFailedPrecondition);
}

TEST_F(InProcess, WhoLooksAfterBeingToldSeesTheEndOfTheJob) {
  start_coordinator();
  add_agent("a");
  std::mutex mutex;
  std::condition_variable changed;
  std::map<JobId, int> told;
  auto handle = coordinator->subscribe([&](JobId job) {
    const std::lock_guard lock(mutex);
    ++told[job];
    changed.notify_all();
  });
  for (int i = 0; i < 40; ++i) {
    const JobId job = submit(spec_of(1));
    int seen = 0;
    for (bool over = false; !over;) {
      {
        std::unique_lock lock(mutex);
        ASSERT_TRUE(changed.wait_for(lock, seconds(20), [&] { return told[job] > seen; }))
            << "the last change was told before the answers showed it";
        seen = told[job];
      }
      const auto reply = call(GetJob{job});
      ASSERT_TRUE(reply);
      over = is_final(std::get<JobView>(*reply).state);
    }
  }
}

TEST_F(InProcess, ManyJobsAllEndAndListenersHearOfThem) {
  start_coordinator();
  add_agent("a");
  add_agent("b");
  std::atomic<std::uint64_t> told{0};
  auto handle = coordinator->subscribe([&](JobId) { ++told; });
  std::vector<JobId> jobs;
  for (int i = 0; i < 60; ++i) jobs.push_back(submit(spec_of(1)));
  for (const JobId job : jobs)
    EXPECT_EQ(wait(job, [](const JobView& v) { return is_final(v.state); }).state,
              JobState::kSucceeded);
  EXPECT_GT(told.load(), 120u) << "a submit and an end each";
  handle.reset();
  const auto health = call(GetHealth{});
  ASSERT_TRUE(health);
  EXPECT_EQ(std::get<Health>(*health).jobs_finished, 60u);
  EXPECT_EQ(std::get<Health>(*health).nodes_up, 2u);
}

TEST_F(InProcess, JobsEndWithTheirCoordinator) {
  constexpr std::size_t kJobs = 20;  // more than the actors that stop besides them
  start_coordinator();
  add_agent("a").run_until_stopped = true;
  JobSpec spec = spec_of(1);
  spec.roles[0].resources.cpu_milli = 100;
  const JobId first = submit(spec);
  wait(first, [](const JobView& v) { return v.state == JobState::kRunning; });
  const auto actors = [&] { return system->get().registry().running(); };
  const std::size_t before = actors();
  for (std::size_t i = 0; i < kJobs; ++i)
    wait(submit(spec), [](const JobView& v) { return v.state == JobState::kRunning; });
  EXPECT_EQ(actors(), before + kJobs);
  coordinator->stop();
  const TimePoint until = clock.now() + seconds(20);
  while (actors() >= before && clock.now() < until) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_LT(actors(), before);
}

TEST_F(InProcess, SubmitsThatComeDuringACommitShareTheNextAndNoneIsAnsweredBeforeItsOwn) {
  constexpr int kSubmits = 50;
  auto gate = std::make_shared<GatedLog::Gate>();
  start_coordinator(std::make_unique<GatedLog>(gate));
  submit(spec_of(1));  // the term is claimed
  int before = 0;
  {
    const std::lock_guard lock(gate->mutex);
    gate->open = false;
    before = gate->commits;
  }
  const auto turns = [&] {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : meters.turn_seconds.values().counts) sum += n;
    return sum;
  };
  const std::uint64_t turns_before = turns();
  std::atomic<int> acknowledged{0};
  for (int i = 0; i < kSubmits; ++i)
    coordinator->call(SubmitJob{spec_of(1), ""}, seconds(30), [&](Result<ApiReply> reply) {
      if (reply) ++acknowledged;
    });
  const TimePoint until = clock.now() + seconds(20);
  while (turns() < turns_before + kSubmits && clock.now() < until)
    std::this_thread::sleep_for(milliseconds(2));
  EXPECT_GE(turns(), turns_before + kSubmits) << "all wait for the log";
  EXPECT_EQ(acknowledged, 0);
  {
    const std::lock_guard lock(gate->mutex);
    gate->open = true;
  }
  gate->changed.notify_all();
  while (acknowledged < kSubmits && clock.now() < until)
    std::this_thread::sleep_for(milliseconds(2));
  EXPECT_EQ(acknowledged, kSubmits);
  const std::lock_guard lock(gate->mutex);
  EXPECT_LE(gate->commits - before, 5) << "not one fsync each";
}

TEST_F(InProcess, WhatACommitSupersedesIsRemovedBehindItsAnswerAndARefusalIsToldAndTriedAgain) {
  auto gate = std::make_shared<GatedLog::Gate>();
  gate->removals_refused = true;
  std::promise<std::string> told;
  StoreOptions options;
  options.clock = &clock;
  options.forget_every = milliseconds(20);
  options.log = [&, first = true](const std::string& line) mutable {
    if (std::exchange(first, false)) told.set_value(line);
  };
  caf::actor store = spawn_store(
      system->get(), std::make_unique<ControlLog>(std::make_unique<GatedLog>(gate)), options);
  caf::scoped_actor self{system->get()};
  const SplitsLeased lease{{JobId(1), "worker", 0, Generation(1)}, "train", 1, 1};
  GenerationEnded over;
  over.job = JobId(1);
  int removed_before = -1;
  self->send(store, StoreEvents{Persist{1, {lease, over}}});
  self->receive([&](const StoreDone& done) {
    const std::lock_guard lock(gate->mutex);
    removed_before = gate->removals;
    EXPECT_TRUE(done.status);
  });
  EXPECT_EQ(removed_before, 0) << "the answer does not wait for it";
  auto line = told.get_future();
  ASSERT_EQ(line.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_NE(line.get().find("no room to delete"), std::string::npos);
  {
    std::unique_lock lock(gate->mutex);
    gate->removals_refused = false;
    const int before = gate->removals;
    EXPECT_TRUE(gate->changed.wait_for(lock, seconds(30), [&] { return gate->removals > before; }));
  }
  self->send_exit(store, caf::exit_reason::user_shutdown);
  self->wait_for(store);
}

TEST_F(InProcess, CallsOfAStoppedCoordinatorAreAnswered) {
  start_coordinator();
  coordinator->stop();
  EXPECT_EQ(call(GetHealth{}).error().code, Errc::kUnavailable);
}

TEST_F(InProcess, AMessageThatIsNotUnderstoodIsToldAndChangesNothing) {
  start_coordinator();
  caf::scoped_actor peer(system->get());
  actor::AgentLinkOptions options;
  options.local = [this] { return coordinator->hub(); };
  wire::LinkHello hello;
  hello.node = NodeId{"odd"};
  hello.incarnation = Incarnation{1};
  options.hello = [hello]() -> Result<wire::LinkHello> { return hello; };
  caf::actor link = actor::spawn_agent_link(system->get(), peer, options);
  bool up = false;
  peer->receive([&](const actor::LinkUp&) { up = true; }, caf::after(seconds(20)) >> [] {});
  ASSERT_TRUE(up);
  for (int i = 0; i < 100; ++i) caf::anon_send(link, actor::LinkSend{"no message"});
  const TimePoint until = clock.now() + seconds(20);
  while (meters.messages_refused.value() < 100 && clock.now() < until)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(meters.messages_refused.value(), 100u);
  const std::string told = so_far();
  EXPECT_NE(told.find("node odd is not understood (1 so far)"), std::string::npos) << told;
  EXPECT_LE(std::count(told.begin(), told.end(), '\n'), 8)
      << "a flood of them is no flood of lines";
  add_agent("a");
  EXPECT_EQ(wait(submit(spec_of(1)), [](const JobView& v) { return is_final(v.state); }).state,
            JobState::kSucceeded);
  caf::anon_send_exit(link, caf::exit_reason::user_shutdown);
}

}  // namespace
}  // namespace dlrun::cluster
