#include "io/core/ledger_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

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

// ---- commits

InputCursor at(std::vector<SplitProgress> splits) { return {"train", std::move(splits)}; }

/// One generation of consumers that take rows of splits of three rows each, commit now and then,
/// and die. What was committed and what a later generation takes are together each row once.
TEST(LedgerCore, AfterACommitNoRowIsLostAndNoneComesTwiceWhoeverGoesOn) {
  constexpr std::uint64_t kRows = 3;
  using Row = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;  // pass, split, row
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SplitMix64 rng(seed);
    const auto passes = static_cast<std::uint32_t>(1 + rng.below(3));
    const InputSpec input = spec(passes, rng.below(2) == 0, 1 + rng.below(9));
    std::vector<FileEntry> files;
    for (std::uint64_t i = 0, n = 1 + rng.below(5); i < n; ++i)
      files.push_back({"/f" + std::to_string(i), 1 + rng.below(40), "e"});
    std::set<Row> committed;  ///< what the commit covers
    std::optional<LedgerState> state;
    for (std::uint32_t generation = 1;; ++generation) {
      ASSERT_LT(generation, 500u);
      LedgerCore ledger({input}, {.leases_per_consumer_max = 4});
      ASSERT_TRUE(ledger.set_files("train", files));
      if (state) {
        ASSERT_TRUE(ledger.restore(*state));
      }
      const auto world = static_cast<std::uint32_t>(1 + rng.below(4));
      struct Open {
        std::uint64_t base = 0, rows = 0;
      };
      std::vector<std::map<SplitKey, Open>> open(world);
      std::vector<std::map<SplitKey, Open>> unsaid(world);  ///< whole, not told as done
      std::set<Row> taken = committed;
      bool over = false;
      const auto consumer = [&](std::uint32_t rank) {
        return TaskId{JobId(1), "worker", rank, Generation(generation)};
      };
      for (std::uint64_t step = 0, life = 1 + rng.below(400); step < life && !over; ++step) {
        const auto rank = static_cast<std::uint32_t>(rng.below(world));
        auto& mine = open[rank];
        const std::uint64_t what = rng.below(100);
        if (what < 25) {
          const auto answer = ledger.lease("train", consumer(rank), 2);
          ASSERT_TRUE(answer);
          for (const Split& s : answer->splits) mine[{s.id, s.pass}] = {s.skip_rows, 0};
        } else if (what < 80) {
          if (mine.empty()) continue;
          auto it = std::next(mine.begin(), static_cast<std::ptrdiff_t>(rng.below(mine.size())));
          auto& [key, at] = *it;
          ASSERT_TRUE(taken.insert({key.pass, key.split_id, at.base + at.rows}).second)
              << "seed " << seed << ": row twice";
          if (at.base + ++at.rows == kRows) {
            unsaid[rank][key] = at;
            mine.erase(it);
          }
        } else if (what < 90) {
          if (unsaid[rank].empty()) continue;
          const SplitKey key = unsaid[rank].begin()->first;
          ASSERT_TRUE(ledger.done("train", consumer(rank), key.split_id, key.pass));
          unsaid[rank].erase(key);
        } else if (what < 95) {
          std::vector<ConsumerCursor> cursors;
          for (std::uint32_t r = 0; r < world; ++r) {
            std::vector<SplitProgress> progress;
            for (const auto& [key, o] : open[r])
              if (o.rows > 0) progress.push_back({key.split_id, o.rows, key.pass, 0});
            for (const auto& [key, o] : unsaid[r])
              progress.push_back({key.split_id, o.rows, key.pass, 1});
            cursors.push_back({consumer(r), {at(std::move(progress))}});
          }
          const auto before = ledger.save();
          const auto states = ledger.commit(cursors, world);
          ASSERT_TRUE(states) << states.error().to_string();
          EXPECT_EQ(ledger.save(), before) << "it changes nothing";
          state = states->at(0);
          committed = taken;
        }
        over = taken.size() == passes * ledger.counts("train")->splits * kRows;
      }
      if (over) break;
    }
  }
}

TEST(LedgerCore, ACommitOfAMillionSplitsIsSmall) {
  LedgerCore ledger({spec(1, true, 1)});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 1'000'000, "e"}}));
  std::vector<ConsumerCursor> cursors;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    std::vector<SplitProgress> progress;
    for (int round = 0; round < 200; ++round) {
      const auto answer = ledger.lease("train", worker(rank), 128);
      for (const Split& s : answer->splits) {
        if (round + 1 < 200) {
          ASSERT_TRUE(ledger.done("train", worker(rank), s.id, 0));
        } else {
          progress.push_back({s.id, 1, 0, 0});
        }
      }
    }
    cursors.push_back({worker(rank), {at(std::move(progress))}});
  }
  const auto states = ledger.commit(cursors, 8);
  ASSERT_TRUE(states);
  const LedgerState& state = states->at(0);
  EXPECT_EQ(state.given_back.size(), 8u * 128u);
  EXPECT_LT(state.given_back.size() * sizeof(SplitKey) + state.begun.size() * 24, 48u << 10);
}

