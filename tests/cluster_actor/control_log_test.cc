#include "runtime/cluster/actor/control_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "runtime/store/memory_event_log.h"

namespace dlrun::cluster {
namespace {

JobSubmitted submitted(std::uint64_t job, const std::string& key = "") {
  JobSubmitted event;
  event.job = JobId(job);
  event.spec.name = "name" + std::to_string(job);
  event.spec.owner = "ann";
  event.spec.submit_env = {{"SECRET", "1"}};
  RoleSpec role;
  role.name = "worker";
  role.argv = {"/bin/true"};
  event.spec.roles = {role};
  if (!key.empty()) event.key = "ann\n" + key;
  event.fingerprint = job * 10;
  event.at = WallTime{static_cast<std::int64_t>(job)};
  return event;
}

JobEnded ended(const JobSubmitted& job, JobState state = JobState::kSucceeded) {
  JobEnded event;
  event.view.id = job.job;
  event.view.spec = job.spec;
  event.view.spec.submit_env.clear();
  event.view.state = state;
  event.view.submitted = job.at;
  event.view.ended = WallTime{1000};
  event.view.tasks.resize(1);
  return event;
}

std::vector<Event> replay(ControlLog& log, std::size_t keys_max = 100) {
  std::vector<Event> out;
  const Status ok = log.replay(keys_max, [&](const Event& event) { out.push_back(event); });
  EXPECT_TRUE(ok) << ok.error().to_string();
  return out;
}

struct ControlLogTest : ::testing::Test {
  ControlLog log{std::make_unique<store::MemoryEventLog>()};
};

/// The kinds of a job's records that are left, in order.
std::vector<std::string> kinds(ControlLog& log) {
  std::vector<std::string> out;
  for (const Event& event : replay(log))
    if (job_of(event) == JobId(1)) out.push_back(std::string(kind_of(event)));
  return out;
}

TEST_F(ControlLogTest, WhatASnapshotOrAnEndSupersedesGoesAndNothingElse) {
  const TaskId consumer{JobId(1), "worker", 0, Generation(1)};
  const SplitsLeased lease{consumer, "train", 1, 1};
  const InputFilesSet files{JobId(1), Generation(1), "train", {}};
  const BarrierMet met{JobId(1), Generation(1), "worker", "b", 1};
  SplitsLeased of_another = lease;
  of_another.consumer.job = JobId(2);
  const JobSnapshot snapshot{JobId(1), Generation(1), {}, {}, {}};
  ASSERT_TRUE(log.append({TermStarted{3}, submitted(1), submitted(2), files, lease, of_another}, 3,
                         WallTime{1}));
  // In the middle of a commit: what comes behind it stays.
  const auto last = log.append({met, snapshot, lease}, 3, WallTime{2});
  ASSERT_TRUE(last);
  EXPECT_EQ(*last, 9u);
  EXPECT_EQ(kinds(log).size(), 6u) << "whoever waits for an append does not wait for this";
  EXPECT_TRUE(log.has_superseded());
  ASSERT_TRUE(log.forget_superseded());
  EXPECT_FALSE(log.has_superseded());
  EXPECT_EQ(kinds(log), (std::vector<std::string>{"job_submitted", "input_files", "job_snapshot",
                                                  "splits_leased"}));
  ASSERT_TRUE(log.append({snapshot}, 3, WallTime{3}));
  ASSERT_TRUE(log.forget_superseded());
  EXPECT_EQ(kinds(log), (std::vector<std::string>{"job_submitted", "input_files", "job_snapshot"}));
  GenerationEnded over;
  over.job = JobId(1);
  over.generation = Generation(1);
  ASSERT_TRUE(log.append({lease, over}, 3, WallTime{4}));
  ASSERT_TRUE(log.forget_superseded());
  EXPECT_EQ(kinds(log), (std::vector<std::string>{"job_submitted", "generation_ended"}));
  const std::vector<Event> all = replay(log);
  EXPECT_EQ(std::count(all.begin(), all.end(), Event(of_another)), 1);
}

// A commit stands for earlier ones of its role alone: leases before it are no snapshot's yet.
TEST(ControlLog, ACommitOfInputsSupersedesTheOneBeforeItAndOutlivesSnapshotsAndGenerations) {
  auto memory = std::make_unique<store::MemoryEventLog>();
  store::MemoryEventLog& disk = *memory;
  ControlLog log(std::move(memory));
  const SplitsLeased lease{{JobId(1), "worker", 0, Generation(1)}, "train", 1, 1};
  const JobSnapshot snapshot{JobId(1), Generation(1), {}, {}, {}};
  const auto commit = [](const char* role, std::uint64_t number) {
    return InputsCommitted{JobId(1), Generation(1), role, number, "", {}, {}, WallTime{1}};
  };
  ASSERT_TRUE(log.append({TermStarted{3}, submitted(1), lease, commit("worker", 1), lease}, 3,
                         WallTime{1}));
  EXPECT_FALSE(log.has_superseded());
  ASSERT_TRUE(log.append({commit("reader", 2), commit("worker", 3)}, 3, WallTime{2}));
  ASSERT_TRUE(log.forget_superseded());
  EXPECT_EQ(kinds(log), (std::vector<std::string>{"job_submitted", "splits_leased", "splits_leased",
                                                  "inputs_committed", "inputs_committed"}));
  EXPECT_FALSE(log.has_superseded()) << "reading it again notes nothing anew";
  GenerationEnded over;
  over.job = JobId(1);
  over.generation = Generation(1);
  ASSERT_TRUE(log.append({snapshot, over}, 3, WallTime{3}));
  ASSERT_TRUE(log.forget_superseded());
  EXPECT_EQ(kinds(log), (std::vector<std::string>{"job_submitted", "inputs_committed",
                                                  "inputs_committed", "generation_ended"}));
  ASSERT_TRUE(log.append({ended(submitted(1))}, 3, WallTime{4}));
  EXPECT_TRUE(log.has_superseded());
  ASSERT_TRUE(log.forget_superseded());
  EXPECT_FALSE(log.has_superseded());
  std::size_t left = 0;
  ASSERT_TRUE(disk.read_job(1, 0, [&](const store::Record&) { return ++left > 0; }));
  EXPECT_EQ(left, 3u) << "submitted, the end of the generation and its own";
}

TEST_F(ControlLogTest, AJobThatHadNoInputsAndNoBarriersIsNotReadForItsEnd) {
  ASSERT_TRUE(log.append({TermStarted{3}, submitted(1), ended(submitted(1))}, 3, WallTime{1}));
  EXPECT_FALSE(log.has_superseded());
}

TEST_F(ControlLogTest, AGenerationOverWhileTheLastOneIsStillInTheLogLeavesTheNextOnesRecords) {
  const TaskId consumer{JobId(1), "worker", 0, Generation(1)};
  const SplitsLeased lease{consumer, "train", 1, 1};
  const InputFilesSet files{JobId(1), Generation(1), "train", {}};
  GenerationEnded over;
  over.job = JobId(1);
  const JobSnapshot snapshot{JobId(1), Generation(2), {}, {}, {}};
  ASSERT_TRUE(log.append({TermStarted{3}, submitted(1), files, lease, over}, 3, WallTime{1}));
  ASSERT_TRUE(log.append({files, lease, snapshot, lease}, 3, WallTime{2}));
  ASSERT_TRUE(log.forget_superseded());
  const std::vector<std::string> left{"job_submitted", "generation_ended", "input_files",
                                      "job_snapshot", "splits_leased"};
  EXPECT_EQ(kinds(log), left);
  ASSERT_TRUE(log.append({ended(submitted(1))}, 3, WallTime{3}));
  ASSERT_TRUE(log.forget_superseded());
  EXPECT_FALSE(log.has_superseded());
}

TEST(ControlLog, WhatIsLeftByAProcessThatEndedGoesAfterTheNextReplay) {
  auto memory = std::make_unique<store::MemoryEventLog>();
  const store::MemoryEventLog& disk = *memory;
  ControlLog first(std::move(memory));
  const SplitsLeased lease{{JobId(1), "worker", 0, Generation(1)}, "train", 1, 1};
  const JobSnapshot snapshot{JobId(1), Generation(1), {}, {}, {}};
  ASSERT_TRUE(first.append({TermStarted{1}, submitted(1), lease, snapshot}, 1, WallTime{1}));
  ControlLog second(std::make_unique<store::MemoryEventLog>(disk));
  EXPECT_EQ(kinds(second).size(), 3u);
  ASSERT_TRUE(second.forget_superseded());
  EXPECT_EQ(kinds(second), (std::vector<std::string>{"job_submitted", "job_snapshot"}));
}

TEST_F(ControlLogTest, NothingComesAfterTheLastNumberThatThereIs) {
  ASSERT_TRUE(log.append({TermStarted{3}, submitted(1)}, 3, WallTime{1}));
  for (const JobId job : {JobId(0), JobId(1)}) {
    const auto reply =
        log.read(ReadEvents{1, {.after = std::numeric_limits<std::uint64_t>::max(), .job = job}});
    ASSERT_TRUE(reply) << reply.error().to_string();
    EXPECT_TRUE(std::get<EventList>(*reply).events.empty()) << "not from the beginning";
    EXPECT_EQ(std::get<EventList>(*reply).last, std::numeric_limits<std::uint64_t>::max());
  }
}

TEST_F(ControlLogTest, ReplayLeavesEndedJobsToTheBaseline) {
  const JobSubmitted first = submitted(1, "k1"), second = submitted(2, "k2");
  ASSERT_TRUE(log.append({TermStarted{3}, first}, 3, WallTime{1}));
  ASSERT_TRUE(log.append({second, ended(first)}, 3, WallTime{2}));
  const std::vector<Event> events = replay(log);
  ASSERT_EQ(events.size(), 3u);
  const auto& baseline = std::get<Baseline>(events[0]);
  EXPECT_EQ(baseline.last_job, JobId(2));
  EXPECT_EQ(baseline.jobs_finished, 1u);
  ASSERT_EQ(baseline.keys.size(), 1u);
  EXPECT_EQ(baseline.keys[0].key, "ann\nk1");
  EXPECT_EQ(baseline.keys[0].job, JobId(1));
  EXPECT_EQ(baseline.keys[0].fingerprint, 10u);
  EXPECT_EQ(std::get<TermStarted>(events[1]).term, 3u);
  EXPECT_EQ(std::get<JobSubmitted>(events[2]).job, JobId(2));
  EXPECT_EQ(std::get<JobSubmitted>(events[2]).spec.submit_env, second.spec.submit_env);
}

TEST_F(ControlLogTest, FinishedJobIsReadFromItsRowWithoutTheSubmittersEnvironment) {
  const JobSubmitted job = submitted(1);
  ASSERT_TRUE(log.append({job}, 1, WallTime{1}));
  const auto pending = log.read(ReadJob{1, JobId(1)});
  ASSERT_TRUE(pending);
  EXPECT_TRUE(std::get<JobView>(*pending).spec.submit_env.empty());
  ASSERT_TRUE(log.append({ended(job, JobState::kFailed)}, 1, WallTime{2}));
  const auto view = log.read(ReadJob{1, JobId(1)});
  ASSERT_TRUE(view);
  EXPECT_EQ(std::get<JobView>(*view).state, JobState::kFailed);
  EXPECT_EQ(std::get<JobView>(*view).spec.name, "name1");
  EXPECT_EQ(log.read(ReadJob{1, JobId(9)}).error().code, Errc::kNotFound);
}

TEST_F(ControlLogTest, ListMergesLiveJobsNewestFirstWithinTheLimit) {
  std::vector<Event> events;
  for (std::uint64_t i = 1; i <= 5; ++i) events.push_back(submitted(i));
  for (std::uint64_t i = 1; i <= 3; ++i) events.push_back(ended(submitted(i)));
  ASSERT_TRUE(log.append(events, 1, WallTime{1}));
  ReadJobs query;
  query.query.limit = 4;
  for (std::uint64_t i : {4, 5}) {
    JobView live;
    live.id = JobId(i);
    live.state = JobState::kRunning;
    query.live.push_back(live);
  }
  const auto reply = log.read(query);
  ASSERT_TRUE(reply);
  const auto& jobs = std::get<JobList>(*reply).jobs;
  ASSERT_EQ(jobs.size(), 4u);
  for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(jobs[i].id.value, 5 - i);
  EXPECT_TRUE(jobs[3].tasks.empty()) << "lists carry no tasks";
}

TEST_F(ControlLogTest, EventsForPeopleGoOnWhereTheLastAnswerEnded) {
  ASSERT_TRUE(log.append({TermStarted{1}, submitted(1), submitted(2)}, 1, WallTime{7}));
  ReadEvents query;
  query.query.limit = 2;
  auto reply = log.read(query);
  ASSERT_TRUE(reply);
  EventList list = std::get<EventList>(*reply);
  ASSERT_EQ(list.events.size(), 2u);
  query.query.after = list.last;
  list = std::get<EventList>(*log.read(query));
  ASSERT_EQ(list.events.size(), 1u);
  EXPECT_EQ(list.events[0].job, JobId(2));
  EXPECT_EQ(list.events[0].kind, "job_submitted");
  query = {};
  query.query.job = JobId(1);
  list = std::get<EventList>(*log.read(query));
  ASSERT_EQ(list.events.size(), 1u);
  EXPECT_EQ(list.events[0].sequence, 2u);
}

TEST_F(ControlLogTest, TheKeysOfTheNewestEndedJobsAreRememberedOldestFirst) {
  std::vector<Event> events;
  for (std::uint64_t i = 1; i <= 6; ++i) {
    events.push_back(submitted(i, i % 2 == 0 ? "k" + std::to_string(i) : ""));
    events.push_back(ended(submitted(i)));
  }
  ASSERT_TRUE(log.append(events, 1, WallTime{1}));
  const auto baseline = std::get<Baseline>(replay(log, 2)[0]);
  ASSERT_EQ(baseline.keys.size(), 2u);
  EXPECT_EQ(baseline.keys[0].job, JobId(4));
  EXPECT_EQ(baseline.keys[1].job, JobId(6));
}

TEST_F(ControlLogTest, RecordsThatAreForNobodyDoNotMakeOneReadLong) {
  SplitsLeased done;
  done.consumer = TaskId{JobId(1), "worker", 0, Generation{1}};
  ASSERT_TRUE(log.append({submitted(1)}, 1, WallTime{1}));
  ASSERT_TRUE(log.append(std::vector<Event>(25'000, Event(done)), 1, WallTime{1}));
  ASSERT_TRUE(log.append({submitted(2)}, 1, WallTime{1}));
  ReadEvents query;
  EventList list = std::get<EventList>(*log.read(query));
  EXPECT_EQ(list.events.size(), 1u);
  EXPECT_EQ(list.last, 20'000u);
  query.query.after = list.last;
  list = std::get<EventList>(*log.read(query));
  ASSERT_EQ(list.events.size(), 1u);
  EXPECT_EQ(list.events[0].job, JobId(2));
}

TEST_F(ControlLogTest, RetentionForgetsOldClusterRecordsButNotWhatAReplayNeeds) {
  const auto joined = [](const std::string& node, std::uint64_t incarnation) {
    NodeJoined event;
    event.node = NodeId{node};
    event.incarnation = Incarnation{incarnation};
    return event;
  };
  const NodeStateChanged lost{NodeId{"a"}, Incarnation{1}, NodeState::kLost, "x"};
  for (std::uint64_t term = 1; term <= 50; ++term)
    ASSERT_TRUE(log.append({TermStarted{term}, joined("a", term), joined("b", term), lost}, term,
                           WallTime{static_cast<std::int64_t>(term)}));
  ASSERT_TRUE(log.append({TermStarted{51}, lost}, 51, WallTime{1000}));
  const auto retired = log.retire(WallTime{500}, 10);
  ASSERT_TRUE(retired) << retired.error().to_string();
  EXPECT_GT(retired->cluster_records, 190u);
  EXPECT_FALSE(retired->more);
  std::uint64_t term = 0;
  std::map<std::string, std::uint64_t> nodes;
  std::size_t records = 0;
  for (const Event& event : replay(log)) {
    ++records;
    if (const auto* t = std::get_if<TermStarted>(&event)) term = t->term;
    if (const auto* n = std::get_if<NodeJoined>(&event))
      nodes[n->node.value] = n->incarnation.value;
  }
  EXPECT_EQ(term, 51u);
  EXPECT_EQ(nodes, (std::map<std::string, std::uint64_t>{{"a", 50}, {"b", 50}}));
  EXPECT_LT(records, 10u);
}

TEST_F(ControlLogTest, RetentionNamesTheJobsThatWent) {
  std::vector<Event> events;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    events.push_back(submitted(i));
    if (i != 2) events.push_back(ended(submitted(i)));
  }
  ASSERT_TRUE(log.append(events, 1, WallTime{1}));
  const auto retired = log.retire(WallTime{2000}, 10);
  ASSERT_TRUE(retired);
  EXPECT_EQ(retired->jobs, std::vector<std::uint64_t>{1})
      << "2 runs, 3 keeps its id from being given again";
}

}  // namespace
}  // namespace dlrun::cluster
