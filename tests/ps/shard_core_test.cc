#include "ps/core/shard_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/ps/shard_helper.h"

namespace dlrun::ps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr WorkerId kA{1}, kB{2}, kC{3};

TEST(ShardCore, CreatingATableTwiceIsFineAndAnotherSchemaIsNot) {
  HandShard shard(1);
  TableSchema schema = sum_table(Consistency::kAsp, 4);
  EXPECT_EQ(shard.create(schema).header.error, 0);
  EXPECT_EQ(shard.create(schema).header.error, 0);
  schema.dim = 8;
  const Reply reply = shard.create(schema);
  EXPECT_EQ(code(reply), Errc::kAlreadyExists);
  EXPECT_THAT(reply.header.context, HasSubstr("another dim"));
}

TEST(ShardCore, RefusesSchemasThatCannotWork) {
  HandShard shard(1);
  for (const auto change : std::initializer_list<void (*)(TableSchema&)>{
           [](TableSchema& s) { s.dim = 0; }, [](TableSchema& s) { s.dim = 4097; },
           [](TableSchema& s) { s.name = ""; }, [](TableSchema& s) { s.kind = KeyKind::kDense; },
           [](TableSchema& s) { s.learning_rate = NAN; },
           [](TableSchema& s) { s.optimizer = Optimizer::kFtrl; },
           [](TableSchema& s) { s.id = 0; }}) {
    TableSchema schema = sum_table(Consistency::kAsp);
    change(schema);
    EXPECT_EQ(code(shard.create(schema)), Errc::kInvalidArgument);
  }
}

TEST(ShardCore, EveryKeyIsARow) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kAsp));
  const std::vector<std::uint64_t> keys = {0, ~0ull, 1ull << 63, 12345};
  EXPECT_EQ(shard.one(shard.push_header(1, kA, 0), keys, {1, 2, 3, 4}).header.error, 0);
  EXPECT_THAT(shard.one(shard.pull_header(kNoWorker, 0), keys).values, ElementsAre(1, 2, 3, 4));
}

TEST(ShardCore, SumsDuplicatesOfOnePushBeforeTheStep) {
  HandShard shard(1);
  TableSchema schema = sum_table(Consistency::kAsp);
  schema.optimizer = Optimizer::kAdagrad;  // not linear: three steps would not be one
  schema.learning_rate = 1.0f;
  shard.create(schema);
  shard.one(shard.push_header(1, kA, 0), {9, 4, 9, 9}, {1, 5, 2, 3});
  shard.one(shard.push_header(2, kA, 0), {8}, {6});
  EXPECT_EQ(shard.row(9), shard.row(8));
}

TEST(ShardCore, PullsMakeNoRowsAndShowTheInitializer) {
  HandShard shard(1);
  TableSchema schema = sum_table(Consistency::kAsp, 3);
  schema.initializer = Initializer::kConstant;
  schema.init_a = 2.5f;
  shard.create(schema);
  EXPECT_THAT(shard.row(1, 3), ElementsAre(2.5f, 2.5f, 2.5f));
  EXPECT_EQ(shard.core.stats().rows, 0u);
}

TEST(ShardCore, AnEmptyBatchIsAnswered) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kAsp));
  EXPECT_EQ(shard.one(shard.push_header(1, kA, 0)).header.error, 0);
  EXPECT_EQ(shard.one(shard.pull_header(kA, 0)).header.n, 0u);
}

TEST(ShardCore, RefusesWhatDoesNotFitTheTable) {
  HandShard shard(1);
  TableSchema schema = sum_table(Consistency::kAsp, 2);
  schema.kind = KeyKind::kDense;
  schema.rows = 10;
  shard.create(schema);
  EXPECT_EQ(code(shard.one(shard.pull_header(kA, 0, 3), {1})), Errc::kInvalidArgument);
  EXPECT_EQ(code(shard.one(shard.pull_header(kA, 0, 2), {10})), Errc::kInvalidArgument);
  EXPECT_EQ(code(shard.one(shard.push_header(1, kA, 0, 2), {1}, {1, 2, 3})),
            Errc::kInvalidArgument);
  EXPECT_EQ(code(shard.one(shard.push_header(0, kA, 0, 2), {1}, {1, 2})), Errc::kInvalidArgument);
  EXPECT_EQ(code(shard.one(HandShard::header(Kind::kPull, 99))), Errc::kNotFound);
  std::vector<std::uint64_t> many(kSegmentBytesMax / 16 + 1);
  EXPECT_EQ(code(shard.one(shard.pull_header(kA, 0, 2), many)), Errc::kInvalidArgument);
  RequestHeader lies = shard.pull_header(kA, 0, 2);
  lies.n = 5;
  Effects effects;
  const std::uint64_t key = 1;
  shard.core.on_request(0, lies, {&key, 1}, {}, at(1), effects);
  EXPECT_EQ(code(HandShard::replies(effects).at(0)), Errc::kInvalidArgument);
}

