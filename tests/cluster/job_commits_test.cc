// Commits of inputs, and inputs without leases.

#include <map>

#include "tests/cluster/job_inputs_fixture.h"

namespace dlrun::cluster {
namespace {

/// What `rank` took: rows of splits.
CommitInputs commit_of(const JobHarness& h, std::uint32_t rank, std::uint64_t id, std::string tag,
                       std::vector<io::SplitProgress> splits, std::uint32_t generation = 1) {
  io::InputCursor cursor;
  cursor.input = "train";
  cursor.splits = std::move(splits);
  return {h.task("worker", rank, generation),
          Epoch{1, generation},
          id,
          std::move(tag),
          {std::move(cursor)}};
}

class JobCommits : public JobInputs {
 protected:
  JobCommits() : JobInputs(JobSettings{.snapshot_after = 3}, restarting()) {}
  static JobSpec restarting() {
    JobSpec s = spec();
    s.restart = {3, {Cause::kExit}};
    return s;
  }
  std::vector<CommitDone> enter(std::uint32_t rank, std::uint64_t id, const std::string& tag,
                                std::vector<io::SplitProgress> splits = {}) {
    h.sent.clear();
    h.from("n" + std::to_string(rank), commit_of(h, rank, id, tag, std::move(splits), generation));
    return h.take_of<CommitDone>();
  }
  std::optional<LeaseReply> files(std::uint32_t rank, const std::string& etag = "e") {
    h.sent.clear();
    h.from("n" + std::to_string(rank), InputFiles{h.task("worker", rank, generation),
                                                  Epoch{1, generation},
                                                  "train",
                                                  {{"f", 64u << 20, etag}},
                                                  700 + rank});
    const auto replies = h.take_of<LeaseReply>();
    return replies.empty() ? std::nullopt : std::optional(replies.front());
  }
  std::optional<LeaseReply> lease(std::uint32_t rank, std::uint64_t request,
                                  std::vector<io::SplitKey> done = {}) {
    h.sent.clear();
    h.from("n" + std::to_string(rank), LeaseSplits{h.task("worker", rank, generation),
                                                   Epoch{1, generation},
                                                   "train",
                                                   16,
                                                   request,
                                                   false,
                                                   {},
                                                   std::move(done)});
    const auto replies = h.take_of<LeaseReply>();
    return replies.empty() ? std::nullopt : std::optional(replies.front());
  }
  /// Rank 0 fails; the next generation runs.
  void next_generation() {
    h.exits("n0", h.task("worker", 0, generation), 1);
    h.exits("n1", h.task("worker", 1, generation), 1);
    ASSERT_EQ(h.wants_generation, ++generation);
    h.place(generation);
    prepared = h.sent_of<PrepareTask>();
    for (const TaskState state : {TaskState::kPrepared, TaskState::kRunning})
      for (std::uint32_t rank = 0; rank < 2; ++rank)
        h.update("n" + std::to_string(rank), h.task("worker", rank, generation), state);
    h.sent.clear();
  }
  /// Every split that the generation still gives, with the rows left out of each.
  std::map<std::uint64_t, std::uint64_t> rest_of_all() {
    std::map<std::uint64_t, std::uint64_t> out;
    std::vector<io::SplitKey> done;
    for (std::uint64_t request = 1000;; ++request) {
      const auto reply = lease(1, request, done);
      done.clear();
      if (!reply || reply->answer.state != io::LeaseState::kGranted) return out;
      for (const io::Split& split : reply->answer.splits) {
        EXPECT_TRUE(out.emplace(split.id, split.skip_rows).second);
        done.push_back({split.id, split.pass});
      }
    }
  }
  std::uint32_t generation = 1;
  std::vector<PrepareTask> prepared;
};

TEST_F(JobCommits, IsOneRecordWhenEveryRankStandsThereAndTheNextGenerationBeginsThere) {
  const auto mine = keys(*ask(0, 10, 8));
  const auto others = keys(*ask(1, 500, 8));
  const std::size_t before = h.log.size();
  EXPECT_TRUE(
      enter(0, 71, "ckpt-1", {{mine[0].split_id, 9, 0, 1}, {mine[1].split_id, 4, 0, 0}}).empty())
      << "the other is missing";
  const auto done = enter(1, 72, "ckpt-1", {{others[0].split_id, 1, 0, 0}});
  ASSERT_EQ(done.size(), 2u);
  for (const CommitDone& one : done) {
    EXPECT_EQ(one.error, Errc{}) << one.error_context;
    EXPECT_EQ(one.number, 1u);
  }
  EXPECT_EQ(h.log.size(), before + 1);
  // What comes after it is lost with the generation.
  (void)lease(0, 12, {mine[2], mine[3]});
  next_generation();
  ASSERT_EQ(prepared.size(), 2u);
  EXPECT_EQ(prepared[0].commit_number, 1u);
  EXPECT_EQ(prepared[1].commit_tag, "ckpt-1");
  ASSERT_TRUE(files(0));
  h.recover();  // at any point
  const auto left = rest_of_all();
  EXPECT_EQ(left.size(), 63u) << "all but the one that was taken whole";
  EXPECT_EQ(left.count(mine[0].split_id), 0u);
  EXPECT_EQ(left.at(mine[1].split_id), 4u);
  EXPECT_EQ(left.at(others[0].split_id), 1u);
  EXPECT_EQ(left.at(mine[2].split_id), 0u) << "done, but not committed";
}

TEST_F(JobCommits, NobodyIsToldBeforeItIsOnDiskAndARepeatIsAnsweredAlike) {
  EXPECT_TRUE(enter(0, 71, "a").empty());
  h.hold_store = true;
  EXPECT_TRUE(enter(1, 72, "a").empty());
  h.release_store();
  EXPECT_EQ(h.take_of<CommitDone>().size(), 2u);
  const std::size_t records = h.log.size();
  const auto again = enter(1, 72, "a");
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].number, 1u);
  h.recover();
  EXPECT_EQ(enter(0, 71, "a").size(), 1u);
  EXPECT_EQ(h.log.size(), records) << "a repeat is no record";
  EXPECT_TRUE(enter(0, 73, "b").empty()) << "the next one";
  EXPECT_EQ(enter(1, 74, "b").at(0).number, 2u);
}

