#include "io/core/ledger_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "io/core/permutation.h"
#include "runtime/base/rng.h"

namespace dlrun::io {
namespace {

TaskId worker(std::uint32_t rank) { return {JobId(1), "worker", rank, Generation(1)}; }

InputSpec spec(std::uint32_t passes, bool shuffle, std::uint64_t split_bytes = 10) {
  InputSpec s;
  s.name = "train";
  s.passes = passes;
  s.shuffle = shuffle;
  s.seed = 7;
  s.split_bytes = split_bytes;
  return s;
}

std::vector<FileEntry> three_files() {
  return {{"/a", 25, "e1"}, {"/empty", 0, "e2"}, {"/b", 10, "e3"}, {"/c", 1, "e4"}};
}

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (std::uint64_t n = 1; n <= 300; ++n) {
    const Permutation p(n, 42, 3);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(p(i), n);
      seen.insert(p(i));
    }
    ASSERT_EQ(seen.size(), n);
  }
}

TEST(Permutation, DependsOnSeedAndStreamAndOnNothingElse) {
  const auto order = [](std::uint64_t seed, std::uint32_t stream) {
    std::vector<std::uint64_t> v;
    for (std::uint64_t i = 0; i < 100; ++i) v.push_back(Permutation(100, seed, stream)(i));
    return v;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  auto sorted = order(1, 0);
  EXPECT_FALSE(std::is_sorted(sorted.begin(), sorted.end()));
}

TEST(Permutation, SpreadsFirstPlacesEvenly) {
  std::map<std::uint64_t, int> first;
  for (std::uint32_t pass = 0; pass < 4000; ++pass) ++first[Permutation(10, 99, pass)(0)];
  for (std::uint64_t i = 0; i < 10; ++i) {  // 400 expected, sigma 19
    EXPECT_GT(first[i], 300);
    EXPECT_LT(first[i], 500);
  }
}

TEST(LedgerCore, CutsFilesIntoSplitsThatCoverEachByteOnceAndAreNeverEmpty) {
  LedgerCore ledger({spec(1, false)});
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  const auto answer = ledger.lease("train", worker(0), 16);
  ASSERT_TRUE(answer);
  std::map<std::string, std::uint64_t> covered;
  std::uint64_t id = 0;
  for (const Split& s : answer->splits) {
    EXPECT_EQ(s.id, id++);
    EXPECT_LT(s.begin, s.end);
    EXPECT_EQ(s.begin, covered[s.uri]);
    covered[s.uri] = s.end;
  }
  EXPECT_EQ(covered, (std::map<std::string, std::uint64_t>{{"/a", 25}, {"/b", 10}, {"/c", 1}}));
  EXPECT_EQ(answer->splits[0].etag, "e1");
}

TEST(LedgerCore, NamesTheFirstFileThatDiffersFromTheTableOfTheJob) {
  LedgerCore ledger({spec(1, false)});
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  EXPECT_TRUE(ledger.set_files("train", three_files()));
  auto changed = three_files();
  changed[2].etag = "other";
  const auto differs = ledger.set_files("train", changed);
  ASSERT_FALSE(differs);
  EXPECT_EQ(differs.error().code, Errc::kFailedPrecondition);
  EXPECT_NE(differs.error().context.find("/b"), std::string::npos);
  auto shorter = three_files();
  shorter.pop_back();
  EXPECT_NE(ledger.set_files("train", shorter).error().context.find("/c is gone"),
            std::string::npos);
  auto longer = three_files();
  longer.push_back({"/d", 1, ""});
  EXPECT_NE(ledger.set_files("train", longer).error().context.find("/d"), std::string::npos);
}

TEST(LedgerCore, RefusesWhatItDoesNotKnow) {
  LedgerCore ledger({spec(1, false)});
  EXPECT_EQ(ledger.lease("nothing", worker(0), 1).error().code, Errc::kNotFound);
  EXPECT_EQ(ledger.lease("train", worker(0), 1).error().code, Errc::kFailedPrecondition);
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  EXPECT_EQ(ledger.lease("train", worker(0), 0).error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(ledger.lease("train", worker(0), 1));
  EXPECT_EQ(ledger.done("train", worker(1), 0, 0).error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(ledger.done("train", worker(0), 0, 1).error().code, Errc::kFailedPrecondition);
  EXPECT_TRUE(ledger.done("train", worker(0), 0, 0));
  EXPECT_EQ(ledger.done("train", worker(0), 0, 0).error().code, Errc::kFailedPrecondition);
}

TEST(LedgerCore, BoundsWhatOneConsumerHoldsAndTellsItToWait) {
  LedgerCore ledger({spec(2, false, 1)}, {.leases_per_consumer_max = 3});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 4, "e"}}));
  EXPECT_EQ(ledger.lease("train", worker(0), 100)->splits.size(), 3u);
  EXPECT_EQ(ledger.lease("train", worker(0), 1)->state, LeaseState::kWait);
  EXPECT_EQ(ledger.lease("train", worker(1), 1)->splits.size(), 1u);
}