TEST(ShardCore, ChecksTokenVersionEpochAndBudget) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kAsp));
  const auto with = [&](auto change) {
    RequestHeader h = shard.push_header(1, kA, 0);
    change(h);
    return code(shard.one(h, {1}, {1}));
  };
  EXPECT_EQ(with([](RequestHeader& h) { h.token[31] = 1; }), Errc::kPermissionDenied);
  EXPECT_EQ(with([](RequestHeader& h) { h.version = 2; }), Errc::kUnsupported);
  EXPECT_EQ(with([](RequestHeader& h) { h.epoch = {1, 0}; }), Errc::kStaleEpoch);
  EXPECT_EQ(with([](RequestHeader& h) { h.epoch = {2, 0}; }), Errc::kUnavailable);
  EXPECT_EQ(with([](RequestHeader& h) { h.budget = Duration{0}; }), Errc::kDeadlineExceeded);
  EXPECT_THAT(shard.row(1), ElementsAre(0));
}

TEST(ShardCore, APushSentTwiceAppliesOnce) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kAsp));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(shard.one(shard.push_header(4, kA, 0), {1, 2}, {1, 1}).header.error, 0);
  EXPECT_EQ(shard.one(shard.push_header(3, kA, 0), {1}, {1}).header.error, 0);
  EXPECT_THAT(shard.row(1), ElementsAre(2));
  EXPECT_THAT(shard.row(2), ElementsAre(1));
  EXPECT_EQ(shard.one(shard.push_header(4 + kSequencesOpenMax, kA, 0), {1}, {1}).header.error, 0);
  EXPECT_EQ(code(shard.one(shard.push_header(4, kA, 0), {1}, {1})), Errc::kFailedPrecondition);
  EXPECT_THAT(shard.row(1), ElementsAre(3));
}

TEST(ShardCore, BspShowsAClockOnlyWhenAllHaveFinishedIt) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kBsp));
  shard.one(shard.push_header(1, kA, 0), {1}, {10});
  EXPECT_THAT(shard.one(shard.pull_header(kA, 0), {1}).values, ElementsAre(0));
  shard.one(shard.clock_header(kA, 1));
  EXPECT_TRUE(shard.ask(shard.pull_header(kA, 1), {1}, {}, 42).empty());  // parked
  EXPECT_EQ(shard.core.stats().parked, 1u);
  shard.one(shard.push_header(1, kB, 0), {1}, {5});
  shard.one(shard.push_header(2, kA, 1), {1}, {100});  // of the next clock: not to be seen
  const auto replies = shard.ask(shard.clock_header(kB, 1), {}, {}, 43);
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].asker, 43u);
  EXPECT_EQ(replies[0].header.clock, 1u);
  EXPECT_EQ(replies[1].asker, 42u);
  EXPECT_THAT(replies[1].values, ElementsAre(15));
}

TEST(ShardCore, BspRefusesRequestsOfAnotherClockThanTheWorkersOwn) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kBsp));
  shard.one(shard.clock_header(kA, 1));
  EXPECT_EQ(code(shard.one(shard.push_header(1, kA, 0), {1}, {1})), Errc::kFailedPrecondition);
  EXPECT_EQ(code(shard.one(shard.push_header(1, kA, 2), {1}, {1})), Errc::kFailedPrecondition);
  EXPECT_EQ(code(shard.one(shard.pull_header(kA, 0), {1})), Errc::kFailedPrecondition);
  EXPECT_EQ(code(shard.one(shard.push_header(1, kNoWorker, 0), {1}, {1})), Errc::kInvalidArgument);
  shard.one(shard.push_header(1, kB, 0), {1}, {1});
  EXPECT_EQ(code(shard.one(shard.push_header(1, kC, 0), {1}, {1})), Errc::kFailedPrecondition);
}

TEST(ShardCore, ARetryOfABspPushIsAcknowledgedAlsoAfterItsClock) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kBsp));
  shard.one(shard.push_header(1, kA, 0), {1}, {1});
  shard.one(shard.clock_header(kA, 1));
  EXPECT_EQ(shard.one(shard.push_header(1, kA, 0), {1}, {1}).header.error, 0);
  EXPECT_THAT(shard.row(1), ElementsAre(1));
}

TEST(ShardCore, SspParksOnlyBeyondTheBound) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kSsp, 1, 2));
  for (std::uint64_t c = 1; c <= 3; ++c) shard.one(shard.clock_header(kA, c));
  shard.one(shard.push_header(1, kB, 0), {1}, {7});
  EXPECT_EQ(shard.ask(shard.pull_header(kA, 2), {1}).size(), 1u);
  EXPECT_TRUE(shard.ask(shard.pull_header(kA, 3), {1}).empty());
  const auto replies = shard.ask(shard.clock_header(kB, 1));
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_THAT(replies[1].values, ElementsAre(7));
}

