// The manifest of a checkpoint as bytes.
#include "runtime/wire/ps_checkpoint_codec.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/base/rng.h"

namespace dlrun::wire {
namespace {

ps::PartInfo part(std::uint32_t shard) {
  return {.checkpoint = 77,
          .shard = ShardId{shard},
          .log_sequence = 1ull << 40,
          .now_s = 12345,
          .slots = {{0, 7}, {9, 4095}},
          .tables = {{.schema = {.id = 4,
                                 .name = "wide",
                                 .dim = 16,
                                 .optimizer = ps::Optimizer::kAdam,
                                 .consistency = ps::Consistency::kSsp,
                                 .staleness = 3,
                                 .eviction = ps::Eviction::kLru,
                                 .budget_bytes = 1ull << 33},
                      .clock = 900,
                      .rate = 0.25f,
                      .hand = 1ull << 43,
                      .rows = 1000000},
                     {.schema = {.id = 5, .name = "deep"}}},
          .marks = {{ClientId{1}, ps::WorkerId{2}, 3}, {ClientId{~0ull}, ps::kNoWorker, 0}},
          .left = {ClientId{8}},
          .file = "shard-00001.part",
          .bytes = 1ull << 35,
          .blocks = 40000,
          .rows = 1000000,
          .headers_crc = 0xdeadbeef};
}

ps::Manifest manifest() {
  return {
      .checkpoint = 77,
      .job = "j12",
      .epoch = {3, 4},
      .parts = {part(0), part(1)},
      .attachments = {{"input", "attachment-00000", 100, 7}, {"mine", "attachment-00001", 0, 0}}};
}

TEST(PsCheckpointCodec, WhatIsWrittenIsReadAgain) {
  const auto read = decode_manifest(encode(manifest()));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(*read, manifest());
  const auto one = decode_part_info(encode(part(1)));
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_EQ(*one, part(1));
}

/// tests/ps/recorded/make_manifest.py
ps::Manifest recorded_manifest() {
  ps::Manifest want{.checkpoint = 77,
                    .job = "j12",
                    .epoch = {3, 4},
                    .attachments = {{"input", "attachment-00000", 100, 7}}};
  for (const std::uint32_t shard : {0u, 1u}) {
    want.parts.push_back({.checkpoint = 77,
                          .shard = ShardId{shard},
                          .log_sequence = 1ull << 40,
                          .now_s = 12345,
                          .slots = {{0, 7}, {9, 4095}},
                          .tables = {{.schema = {.id = 4,
                                                 .name = "wide",
                                                 .dim = 16,
                                                 .optimizer = ps::Optimizer::kAdam,
                                                 .learning_rate = 0.5f,
                                                 .epsilon = 0.25f,
                                                 .consistency = ps::Consistency::kSsp,
                                                 .staleness = 3,
                                                 .momentum = 0.5f,
                                                 .beta1 = 0.5f,
                                                 .beta2 = 0.75f,
                                                 .eviction = ps::Eviction::kLru,
                                                 .budget_bytes = 1ull << 33},
                                      .clock = 900,
                                      .rate = 0.25f,
                                      .hand = 1ull << 43,
                                      .rows = 1000000}},
                          .marks = {{ClientId{1}, ps::WorkerId{2}, 3}},
                          .left = {ClientId{8}},
                          .file = "shard-0000" + std::to_string(shard) + ".part",
                          .bytes = 1ull << 35,
                          .blocks = 40000,
                          .rows = 1000000,
                          .headers_crc = 0xdeadbeef});
  }
  return want;
}

// Old checkpoints are read for ever.
TEST(PsCheckpointCodec, ReadsTheRecordedManifestOfVersion1) {
  const char* root = std::getenv("DLRUN_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) +
                   "/tests/ps/recorded/manifest-v1.hex");
  std::string bytes;
  for (std::string pair; in >> pair;)
    bytes.push_back(static_cast<char>(std::stoi(pair, nullptr, 16)));
  const auto read = decode_manifest(bytes);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(*read, recorded_manifest());
}

TEST(PsCheckpointCodec, AManifestThatIsTornOrHasAFlippedByteIsNone) {
  const std::string good = encode(manifest());
  for (std::size_t size = 0; size < good.size(); ++size)
    ASSERT_FALSE(decode_manifest(std::string_view(good).substr(0, size))) << size;
  EXPECT_FALSE(decode_manifest(good + "x"));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    const auto read = decode_manifest(bad);
    ASSERT_FALSE(read) << "byte " << i;
    EXPECT_TRUE(read.error().code == Errc::kCorrupt || read.error().code == Errc::kUnsupported);
  }
}

TEST(PsCheckpointCodec, AFileOutsideOfTheFolderIsRefused) {
  for (const char* name : {"../part", "/etc/passwd", "", ".."}) {
    ps::Manifest outside = manifest();
    outside.parts[1].file = name;
    EXPECT_EQ(decode_manifest(encode(outside)).error().code, Errc::kCorrupt) << name;
    outside = manifest();
    outside.attachments[0].file = name;
    EXPECT_EQ(decode_manifest(encode(outside)).error().code, Errc::kCorrupt) << name;
  }
}

TEST(PsCheckpointCodec, OrdersAndReportsComeBackAsTheyWere) {
  const std::vector<ps::CutOrder> orders = {
      ps::CutAsk{},
      ps::CutBegin{{7, {{3, 9}, {4, ~0ull}}, std::chrono::seconds(60)}, "/data/ckpt/7", 3},
      ps::CutCancel{7, "given up"}};
  for (const ps::CutOrder& order : orders) {
    const auto read = decode_cut_order(encode(order));
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_TRUE(*read == order);
  }
  const std::vector<ps::CutReport> reports = {
      ps::CutAnswer{{{3, 5, 7}, {4, 0, 0}}}, ps::CutAnswer{},
      ps::CutBegun{7, Errc::kFailedPrecondition, "a worker is ahead"},
      ps::CutPart{7, Errc{}, "", part(1)}, ps::CutPart{7, Errc::kIo, "disk", {}}};
  for (const ps::CutReport& report : reports) {
    const auto read = decode_cut_report(encode(report));
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_TRUE(*read == report);
  }
}

TEST(PsCheckpointCodec, RandomBytesOfAPartDoNotHarm) {
  SplitMix64 rng(3);
  const std::string good = encode(part(0));
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n)
      bad[rng.below(bad.size())] = static_cast<char>(rng.next());
    (void)decode_part_info(bad);
  }
}

}  // namespace
}  // namespace dlrun::wire