TEST(LedgerCore, ACommitOfOtherFilesIsRefused) {
  LedgerCore ledger({spec(1, false)});
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  EXPECT_TRUE(ledger.commit({}, 1)->empty()) << "nobody opened it";
  const LedgerState state = ledger.commit({{worker(0), {at({})}}}, 1)->at(0);
  LedgerCore other({spec(1, false)});
  auto files = three_files();
  files[0].etag = "changed";
  ASSERT_TRUE(other.set_files("train", files));
  EXPECT_EQ(other.restore(state).error().code, Errc::kFailedPrecondition);
  EXPECT_TRUE(ledger.restore(state));
}

TEST(LedgerCore, RowsOfASplitThatIsNotLeasedToWhoNamesItAreNotCommitted) {
  LedgerCore ledger({spec(1, false)});
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  ASSERT_TRUE(ledger.lease("train", worker(0), 1));
  const auto states =
      ledger.commit({{worker(1), {at({{0, 5, 0, 1}, {3, 5, 0, 1}, {~0ull, 1, 9, 1}})}}}, 2);
  ASSERT_TRUE(states);
  EXPECT_EQ(states->at(0).given_back, (std::vector<SplitKey>{{0, 0}}));
  EXPECT_TRUE(states->at(0).begun.empty());
  EXPECT_FALSE(ledger.commit({{worker(0), {at({{0, 1, 0, 0}, {0, 2, 0, 0}})}}}, 1));
  EXPECT_FALSE(ledger.commit({{worker(0), {InputCursor{"other"}}}}, 1));
}

TEST(LedgerCore, AConsumerOfABegunSplitIsToldWhatWasCommittedOfIt) {
  LedgerCore ledger({spec(1, false)});
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  ASSERT_TRUE(ledger.lease("train", worker(0), 2));
  const auto states = ledger.commit({{worker(0), {at({{1, 7, 0, 0}})}}}, 1);
  ASSERT_TRUE(ledger.restore(states->at(0)));
  const auto again = ledger.lease("train", worker(3), 3);
  EXPECT_EQ(again->splits.at(0).skip_rows, 0u);
  EXPECT_EQ(again->splits.at(1).skip_rows, 7u);
  EXPECT_EQ(again->splits.at(2).skip_rows, 0u);
  EXPECT_EQ(ledger.start("train", worker(3), 4)->begun, (std::vector<SplitProgress>{{1, 7, 0, 0}}));
  EXPECT_TRUE(ledger.start("train", worker(0), 4)->begun.empty());
  // Three more rows, and another commit: ten.
  EXPECT_EQ(ledger.commit({{worker(3), {at({{1, 3, 0, 0}})}}}, 1)->at(0).begun,
            (std::vector<SplitProgress>{{1, 10, 0, 0}}));
  ASSERT_TRUE(ledger.done("train", worker(3), 1, 0));
  EXPECT_TRUE(ledger.save().at(0).begun.empty());
}

// ---- lanes

InputSpec lanes(Mode mode, std::uint32_t n = 12) {
  InputSpec s = spec(2, true);
  s.mode = mode;
  s.lanes = n;
  return s;
}
InputCursor place(std::uint32_t pass, std::uint64_t step, std::vector<LanePosition> lanes = {}) {
  InputCursor cursor;
  cursor.input = "train";
  cursor.begun = true;
  cursor.pass = pass;
  cursor.step = step;
  cursor.lanes = std::move(lanes);
  return cursor;
}

TEST(LedgerCore, ADeterministicCommitSaysOfEachLaneHowManyRoundsAreOverWhateverTheConsumers) {
  LedgerCore ledger({lanes(Mode::kDeterministic)});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 1u << 20, "e"}}));
  EXPECT_EQ(ledger.lease("train", worker(0), 1).error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(ledger.start("train", worker(0), 5).error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(ledger.start("train", worker(1), 3).value(), (InputStart{{}, 3, {}}));
  // Three consumers of four lanes each after five steps: 15 batches, one round of 12 and 3 more.
  const LanePosition in_lane{1, 0, 5, 2, 40};
  const auto states = ledger.commit({{worker(0), {place(0, 5)}},
                                     {worker(1), {place(0, 5, {in_lane})}},
                                     {worker(2), {place(0, 5)}}},
                                    3);
  ASSERT_TRUE(states) << states.error().to_string();
  ASSERT_EQ(states->at(0).lanes.size(), 12u);
  std::uint64_t over = 0;
  for (const LanePosition& at : states->at(0).lanes) {
    EXPECT_EQ(at.step, at.lane < 3 ? 2u : 1u) << at.lane;
    over += at.step;
  }
  EXPECT_EQ(over, 15u);
  EXPECT_EQ(states->at(0).lanes[1], (LanePosition{1, 0, 2, 2, 40}));
  ASSERT_TRUE(ledger.restore(states->at(0)));
  for (std::uint32_t world : {1u, 2u, 4u, 12u}) {
    std::size_t all = 0;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      const auto start = ledger.start("train", worker(rank), world);
      ASSERT_TRUE(start);
      for (const LanePosition& at : start->lanes) EXPECT_EQ(at.lane % world, rank);
      all += start->lanes.size();
    }
    EXPECT_EQ(all, 12u);
  }
  // Another generation, of two: who has taken nothing stays where it was.
  const auto next =
      ledger.commit({{worker(0), {place(0, 8)}}, {worker(1), {InputCursor{"train"}}}}, 2);
  ASSERT_TRUE(next) << next.error().to_string();
  // Rank 0 has the lanes 0, 2, 4, 6, 8, 10: eight steps are one round of them and two more.
  for (const LanePosition& at : next->at(0).lanes)
    EXPECT_EQ(at.step, at.lane <= 2 ? 2u : 1u) << at.lane;
}