TEST(ShardCore, AspNeverWaits) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kAsp));
  shard.one(shard.clock_header(kA, 50));
  EXPECT_EQ(shard.ask(shard.pull_header(kA, 50), {1}).size(), 1u);
}

TEST(ShardCore, AWorkerThatDiesUnparksTheOthersAndKeepsWhatItPushed) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kBsp));
  shard.one(shard.push_header(1, kB, 0), {1}, {5});
  shard.one(shard.push_header(1, kA, 0), {1}, {10});
  shard.one(shard.clock_header(kA, 1));
  EXPECT_TRUE(shard.ask(shard.pull_header(kA, 1), {1}, {}, 9).empty());
  Effects effects;
  shard.core.on_worker_left(kB, at(2), effects);
  auto replies = HandShard::replies(effects);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].asker, 9u);
  EXPECT_THAT(replies[0].values, ElementsAre(15));
  effects.clear();
  shard.core.on_worker_left(kB, at(2), effects);
  EXPECT_TRUE(effects.empty());
  EXPECT_EQ(code(shard.one(shard.push_header(2, kB, 0), {1}, {1})), Errc::kFailedPrecondition);
}

TEST(ShardCore, APullThatTheLeaverHadParkedIsRefused) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kBsp));
  shard.one(shard.clock_header(kA, 1));
  EXPECT_TRUE(shard.ask(shard.pull_header(kA, 1), {1}).empty());
  Effects effects;
  shard.core.on_worker_left(kA, at(2), effects);
  const auto replies = HandShard::replies(effects);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(code(replies[0]), Errc::kFailedPrecondition);
}

TEST(ShardCore, LeavingIsIdempotentAndTheLastOneClosesEveryClock) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kBsp));
  shard.one(shard.push_header(1, kA, 0), {1}, {5});
  RequestHeader leave = shard.clock_header(kA, 0);
  leave.kind = Kind::kLeave;
  EXPECT_EQ(shard.one(leave).header.error, 0);
  EXPECT_EQ(shard.one(leave).header.error, 0);
  EXPECT_THAT(shard.row(1), ElementsAre(5));
}

TEST(ShardCore, ParkedPullsHaveADeadlineAndABound) {
  ShardSettings settings;
  settings.parked_max = 2;
  HandShard shard(2, SlotMap::even(1, kEpoch), ShardId{0}, settings);
  shard.create(sum_table(Consistency::kBsp));
  shard.one(shard.clock_header(kA, 1));
  RequestHeader first = shard.pull_header(kA, 1);
  first.budget = std::chrono::seconds(5);
  EXPECT_TRUE(shard.ask(first, {1}, {}, 1).empty());
  EXPECT_TRUE(shard.ask(first, {1}, {}, 2).empty());  // the retry takes its place
  EXPECT_TRUE(shard.ask(shard.pull_header(kA, 1), {1}, {}, 3).empty());
  EXPECT_EQ(code(shard.one(shard.pull_header(kA, 1), {1})), Errc::kOverloaded);
  EXPECT_EQ(shard.core.next_deadline(), at(6));
  Effects effects;
  shard.core.on_tick(at(5), effects);
  EXPECT_TRUE(effects.empty());
  shard.core.on_tick(at(6), effects);
  const auto replies = HandShard::replies(effects);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].asker, 2u);
  EXPECT_EQ(code(replies[0]), Errc::kDeadlineExceeded);
}

TEST(ShardCore, PushesOfOpenClocksAreBounded) {
  ShardSettings settings;
  settings.kept_bytes_max = 100;
  HandShard shard(1, SlotMap::even(1, kEpoch), ShardId{0}, settings);
  shard.create(sum_table(Consistency::kBsp));
  EXPECT_EQ(shard.one(shard.push_header(1, kA, 0), {1, 2, 3, 4}, {1, 1, 1, 1}).header.error, 0);
  EXPECT_EQ(code(shard.one(shard.push_header(2, kA, 0), {1, 2, 3, 4, 5}, {1, 1, 1, 1, 1})),
            Errc::kOverloaded);
  shard.one(shard.clock_header(kA, 1));
  EXPECT_EQ(shard.core.stats().kept_bytes, 0u);
  EXPECT_EQ(shard.one(shard.push_header(2, kA, 1), {1}, {1}).header.error, 0);
}