TEST_F(JobCommits, ACoordinatorThatDiesBeforeTheRecordFindsTheRanksAgain) {
  EXPECT_TRUE(enter(0, 71, "a").empty());
  h.recover();
  EXPECT_TRUE(enter(1, 72, "a").empty()) << "it has forgotten rank 0";
  EXPECT_EQ(enter(0, 71, "a").size(), 2u) << "whose agent says it again";
}

TEST_F(JobCommits, ALateRepeatOfOneThatIsOverStandsForNobody) {
  for (const std::uint64_t id : {71u, 81u}) {
    EXPECT_TRUE(enter(0, id, "a").empty());
    EXPECT_EQ(enter(1, id + 1, "a").size(), 2u);
  }
  EXPECT_TRUE(enter(0, 71, "a").empty())
      << "said again before it was answered, and on its way since";
  EXPECT_TRUE(enter(1, 92, "a").empty()) << "rank 0 does not stand there";
  EXPECT_TRUE(enter(1, 82, "a").size() == 1u);
  EXPECT_EQ(enter(0, 91, "a").size(), 2u);
  EXPECT_TRUE(enter(0, 101, "b").empty());
  EXPECT_EQ(enter(1, 102, "c").size(), 2u) << "refused";
  EXPECT_TRUE(enter(1, 92, "a").size() <= 1u);
  EXPECT_TRUE(enter(0, 71, "a").empty());
  EXPECT_TRUE(enter(1, 112, "d").empty());
}

TEST_F(JobCommits, DifferentTagsAreAnErrorForAllAndNothingIsRecorded) {
  const std::size_t records = h.log.size();
  EXPECT_TRUE(enter(0, 71, "a").empty());
  const auto refused = enter(1, 72, "b");
  ASSERT_EQ(refused.size(), 2u);
  for (const CommitDone& one : refused) EXPECT_EQ(one.error, Errc::kFailedPrecondition);
  EXPECT_EQ(h.log.size(), records);
  EXPECT_EQ(enter(0, 71, "a").at(0).error, Errc::kFailedPrecondition) << "a repeat";
  EXPECT_TRUE(enter(0, 73, "c").empty());
  EXPECT_EQ(enter(1, 74, "c").size(), 2u);
}

TEST_F(JobCommits, WhoHasEndedWellIsNotWaitedFor) {
  EXPECT_TRUE(enter(1, 72, "a").empty());
  h.sent.clear();
  h.exits("n0", h.task("worker", 0), 0);
  const auto done = h.take_of<CommitDone>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error, Errc{}) << done[0].error_context;
}

TEST_F(JobCommits, AFailureRefusesThoseWhoWait) {
  EXPECT_TRUE(enter(1, 72, "a").empty());
  h.sent.clear();
  h.exits("n0", h.task("worker", 0), 3);
  const auto done = h.take_of<CommitDone>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error, Errc::kFailedPrecondition);
  EXPECT_NE(done[0].error_context.find("the generation ends"), std::string::npos);
}

TEST_F(JobCommits, OneOfAnEpochThatIsOverIsRefused) {
  h.sent.clear();
  CommitInputs late = commit_of(h, 0, 71, "a", {});
  late.epoch = Epoch{1, 7};
  h.from("n0", late);
  const auto done = h.take_of<CommitDone>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error, Errc::kStaleEpoch);
}