TEST(LedgerCore, OpensTheNextPassWhileOthersStillReadTheLastOneAndEndsWhenNothingIsLeft) {
  LedgerCore ledger({spec(2, false)});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 20, "e"}}));
  EXPECT_EQ(ledger.lease("train", worker(0), 1)->splits.at(0).pass, 0u);
  EXPECT_EQ(ledger.lease("train", worker(1), 1)->splits.at(0).pass, 0u);
  EXPECT_EQ(ledger.lease("train", worker(1), 8)->splits.size(), 2u);
  EXPECT_EQ(ledger.lease("train", worker(1), 8)->state, LeaseState::kEndOfInput);
  ledger.drop_consumer(worker(0));
  const auto again = ledger.lease("train", worker(1), 8);
  ASSERT_EQ(again->state, LeaseState::kGranted);
  EXPECT_EQ(again->splits.at(0).pass, 0u);
}

TEST(LedgerCore, HandsOutFirstWhatALostConsumerGaveBack) {
  LedgerCore ledger({spec(1, false)});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 100, "e"}}));
  ASSERT_EQ(ledger.lease("train", worker(0), 2)->splits.size(), 2u);
  ASSERT_EQ(ledger.lease("train", worker(1), 1)->splits.at(0).id, 2u);
  ledger.drop_consumer(worker(0));
  const auto answer = ledger.lease("train", worker(1), 3);
  EXPECT_EQ(answer->splits.at(0).id, 0u);
  EXPECT_EQ(answer->splits.at(1).id, 1u);
  EXPECT_EQ(answer->splits.at(2).id, 3u);
}

TEST(LedgerCore, ResyncKeepsWhatTheConsumerStillHolds) {
  LedgerCore ledger({spec(1, false)});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 100, "e"}}));
  ASSERT_EQ(ledger.lease("train", worker(0), 3)->splits.size(), 3u);
  ledger.resync("train", worker(0), {{1, 0}});
  EXPECT_EQ(ledger.counts("train")->leased, 1u);
  EXPECT_EQ(ledger.counts("train")->given_back, 2u);
  EXPECT_EQ(ledger.lease("train", worker(0), 1)->splits.at(0).id, 0u);
  EXPECT_TRUE(ledger.done("train", worker(0), 1, 0));
}

TEST(LedgerCore, AnInputOfEmptyFilesEndsAtOnce) {
  LedgerCore ledger({spec(0, true)});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 0, "e"}}));
  EXPECT_EQ(ledger.lease("train", worker(0), 1)->state, LeaseState::kEndOfInput);
}

