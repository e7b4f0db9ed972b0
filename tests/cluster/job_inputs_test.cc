#include <algorithm>
#include <map>
#include <set>

#include "io/core/ledger_core.h"
#include "runtime/cluster/core/job_core.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

constexpr Epoch kEpoch{1, 1};
using Keys = std::set<std::pair<std::uint32_t, std::uint64_t>>;

/// Two running workers and an input of 64 splits.
class JobInputs : public ::testing::Test {
 protected:
  explicit JobInputs(JobSettings settings = {}, JobSpec job = spec())
      : h(
            std::move(job),
            [](const auto& inputs) { return std::make_unique<io::LedgerCore>(inputs); }, settings) {
    h.place();
    h.run_all_workers(2);
    h.from("n0", InputFiles{h.task("worker", 0), kEpoch, "train", {{"f", 64u << 20, "e"}}, 1});
    h.sent.clear();
    records = h.log.size();
  }
  static JobSpec spec() {
    JobSpec spec = spec_of(2);
    io::InputSpec input;
    input.name = "train";
    input.uris = {"x"};
    input.split_bytes = 1u << 20;
    spec.inputs = {input};
    return spec;
  }
  /// The answer; none = no answer.
  std::optional<LeaseReply> ask(std::uint32_t rank, std::uint64_t request, std::uint32_t splits,
                                std::vector<io::SplitKey> done = {}, bool resync = false,
                                std::vector<io::SplitKey> held = {}) {
    h.sent.clear();
    h.from("n" + std::to_string(rank),
           LeaseSplits{h.task("worker", rank), kEpoch, "train", splits, request, resync,
                       std::move(held), std::move(done)});
    const auto replies = h.take_of<LeaseReply>();
    if (replies.empty()) return std::nullopt;
    return replies.front();
  }
  static std::vector<io::SplitKey> keys(const LeaseReply& reply) {
    std::vector<io::SplitKey> out;
    for (const io::Split& split : reply.answer.splits) out.push_back({split.id, split.pass});
    return out;
  }
  /// Reads everything that is left, as `rank`.
  Keys rest(std::uint32_t rank, std::uint64_t request) {
    Keys out;
    std::vector<io::SplitKey> done;
    for (;; ++request) {
      const auto reply = ask(rank, request, 16, done);
      done = keys(*reply);
      for (const io::SplitKey& key : done) out.insert({key.pass, key.split_id});
      if (reply->answer.state != io::LeaseState::kGranted) return out;
    }
  }
  JobHarness h;
  std::size_t records = 0;
};

TEST_F(JobInputs, OneRequestIsOneRecordWhateverItCarries) {
  const auto first = ask(0, 10, 16);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->answer.splits.size(), 16u);
  (void)ask(0, 11, 16, keys(*first));
  EXPECT_EQ(h.log.size(), records + 2);
  const auto again = ask(0, 11, 16, keys(*first));
  EXPECT_EQ(h.log.size(), records + 2) << "a repeat is none";
  ASSERT_TRUE(again);
}

TEST_F(JobInputs, WhatIsToldDoneIsNotReadAgainAfterItsReaderEnded) {
  const auto first = ask(0, 10, 8);
  auto done = keys(*first);
  done.resize(5);
  EXPECT_TRUE(ask(0, 11, 0, done)) << "the news alone";
  h.recover();
  h.sent.clear();
  h.exits("n0", h.task("worker", 0), 0);
  const Keys others = rest(1, 500);
  EXPECT_EQ(others.size(), 64u - 5u);
  for (const io::SplitKey& key : done) EXPECT_EQ(others.count({key.pass, key.split_id}), 0u);
}

TEST_F(JobInputs, AFeederThatFollowsAnotherKeepsWhatItsConsumerHolds) {
  const auto first = ask(0, 10, 8);
  const auto had = keys(*first);
  // the answer of request 11 is lost with its feeder; of the eight, two are done, one is begun
  (void)ask(0, 11, 8);
  const auto next = ask(0, 2000, 4, {had[0], had[1]}, true, {had[2]});
  ASSERT_TRUE(next);
  EXPECT_FALSE(ask(0, 11, 8)) << "said late by the feeder that is gone";
  h.recover();
  std::vector<io::SplitKey> done = keys(*next);
  done.push_back(had[2]);
  EXPECT_TRUE(ask(0, 2001, 0, done));
  Keys all = rest(1, 500);
  EXPECT_EQ(all.size(), 64u - 3u - next->answer.splits.size());
  for (const io::SplitKey& key : {had[0], had[1], had[2]})
    EXPECT_TRUE(all.insert({key.pass, key.split_id}).second);
}

