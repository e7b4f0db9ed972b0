// The call of a checkpoint: shards that answer, refuse, disagree, or say nothing.
#include "ps/core/checkpoint_run.h"

#include <gtest/gtest.h>

namespace dlrun::ps {
namespace {

using std::chrono::minutes;

const TimePoint kStart{minutes(1)};

/// A run of two shards, and the effects since the last look.
struct Caller {
  Caller() { run.start(kStart, effects); }

  template <class T>
  std::vector<T> take() {
    std::vector<T> found;
    for (const CheckpointEffect& e : effects) {
      if (const T* t = std::get_if<T>(&e)) found.push_back(*t);
    }
    return found;
  }
  void progress(std::uint64_t fastest) {
    effects.clear();
    for (std::uint32_t s = 0; s < 2; ++s)
      run.on_progress(ShardId{s}, {{3, fastest, fastest}}, effects);
  }
  void begun(std::uint32_t shard, Status status = {}) {
    effects.clear();
    run.on_begun(ShardId{shard}, run.id(), status, effects);
  }
  void part(std::uint32_t shard, std::uint64_t clock = 9) {
    effects.clear();
    run.on_part(ShardId{shard}, run.id(),
                PartInfo{.checkpoint = run.id(),
                         .shard = ShardId{shard},
                         .slots = {{shard * 2048, shard * 2048 + 2047}},
                         .tables = {{.schema = {.id = 3, .name = "w"}, .clock = clock}},
                         .file = "shard-" + std::to_string(shard)},
                effects);
  }

  CheckpointRun run{{.job = "j1", .epoch = {1, 1}, .shards = 2, .first_id = 40}};
  CheckpointEffects effects;
};

TEST(CheckpointRun, GoesFromTheCallToTheManifest) {
  Caller caller;
  EXPECT_EQ(caller.take<AskProgress>().size(), 2u);
  caller.progress(7);
  const auto begin = caller.take<BeginCut>();
  ASSERT_EQ(begin.size(), 2u);
  EXPECT_EQ(begin[0].plan, begin[1].plan);
  EXPECT_EQ(begin[0].plan.id, 40u);
  EXPECT_EQ(begin[0].plan.clocks, (std::vector<TableClock>{{3, 9}}));
  caller.begun(0);
  caller.run.add_attachment(40, {"input", "attachment-0", 1, 2});
  caller.run.add_attachment(39, {"old", "attachment-1", 1, 2});
  caller.run.add_attachment(40, {"input", "attachment-2", 3, 4});
  caller.part(0);
  EXPECT_TRUE(caller.effects.empty());
  caller.part(1);  // its answer to the call is still on the way
  const auto commit = caller.take<CommitManifest>();
  ASSERT_EQ(commit.size(), 1u);
  EXPECT_EQ(commit[0].manifest.checkpoint, 40u);
  ASSERT_EQ(commit[0].manifest.attachments.size(), 1u);
  EXPECT_EQ(commit[0].manifest.attachments[0].file, "attachment-2") << "the last of a name";
  EXPECT_FALSE(caller.run.done());
  caller.effects.clear();
  caller.run.give_up("too late", caller.effects);
  caller.run.on_tick(kStart + minutes(60), caller.effects);
  EXPECT_TRUE(caller.effects.empty()) << "a manifest that is being written is not taken back";
  caller.run.on_committed({}, caller.effects);
  ASSERT_EQ(caller.take<CheckpointDone>().size(), 1u);
  EXPECT_TRUE(caller.take<CheckpointDone>()[0].status);
  EXPECT_TRUE(caller.take<CancelCut>().empty());
  EXPECT_TRUE(caller.run.done());
}

TEST(CheckpointRun, AWorkerThatIsAheadMakesItBeCalledAgainFurtherAhead) {
  Caller caller;
  caller.progress(7);
  caller.begun(0);
  caller.begun(1, fail(Errc::kFailedPrecondition, "a worker is at clock 9"));
  EXPECT_EQ(caller.take<CancelCut>().size(), 2u);
  EXPECT_EQ(caller.take<CancelCut>()[0].checkpoint, 40u);
  EXPECT_EQ(caller.take<AskProgress>().size(), 2u);
  EXPECT_EQ(caller.run.id(), 41u);
  // What still comes of the first is nobody's.
  caller.effects.clear();
  caller.run.on_begun(ShardId{0}, 40, fail(Errc::kInternal, "late"), caller.effects);
  caller.run.on_part(ShardId{0}, 40, fail(Errc::kCancelled, "late"), caller.effects);
  EXPECT_TRUE(caller.effects.empty());
  caller.progress(9);
  EXPECT_EQ(caller.take<BeginCut>().at(0).plan.clocks, (std::vector<TableClock>{{3, 13}}));
}

TEST(CheckpointRun, PartsThatMakeNoneAreCalledAgainAndNotForEver) {
  Caller caller;
  int calls = 0;
  while (!caller.run.done() && ++calls < 100) {
    caller.progress(7);
    caller.begun(0);
    caller.begun(1);
    caller.part(0, 9);
    caller.part(1, 10);
  }
  EXPECT_EQ(calls, 5);
  const auto done = caller.take<CheckpointDone>();
  ASSERT_EQ(done.size(), 1u);
  ASSERT_FALSE(done[0].status);
  EXPECT_EQ(done[0].status.error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(done[0].checkpoint, 44u);
}

TEST(CheckpointRun, AShardThatCannotWriteOrSaysNothingEndsItEverywhere) {
  {
    Caller caller;
    caller.progress(7);
    caller.begun(0);
    caller.begun(1);
    caller.effects.clear();
    caller.run.on_part(ShardId{1}, 40, fail(Errc::kResourceExhausted, "disk full"), caller.effects);
    EXPECT_EQ(caller.take<CancelCut>().size(), 2u);
    ASSERT_EQ(caller.take<CheckpointDone>().size(), 1u);
    EXPECT_EQ(caller.take<CheckpointDone>()[0].status.error().code, Errc::kResourceExhausted);
  }
  {
    Caller caller;
    caller.progress(7);
    caller.begun(0);
    caller.begun(1);
    caller.part(0);
    caller.run.on_tick(kStart + minutes(29), caller.effects);
    EXPECT_FALSE(caller.run.done());
    caller.run.on_tick(kStart + minutes(30), caller.effects);
    ASSERT_TRUE(caller.run.done());
    const Error why = caller.take<CheckpointDone>().at(0).status.error();
    EXPECT_EQ(why.code, Errc::kDeadlineExceeded);
    EXPECT_NE(why.context.find("shards 1"), std::string::npos) << why.context;
  }
}

TEST(CheckpointRun, AJobWithoutShardsHasNoCheckpoint) {
  CheckpointRun run({.job = "j1"});
  CheckpointEffects effects;
  run.start(kStart, effects);
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_FALSE(std::get<CheckpointDone>(effects[0]).status);
}

}  // namespace
}  // namespace dlrun::ps