TEST(LedgerCore, ADeterministicCommitOfConsumersInTwoPasses) {
  LedgerCore ledger({lanes(Mode::kDeterministic)});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 1u << 20, "e"}}));
  // Rank 1 has heard of the end of the pass, rank 0 stands at its last batch.
  auto states = ledger.commit(
      {{worker(0), {place(0, 9)}}, {worker(1), {place(1, 0, {{1, 0, 9, 70, 3}})}}}, 2);
  ASSERT_TRUE(states);
  for (const LanePosition& at : states->at(0).lanes) EXPECT_EQ(at.pass, at.lane % 2);
  EXPECT_EQ(states->at(0).lanes[1], (LanePosition{1, 1, 0, 0, 0}));
  EXPECT_FALSE(ledger.commit({{worker(0), {place(1, 0)}}}, 2)) << "one of two";
  // The next generation has one consumer, whose lanes stand in two passes.
  ASSERT_TRUE(ledger.restore(states->at(0)));
  states = ledger.commit({{worker(0), {place(0, 100)}}}, 1);
  ASSERT_TRUE(states);
  EXPECT_EQ(states->at(0).lanes[1].pass, 1u) << "it was ahead";
  EXPECT_EQ(states->at(0).lanes[0].step, 9u);
}

TEST(LedgerCore, AStaticCommitIsOfThatManyConsumers) {
  LedgerCore ledger({lanes(Mode::kStatic)});
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  const LanePosition at{1, 1, 7, 1, 3};
  const auto states = ledger.commit(
      {{worker(0), {place(0, 2, {{0, 0, 2, 0, 9}})}}, {worker(1), {place(1, 7, {at})}}}, 2);
  ASSERT_TRUE(states) << states.error().to_string();
  ASSERT_TRUE(ledger.restore(states->at(0)));
  EXPECT_EQ(ledger.start("train", worker(1), 2).value(), (InputStart{{}, 2, {at}}));
  EXPECT_EQ(ledger.start("train", worker(0), 3).error().code, Errc::kFailedPrecondition);
}

TEST(LedgerCore, PassesOfTwoRolesDoNotEndTogether) {
  InputSpec input = lanes(Mode::kDeterministic);
  input.ends = Ends::kDrop;
  LedgerCore ledger({input});
  ASSERT_TRUE(ledger.set_files("train", {{"/a", 1u << 20, "e"}}));
  ASSERT_TRUE(ledger.steps("train", worker(0), 1, {{0, 5, false}}));
  const TaskId other{JobId(1), "evaluator", 3, Generation(1)};
  const auto news = ledger.steps("train", other, 4, {{0, 5, false}});
  ASSERT_FALSE(news);
  EXPECT_EQ(news.error().code, Errc::kFailedPrecondition);
  EXPECT_NE(news.error().context.find("role evaluator cannot read it too"), std::string::npos);
}

TEST(LedgerCore, ACursorThatCannotBeIsRefused) {
  LedgerCore ledger({lanes(Mode::kDeterministic)});
  ASSERT_TRUE(ledger.set_files("train", three_files()));
  const auto refused = [&](InputCursor bad) {
    const auto states = ledger.commit({{worker(0), {std::move(bad)}}}, 1);
    ASSERT_FALSE(states);
    EXPECT_EQ(states.error().code, Errc::kInvalidArgument) << states.error().to_string();
  };
  refused(place(0, 1, {{12, 0, 1, 0, 0}}));
  refused(place(0, 1, {{0, 1, 1, 0, 0}}));
  refused(place(0, 1, {{0, 0, 1, 1u << 20, 0}}));
  EXPECT_FALSE(ledger.commit({{worker(1), {place(0, 1)}}}, 1));
}

}  // namespace
}  // namespace dlrun::io