TEST_F(JobInputs, AnAnswerIsTheSameWheneverItIsAskedForAgainAlsoAfterARestart) {
  const auto first = ask(0, 10, 8);
  h.recover();
  const auto again = ask(0, 10, 8);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->answer.splits, first->answer.splits);
}

TEST_F(JobInputs, ALeaseThatWasAnsweredIsAnsweredTheSameAgainAlsoAfterRecovery) {
  const LeaseSplits ask{h.task("worker", 0), kEpoch, "train", 2, 2};
  h.from("n0", ask);
  const auto first = h.take_of<LeaseReply>();
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(first[0].answer.splits.size(), 2u);
  h.from("n0", ask);
  ASSERT_EQ(h.sent_of<LeaseReply>().size(), 1u);
  EXPECT_EQ(h.take_of<LeaseReply>()[0].answer.splits, first[0].answer.splits);
  h.recover();
  h.sent.clear();
  h.from("n0", ask);
  ASSERT_EQ(h.sent_of<LeaseReply>().size(), 1u);
  EXPECT_EQ(h.take_of<LeaseReply>()[0].answer.splits, first[0].answer.splits);
  h.from("n1", LeaseSplits{h.task("worker", 1), kEpoch, "train", 2, 9});
  const auto other = h.take_of<LeaseReply>();
  ASSERT_EQ(other.size(), 1u);
  for (const io::Split& split : other[0].answer.splits)
    for (const io::Split& mine : first[0].answer.splits) EXPECT_NE(split.id, mine.id);
}

TEST_F(JobInputs, ALeaseThatBecomesDurableWithTheEndOfItsTaskIsNotGranted) {
  h.hold_store = true;
  // its record is under way: what follows makes the next commit
  h.exits("n1", h.task("worker", 1), 0);
  h.from("n0", LeaseSplits{h.task("worker", 0), kEpoch, "train", 2, 2});
  h.exits("n0", h.task("worker", 0), 1);
  h.release_store();
  EXPECT_TRUE(h.sent_of<LeaseReply>().empty());
  EXPECT_EQ(h.sent_of<TaskEndAck>().size(), 2u);
}

TEST_F(JobInputs, NobodyGetsTheSplitsOfATaskWhoseLossEndsTheGeneration) {
  (void)ask(0, 10, 8);
  h.take(h.core->on_input(NodeGone{NodeId{"n0"}, "is lost"}, h.now()));
  const auto reply = ask(1, 500, 8);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->answer.state, io::LeaseState::kWait);
  EXPECT_TRUE(reply->answer.splits.empty());
}

TEST_F(JobInputs, LeasesShrinkTowardsTheEndSoThatNobodySitsOnTheRest) {
  std::size_t largest_late = 0, handed = 0;
  for (std::uint64_t request = 10; handed < 64; ++request) {
    const auto reply = ask(static_cast<std::uint32_t>(request % 2), request, 128);
    const std::size_t n = reply->answer.splits.size();
    ASSERT_GT(n, 0u);
    if (handed >= 56) largest_late = std::max(largest_late, n);
    handed += n;
  }
  EXPECT_LE(largest_late, 2u);
}

/// A snapshot after each lease and each barrier, while it is small.
class JobSnapshots : public JobInputs {
 protected:
  JobSnapshots() : JobInputs(JobSettings{.snapshot_after = 1}) {}
  void forget_superseded() {
    for (std::uint64_t round = 1; !std::holds_alternative<JobSnapshot>(h.log.back()); ++round) {
      ASSERT_LT(round, 64u);
      for (const std::uint32_t rank : {0u, 1u})
        h.from("n" + std::to_string(rank),
               BarrierArrive{h.task("worker", rank), kEpoch, "until a snapshot", round});
    }
    const Event last = h.log.back();
    ASSERT_TRUE(std::holds_alternative<JobSnapshot>(last));
    std::erase_if(h.log, [&](const Event& e) { return is_superseded(e, last); });
    h.log.push_back(last);
  }
  std::size_t leases_in_the_log() const {
    return static_cast<std::size_t>(std::count_if(h.log.begin(), h.log.end(), [](const Event& e) {
      return std::holds_alternative<SplitsLeased>(e);
    }));
  }
};