TEST(ShardCore, ScansEveryRowOnceInPages) {
  HandShard shard(1);
  shard.create(sum_table(Consistency::kAsp));
  std::map<std::uint64_t, float> want;
  SplitMix64 rng(3);
  for (std::uint64_t i = 1; i <= 2000; ++i) {
    const std::uint64_t key = i < 4 ? ~0ull - (i - 1) : rng.next();
    want[key] = static_cast<float>(i);
    shard.one(shard.push_header(i, kA, 0), {key}, {static_cast<float>(i)});
  }
  std::map<std::uint64_t, float> got;
  RequestHeader scan = HandShard::header(Kind::kScan);
  scan.n = 7;
  int pages = 0;
  while (scan.cursor.slot < kSlots) {
    const Reply page = shard.one(scan);
    ASSERT_EQ(page.header.error, 0);
    ASSERT_LE(page.keys.size(), 7u);
    for (std::size_t i = 0; i < page.keys.size(); ++i) {
      EXPECT_TRUE(got.emplace(page.keys[i], page.values[i]).second) << "seen twice";
    }
    scan.cursor = page.header.cursor;
    ASSERT_LT(++pages, 5000);
  }
  EXPECT_EQ(got, want);
}

TEST(ShardCore, TheLearningRateChangesWhileRunningAndOnce) {
  HandShard shard(1);
  TableSchema schema = sum_table(Consistency::kAsp);
  shard.create(schema);
  shard.one(shard.push_header(1, kA, 0), {1}, {1});
  EXPECT_EQ(shard.row(1)[0], 1);  // rate -1
  RequestHeader tune = shard.push_header(2, kA, 0);
  tune.kind = Kind::kTune;
  tune.rate = -10;
  EXPECT_EQ(shard.one(tune).header.error, 0);
  shard.one(shard.push_header(3, kA, 0), {1}, {1});
  EXPECT_EQ(shard.row(1)[0], 11);
  RequestHeader later = shard.push_header(4, kA, 0);
  later.kind = Kind::kTune;
  later.rate = -100;
  shard.one(later);
  EXPECT_EQ(shard.one(tune).header.error, 0);  // an old one that comes again changes nothing
  shard.one(shard.push_header(5, kA, 0), {1}, {1});
  EXPECT_EQ(shard.row(1)[0], 111);
  tune.sequence = 6;
  tune.rate = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(code(shard.one(tune)), Errc::kInvalidArgument);
  EXPECT_EQ(shard.core.stats().repeated, 1u);
}

TEST(ShardCore, UnderBspANewRateHoldsFromTheClockItNames) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kBsp));
  const auto push = [&](std::uint64_t sequence, WorkerId worker, std::uint64_t clock) {
    EXPECT_EQ(shard.one(shard.push_header(sequence, worker, clock), {1}, {1}).header.error, 0);
  };
  push(1, kA, 0);
  shard.ask(shard.clock_header(kA, 1));
  push(2, kA, 1);
  RequestHeader tune = shard.push_header(3, kA, 1);
  tune.kind = Kind::kTune;
  tune.rate = -10;
  EXPECT_EQ(shard.one(tune).header.error, 0);
  push(1, kB, 0);
  shard.ask(shard.clock_header(kB, 1));
  EXPECT_EQ(shard.row(1)[0], 2) << "clock 0 closes with the rate it had";
  push(2, kB, 1);
  shard.ask(shard.clock_header(kA, 2));
  shard.ask(shard.clock_header(kB, 2));
  EXPECT_EQ(shard.row(1)[0], 22);
}

TEST(ShardCore, PoliciesThatCannotWorkAreRefused) {
  HandShard shard(1);
  const auto refused = [&](void (*set)(TableSchema&)) {
    TableSchema schema = sum_table(Consistency::kAsp);
    set(schema);
    return code(shard.create(schema)) == Errc::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](TableSchema& s) { s.eviction = Eviction::kTtl; }));
  EXPECT_TRUE(refused([](TableSchema& s) { s.eviction = Eviction::kLru; }));
  EXPECT_TRUE(refused([](TableSchema& s) {
    s.kind = KeyKind::kDense;
    s.rows = 5;
    s.eviction = Eviction::kTtl;
    s.ttl_s = 5;
  }));
  EXPECT_TRUE(refused([](TableSchema& s) {
    s.admission = Admission::kSightings;
    s.admission_n = 0;
  }));
  EXPECT_TRUE(refused([](TableSchema& s) {
    s.admission = Admission::kProbability;
    s.admission_p = 1.5f;
  }));
  EXPECT_TRUE(refused([](TableSchema& s) { s.beta1 = 1; }));
  EXPECT_TRUE(refused([](TableSchema& s) { s.clip_norm = -1; }));
  EXPECT_TRUE(refused([](TableSchema& s) {
    s.optimizer = Optimizer::kAdam;
    s.epsilon = 0;
  }));
}

}  // namespace
}  // namespace dlrun::ps
