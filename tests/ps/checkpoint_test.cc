// Whether what the shards hand in is one cut.
#include "ps/core/checkpoint.h"

#include <gtest/gtest.h>

namespace dlrun::ps {
namespace {

constexpr ClientId kA{1}, kB{2};

PartInfo part(std::uint32_t shard) {
  return {.checkpoint = 7,
          .shard = ShardId{shard},
          .log_sequence = 100 + shard,
          .slots = {{shard * 2048, shard * 2048 + 2047}},
          .tables = {{.schema = {.id = 3, .name = "w"}, .clock = 12, .rate = 0.5f}},
          .marks = {{kA, WorkerId{1}, 40}, {kB, WorkerId{2}, 50}},
          .file = "shard-" + std::to_string(shard)};
}

Errc refusal(std::vector<PartInfo> parts, std::vector<Attachment> attachments = {}) {
  const auto merged = merge_parts("job", {1, 2}, std::move(parts), std::move(attachments));
  return merged ? Errc{} : merged.error().code;
}

TEST(Checkpoint, PartsThatAgreeAreOne) {
  const auto merged =
      merge_parts("job", {1, 2}, {part(1), part(0)},
                  {{"input", "attachment-0", 3, 9}, {"mine", "attachment-1", 0, 0}});
  ASSERT_TRUE(merged) << merged.error().to_string();
  EXPECT_EQ(merged->checkpoint, 7u);
  EXPECT_EQ(merged->parts[0], part(0));
  EXPECT_EQ(merged->parts[1], part(1));
  EXPECT_EQ(merged->attachments.size(), 2u);
}

TEST(Checkpoint, ShardsThatCutElsewhereMakeNone) {
  const auto changed = [](auto change) {
    PartInfo other = part(1);
    change(other);
    return refusal({part(0), other});
  };
  EXPECT_EQ(changed([](PartInfo& p) { p.tables[0].clock = 13; }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) { p.tables[0].rate = 0.25f; }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) { p.tables[0].schema.dim = 2; }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) { p.tables.clear(); }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) { p.marks[1].sequence = 51; }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) { p.marks.pop_back(); }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) {
              p.marks.push_back({ClientId{3}, WorkerId{3}, 1});
            }),
            Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) {
              p.marks.pop_back();
              p.left = {kB};
            }),
            Errc{})
      << "it left before it was asked there";
  EXPECT_EQ(changed([](PartInfo& p) { p.slots = {{2048, 4094}}; }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) { p.slots = {{2047, 4095}}; }), Errc::kFailedPrecondition);
  EXPECT_EQ(changed([](PartInfo& p) { p.slots = {{2048, 4096}}; }), Errc::kInvalidArgument);
  // What differs by nature.
  EXPECT_EQ(changed([](PartInfo& p) {
              p.tables[0].hand = 9;
              p.tables[0].rows = 9;
              p.now_s = 9;
            }),
            Errc{});
}

TEST(Checkpoint, WhatCanNeverBeOneIsCalledSo) {
  EXPECT_EQ(refusal({}), Errc::kInvalidArgument);
  EXPECT_EQ(refusal({part(1)}), Errc::kInvalidArgument) << "shard 0 is missing";
  EXPECT_EQ(refusal({part(0), part(0)}), Errc::kInvalidArgument);
  PartInfo older = part(1);
  older.checkpoint = 6;
  EXPECT_EQ(refusal({part(0), older}), Errc::kInvalidArgument);
  PartInfo outside = part(1);
  for (const char* name : {"", ".", "..", "../x", "a/b", "/x", "a b"}) {
    outside.file = name;
    EXPECT_EQ(refusal({part(0), outside}), Errc::kInvalidArgument) << name;
  }
  const std::vector<PartInfo> two = {part(0), part(1)};
  EXPECT_EQ(refusal(two, {{"a", "shard-0", 0, 0}}), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(two, {{"a", "x", 0, 0}, {"a", "y", 0, 0}}), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(two, {{"", "x", 0, 0}}), Errc::kInvalidArgument);
  EXPECT_EQ(refusal({part(0)}), Errc::kFailedPrecondition) << "half of the slots";
}

TEST(Checkpoint, ClocksArePlannedAheadOfTheFastestAnywhere) {
  const std::vector<std::vector<TableProgress>> shards = {{{3, 5, 7}, {4, 0, 0}}, {{3, 6, 6}}};
  EXPECT_EQ(plan_clocks(shards, 2), (std::vector<TableClock>{{3, 9}, {4, 2}}));
  EXPECT_TRUE(plan_clocks({}, 2).empty());
}

}  // namespace
}  // namespace dlrun::ps