/// Model: a set of (pass, split) still to be done. Random consumers lease, finish, lose replies,
/// die.
TEST(LedgerCore, EverySplitOfEveryPassIsDoneExactlyOnceWhateverConsumersDo) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SplitMix64 rng(seed);
    const auto passes = static_cast<std::uint32_t>(1 + rng.below(4));
    const std::uint64_t consumers = 1 + rng.below(5);
    LedgerCore ledger({spec(passes, rng.below(2) == 0, 1 + rng.below(9))},
                      {.leases_per_consumer_max = static_cast<std::uint32_t>(1 + rng.below(6))});
    std::vector<FileEntry> files;
    for (std::uint64_t i = 0, n = 1 + rng.below(6); i < n; ++i)
      files.push_back({"/f" + std::to_string(i), rng.below(60), "e"});
    ASSERT_TRUE(ledger.set_files("train", files));
    const std::uint64_t splits = ledger.counts("train")->splits;

    std::map<std::uint64_t, std::set<SplitKey>> held;
    std::set<SplitKey> done;
    bool over = false;
    for (int step = 0; step < 100000 && !over; ++step) {
      const std::uint64_t who = rng.below(consumers);
      const TaskId id = worker(static_cast<std::uint32_t>(who));
      auto& mine = held[who];
      const std::uint64_t what = rng.below(100);
      if (what < 50) {
        const auto answer = ledger.lease("train", id, static_cast<std::uint32_t>(1 + rng.below(3)));
        ASSERT_TRUE(answer);
        const bool reply_lost = rng.below(20) == 0;
        for (const Split& s : answer->splits) {
          const SplitKey key{s.id, s.pass};
          ASSERT_LT(s.pass, passes);
          ASSERT_FALSE(done.contains(key)) << "handed out after it was done";
          for (const auto& [other, keys] : held) ASSERT_FALSE(keys.contains(key)) << "leased twice";
          if (!reply_lost) mine.insert(key);
        }
        if (reply_lost) ledger.resync("train", id, {mine.begin(), mine.end()});
      } else if (what < 97) {
        if (mine.empty()) continue;
        auto key = std::next(mine.begin(), static_cast<std::ptrdiff_t>(rng.below(mine.size())));
        ASSERT_TRUE(ledger.done("train", id, key->split_id, key->pass));
        ASSERT_TRUE(done.insert(*key).second);
        mine.erase(key);
      } else {
        ledger.drop_consumer(id);
        mine.clear();
      }
      over = done.size() == splits * passes;
    }
    ASSERT_TRUE(over || splits == 0) << "seed " << seed;
    EXPECT_EQ(ledger.lease("train", worker(0), 1)->state, LeaseState::kEndOfInput);
    EXPECT_EQ(ledger.counts("train")->leased, 0u);
    EXPECT_EQ(ledger.counts("train")->done, splits * passes);
  }
}

/// Two consumers, one with a done split and one with a lost answer, in the second pass.
LedgerCore begun() {
  LedgerCore ledger({spec(3, true)});
  EXPECT_TRUE(ledger.set_files("train", three_files()));
  const auto first = ledger.lease("train", worker(0), 6);  // 5 splits a pass
  EXPECT_EQ(first->splits.size(), 6u);
  (void)ledger.lease("train", worker(1), 2);
  EXPECT_TRUE(ledger.done("train", worker(0), first->splits[1].id, 0));
  ledger.resync("train", worker(0), {{first->splits[0].id, 0}});
  return ledger;
}

TEST(LedgerCore, OneRestoredFromItsStateGoesOnAsTheOneThatWasSaved) {
  LedgerCore saved = begun();
  const auto states = saved.save();
  ASSERT_EQ(states.size(), 1u);
  LedgerCore restored({spec(3, true)});
  ASSERT_TRUE(restored.set_files("train", three_files()));
  ASSERT_TRUE(restored.restore(states[0]));
  EXPECT_EQ(restored.save(), states);
  for (std::uint32_t step = 0;; ++step) {
    EXPECT_EQ(saved.share("train", worker(step % 2), 4),
              restored.share("train", worker(step % 2), 4));
    const auto a = saved.lease("train", worker(step % 2), 2);
    const auto b = restored.lease("train", worker(step % 2), 2);
    ASSERT_TRUE(a && b);
    ASSERT_EQ(*a, *b) << "step " << step;
    if (a->state == LeaseState::kEndOfInput) break;
    for (const Split& split : a->splits) {
      EXPECT_EQ(restored.split("train", {split.id, split.pass}).value(), split);
      ASSERT_TRUE(saved.done("train", worker(step % 2), split.id, split.pass));
      ASSERT_TRUE(restored.done("train", worker(step % 2), split.id, split.pass));
    }
  }
  saved.drop_consumer(worker(0));
  restored.drop_consumer(worker(0));
  EXPECT_EQ(saved.save(), restored.save());
}

TEST(LedgerCore, AStateThatCannotBeOfTheseFilesIsRefusedAndChangesNothing) {
  LedgerCore ledger = begun();
  const LedgerState good = ledger.save()[0];
  const auto refused = [&](auto damage) {
    LedgerState bad = good;
    damage(bad);
    const Status status = ledger.restore(bad);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::kCorrupt) << status.error().to_string();
    EXPECT_EQ(ledger.save()[0], good);
  };
  refused([](LedgerState& s) { s.position = 6; });
  refused([](LedgerState& s) { s.given_back[0].split_id = 5; });
  refused([](LedgerState& s) { s.held[0].splits[0].pass = 2; });
  refused([](LedgerState& s) { s.held[1].splits[0] = s.held[0].splits[0]; });
  LedgerCore without_files({spec(3, true)});
  EXPECT_FALSE(without_files.restore(good));
  EXPECT_FALSE(without_files.split("train", {0, 0}));
}

}  // namespace
}  // namespace dlrun::io
