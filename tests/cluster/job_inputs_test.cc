#include <algorithm>
#include <set>

#include "tests/cluster/job_inputs_fixture.h"

namespace dlrun::cluster {
namespace {

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

}  // namespace
}  // namespace dlrun::cluster