TEST_F(JobSnapshots, ARestartGoesOnFromASnapshotAlone) {
  const auto first = ask(0, 10, 8);
  const auto had = keys(*first);
  const auto second = ask(1, 500, 8, {});
  EXPECT_TRUE(ask(0, 11, 0, {had[0], had[1]}));
  ASSERT_EQ(leases_in_the_log(), 3u);
  forget_superseded();
  EXPECT_EQ(leases_in_the_log(), 0u);
  h.recover();
  const auto again = ask(1, 500, 8);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->answer, second->answer) << "its answer may have been lost";
  EXPECT_FALSE(ask(0, 10, 8)) << "said before the last";
  h.sent.clear();
  h.exits("n0", h.task("worker", 0), 0);
  const Keys others = rest(1, 501);
  EXPECT_EQ(others.size(), 64u - 2u - 8u) << "but what is done and what it holds already";
  for (const io::SplitKey& key : {had[0], had[1]})
    EXPECT_EQ(others.count({key.pass, key.split_id}), 0u);
}

TEST_F(JobSnapshots, TheRoundsOfBarriersAreInIt) {
  const auto arrive = [&](std::uint32_t rank, std::uint64_t round) {
    h.sent.clear();
    h.from("n" + std::to_string(rank),
           BarrierArrive{h.task("worker", rank), kEpoch, "epoch", round});
    return h.take_of<BarrierDone>();
  };
  EXPECT_TRUE(arrive(0, 1).empty());
  EXPECT_EQ(arrive(1, 1).size(), 2u);
  forget_superseded();
  ASSERT_TRUE(std::none_of(h.log.begin(), h.log.end(),
                           [](const Event& e) { return std::holds_alternative<BarrierMet>(e); }));
  h.recover();
  const auto repeated = arrive(0, 1);
  ASSERT_EQ(repeated.size(), 1u) << "the round is over";
  EXPECT_EQ(repeated[0].round, 1u);
  EXPECT_TRUE(arrive(0, 2).empty());
  EXPECT_EQ(arrive(1, 2).size(), 2u);
}

TEST_F(JobSnapshots, AStateThatCannotBeIsToldToWhoAsks) {
  (void)ask(0, 10, 8);
  for (Event& event : h.log)
    if (auto* snapshot = std::get_if<JobSnapshot>(&event)) snapshot->inputs[0].position = 1u << 20;
  h.recover();
  const auto reply = ask(0, 11, 8);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, Errc::kCorrupt);
  const std::size_t before = h.log.size();
  for (const std::uint32_t rank : {0u, 1u})
    h.from("n" + std::to_string(rank), BarrierArrive{h.task("worker", rank), kEpoch, "b", 1});
  EXPECT_EQ(h.log.size(), before + 1) << "the barrier, and no snapshot without the inputs";
  EXPECT_NE(reply->error_context.find("input \"train\""), std::string::npos)
      << reply->error_context;
}

TEST_F(JobSnapshots, OneThatIsDueAtARestartWaitsUntilWhatATaskHeldIsGivenBack) {
  (void)ask(0, 10, 8);
  (void)ask(1, 500, 8);
  // Killed between the leases and their snapshot.
  std::erase_if(h.log, [](const Event& e) { return std::holds_alternative<JobSnapshot>(e); });
  h.recover();
  h.exits("n0", h.task("worker", 0), 0);
  h.recover();
  h.sent.clear();
  EXPECT_EQ(rest(1, 501).size(), 64u - 8u) << "but what it holds already";
}

TEST_F(JobSnapshots, ALargeOneComesWhenAsMuchAsItHoldsWasRecorded) {
  const auto snapshots = [this] {
    return std::count_if(h.log.begin(), h.log.end(),
                         [](const Event& e) { return std::holds_alternative<JobSnapshot>(e); });
  };
  (void)ask(0, 10, 1);
  (void)ask(0, 11, 1);
  EXPECT_EQ(snapshots(), 2) << "small ones after each record";
  // A thousand names of barriers: as large as five hundred records.
  for (int i = 0; i < 1000; ++i)
    for (const std::uint32_t rank : {0u, 1u})
      h.from("n" + std::to_string(rank),
             BarrierArrive{h.task("worker", rank), kEpoch, std::to_string(i), 1});
  EXPECT_LT(snapshots(), 40);
  EXPECT_GT(snapshots(), 5);
  const auto before = snapshots();
  h.recover();
  for (int i = 0; i < 100; ++i)
    for (const std::uint32_t rank : {0u, 1u})
      h.from("n" + std::to_string(rank),
             BarrierArrive{h.task("worker", rank), kEpoch, "more" + std::to_string(i), 1});
  EXPECT_LE(snapshots(), before + 1) << "a restart knows how large the last was";
}

// ---- commits

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