TEST_F(JobCommits, OutlivesSnapshotsAndGenerationsWithWhatTheySupersede) {
  const auto mine = keys(*ask(0, 10, 8));
  EXPECT_TRUE(enter(0, 71, "a", {{mine[0].split_id, 1, 0, 1}}).empty());
  EXPECT_EQ(enter(1, 72, "a").size(), 2u);
  for (std::uint64_t request = 20; request < 30; ++request) (void)lease(0, request);  // snapshots
  next_generation();
  next_generation();  // without a commit of its own
  h.recover();
  ASSERT_TRUE(files(1));
  EXPECT_EQ(rest_of_all().size(), 63u);
}

TEST_F(JobCommits, ASecondOneStandsForTheFirst) {
  const auto mine = keys(*ask(0, 10, 8));
  EXPECT_TRUE(enter(0, 71, "a", {{mine[0].split_id, 1, 0, 1}}).empty());
  EXPECT_EQ(enter(1, 72, "a").size(), 2u);
  EXPECT_TRUE(
      enter(0, 73, "b", {{mine[0].split_id, 1, 0, 1}, {mine[1].split_id, 1, 0, 1}}).empty());
  EXPECT_EQ(enter(1, 74, "b").size(), 2u);
  std::vector<Event> commits;
  for (const Event& e : h.log)
    if (std::holds_alternative<InputsCommitted>(e)) commits.push_back(e);
  ASSERT_EQ(commits.size(), 2u);
  EXPECT_TRUE(is_superseded(commits[0], commits[1]));
  auto other = std::get<InputsCommitted>(commits[1]);
  other.role = "evaluator";
  EXPECT_FALSE(is_superseded(commits[0], other));
  next_generation();
  EXPECT_EQ(prepared.at(0).commit_tag, "b");
  ASSERT_TRUE(files(0));
  EXPECT_EQ(rest_of_all().size(), 62u);
}

TEST_F(JobCommits, FilesThatChangedSinceAreRefusedByName) {
  EXPECT_TRUE(enter(0, 71, "a").empty());
  EXPECT_EQ(enter(1, 72, "a").size(), 2u);
  next_generation();
  const auto reply = files(0, "changed");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, Errc::kFailedPrecondition);
  EXPECT_NE(reply->error_context.find("input \"train\""), std::string::npos);
}

TEST_F(JobCommits, AnInputThatIsNotOpenedInAGenerationKeepsItsCommit) {
  const auto mine = keys(*ask(0, 10, 8));
  EXPECT_TRUE(enter(0, 71, "a", {{mine[0].split_id, 1, 0, 1}}).empty());
  EXPECT_EQ(enter(1, 72, "a").size(), 2u);
  next_generation();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    h.sent.clear();
    h.from(
        "n" + std::to_string(rank),
        CommitInputs{h.task("worker", rank, generation), Epoch{1, generation}, 80 + rank, "b", {}});
  }
  EXPECT_EQ(h.take_of<CommitDone>().size(), 2u);
  next_generation();
  EXPECT_EQ(prepared.at(0).commit_tag, "b");
  ASSERT_TRUE(files(0));
  EXPECT_EQ(rest_of_all().size(), 63u);
}

// ---- inputs without leases

TEST(JobLanesTest, TheNewsOfStepsAreNoRecordAndAConsumerIsToldWhereItBegins) {
  JobSpec spec = spec_of(2);
  io::InputSpec input;
  input.name = "train";
  input.uris = {"x"};
  input.mode = io::Mode::kDeterministic;
  input.ends = io::Ends::kDrop;
  spec.inputs = {input};
  JobHarness h(spec, [](const auto& inputs) { return std::make_unique<io::LedgerCore>(inputs); });
  h.place();
  h.run_all_workers(2);
  h.from("n1", InputFiles{h.task("worker", 1), kEpoch, "train", {{"f", 64u << 20, "e"}}, 1});
  const auto begin = h.take_of<LeaseReply>();
  ASSERT_EQ(begin.size(), 1u);
  EXPECT_EQ(begin[0].answer.start.world, 2u);
  const std::size_t records = h.log.size();
  const auto say = [&](std::uint32_t rank, std::uint64_t request, io::StepReport report) {
    h.sent.clear();
    LeaseSplits words{h.task("worker", rank), kEpoch, "train", 0, request};
    words.steps = {report};
    h.from("n" + std::to_string(rank), words);
    return h.take_of<LeaseReply>().at(0).answer.steps;
  };
  EXPECT_EQ(say(0, 2, {0, 8, false}).least, 0u);
  EXPECT_EQ(say(1, 3, {0, 5, true}), (io::StepNews{0, 5, 8, 5, false, true}));
  EXPECT_EQ(h.log.size(), records);
}

}  // namespace
}  // namespace dlrun::cluster
