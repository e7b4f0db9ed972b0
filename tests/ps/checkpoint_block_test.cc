// Blocks of a checkpoint's part: every byte counts, and every block.
#include "ps/core/checkpoint_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "runtime/base/crc32c.h"
#include "runtime/base/rng.h"

namespace dlrun::ps {
namespace {

constexpr std::uint64_t kId = 42;
constexpr std::uint16_t kShard = 3;

/// Three rows of two words for each of `slots`; small blocks.
std::vector<Block> some_blocks(const std::vector<std::uint32_t>& slots) {
  BlockBuilder builder(100);  // two rows of 32 bytes each and a bit
  builder.begin_rows(7, 2);
  for (const std::uint32_t slot : slots) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      const float data[2] = {static_cast<float>(slot), static_cast<float>(i)};
      builder.row(slot, {.key = slot * 10 + i,
                         .version = 100 + i,
                         .last_use_s = 5,
                         .frequency = i,
                         .data = reinterpret_cast<const char*>(data)});
    }
  }
  builder.close();
  return builder.take();
}

/// As a file would hold them, with its end.
std::string part_of(std::vector<Block> blocks) {
  std::string bytes;
  std::uint64_t number = 0;
  for (Block& b : blocks) {
    b.header.shard = kShard;
    b.header.checkpoint = kId;
    b.header.number = number++;
    b.header.stored_bytes = static_cast<std::uint32_t>(b.raw.size());
    b.header.crc = crc32c(b.raw);
    encode(b.header, bytes);
    bytes += b.raw;
  }
  encode({.kind = BlockKind::kEnd,
          .shard = kShard,
          .n = static_cast<std::uint32_t>(number),
          .number = number,
          .checkpoint = kId},
         bytes);
  return bytes;
}

/// Reads it as a restoring shard would; the number of rows.
Result<std::uint64_t> read_part(std::string_view bytes) {
  PartCheck check(kId, kShard);
  std::uint64_t rows = 0;
  while (!bytes.empty()) {
    DLRUN_ASSIGN(const BlockHeader header, decode_block_header(bytes.substr(0, kBlockHeaderBytes)));
    DLRUN_TRY(check.next(header));
    bytes.remove_prefix(kBlockHeaderBytes);
    const std::string_view stored = bytes.substr(0, header.stored_bytes);
    DLRUN_TRY(check_stored(header, stored));
    bytes.remove_prefix(stored.size());
    rows += header.kind == BlockKind::kRows ? header.n : 0;
  }
  if (!check.ended()) return fail(Errc::kCorrupt, "torn");
  EXPECT_EQ(check.rows(), rows);
  return rows;
}

TEST(CheckpointBlock, WhatIsWrittenIsReadAgain) {
  const std::vector<Block> blocks = some_blocks({1, 2, 9});
  ASSERT_EQ(blocks.size(), 3u);
  std::vector<std::uint64_t> keys;
  for (const Block& b : blocks) {
    EXPECT_EQ(b.header.table, 7u);
    EXPECT_LE(b.header.slot_first, b.header.slot_last);
    for (std::uint32_t i = 0; i < b.header.n; ++i) {
      const RowRecord row = row_at(b.header, b.raw, i);
      keys.push_back(row.key);
      float data[2];
      std::memcpy(data, row.data, sizeof data);
      EXPECT_EQ(data[0], static_cast<float>(row.key / 10));
      EXPECT_EQ(data[1], static_cast<float>(row.key % 10));
      EXPECT_EQ(row.version, 100 + row.key % 10);
      EXPECT_EQ(row.last_use_s, 5u);
      EXPECT_EQ(row.frequency, row.key % 10);
      EXPECT_GE(row.key / 10, b.header.slot_first);
      EXPECT_LE(row.key / 10, b.header.slot_last);
    }
  }
  EXPECT_EQ(keys, (std::vector<std::uint64_t>{10, 11, 12, 20, 21, 22, 90, 91, 92}));
  const auto rows = read_part(part_of(blocks));
  ASSERT_TRUE(rows) << rows.error().to_string();
  EXPECT_EQ(*rows, 9u);
}

TEST(CheckpointBlock, SightingsAndWindowsComeBack) {
  DedupWindow window;
  window.mark(1);
  window.mark(300);
  window.mark(299);
  const WindowRecord want{ClientId{0xfedc}, WorkerId{9}, 17, window};
  const SightingRecord seen{4000, 0xdeadbeef, 3};
  BlockBuilder builder;
  builder.begin_sightings(5);
  builder.sighting(seen);
  builder.begin_windows();
  builder.window(want);
  builder.close();
  const std::vector<Block> blocks = builder.take();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].header.table, 5u);
  EXPECT_EQ(blocks[0].header.slot_first, 4000u);
  EXPECT_EQ(sighting_at(blocks[0].raw, 0), seen);
  EXPECT_EQ(window_at(blocks[1].raw, 0), want);
  const auto rows = read_part(part_of(blocks));
  ASSERT_TRUE(rows) << rows.error().to_string();
}

TEST(CheckpointBlock, EveryFlippedBitIsFound) {
  const std::string good = part_of(some_blocks({1, 2}));
  ASSERT_TRUE(read_part(good));
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const auto read = read_part(bad);
      ASSERT_FALSE(read) << "byte " << i << " bit " << bit;
      EXPECT_TRUE(read.error().code == Errc::kCorrupt || read.error().code == Errc::kUnsupported);
    }
  }
}

TEST(CheckpointBlock, EveryTornEndIsFound) {
  const std::string good = part_of(some_blocks({1, 2}));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(read_part(std::string_view(good).substr(0, size))) << size;
  EXPECT_FALSE(read_part(good + good)) << "goes on after its end";
  EXPECT_FALSE(read_part(good + "x"));
}

TEST(CheckpointBlock, BlocksLeftOutRepeatedExchangedOrOfAnotherFileAreFound) {
  std::vector<Block> blocks = some_blocks({1, 2, 9});
  const std::string good = part_of(blocks);
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < good.size();) {
    const auto header = decode_block_header(std::string_view(good).substr(at, kBlockHeaderBytes));
    ASSERT_TRUE(header);
    pieces.push_back(good.substr(at, kBlockHeaderBytes + header->stored_bytes));
    at += pieces.back().size();
  }
  ASSERT_EQ(pieces.size(), 4u);
  const auto joined = [&](std::initializer_list<std::size_t> order) {
    std::string bytes;
    for (const std::size_t i : order) bytes += pieces[i];
    return bytes;
  };
  EXPECT_TRUE(read_part(joined({0, 1, 2, 3})));
  EXPECT_FALSE(read_part(joined({0, 2, 3})));
  EXPECT_FALSE(read_part(joined({0, 1, 1, 2, 3})));
  EXPECT_FALSE(read_part(joined({1, 0, 2, 3})));
  EXPECT_FALSE(read_part(joined({0, 1, 3})));

  // A whole block of another checkpoint, or of another shard, in the right place.
  BlockHeader other = *decode_block_header(std::string_view(pieces[1]).substr(0, 64));
  other.checkpoint = kId + 1;
  std::string stranger;
  encode(other, stranger);
  stranger += pieces[1].substr(kBlockHeaderBytes);
  const auto of_another = read_part(pieces[0] + stranger + pieces[2] + pieces[3]);
  ASSERT_FALSE(of_another);
  EXPECT_NE(of_another.error().context.find("checkpoint 43"), std::string::npos)
      << of_another.error().context;
  other.checkpoint = kId;
  other.shard = 1;
  stranger.clear();
  encode(other, stranger);
  stranger += pieces[1].substr(kBlockHeaderBytes);
  EXPECT_FALSE(read_part(pieces[0] + stranger + pieces[2] + pieces[3]));
}

// Headers whose CRC is right and whose numbers would have a reader allocate or read beyond.
TEST(CheckpointBlock, NumbersThatDoNotFitAreRefusedBeforeAnythingIsAllocated) {
  const BlockHeader good = {.kind = BlockKind::kRows,
                            .table = 1,
                            .n = 2,
                            .record_bytes = 32,
                            .raw_bytes = 64,
                            .stored_bytes = 64};
  const auto refused = [](BlockHeader h) {
    std::string bytes;
    encode(h, bytes);
    return !decode_block_header(bytes);
  };
  EXPECT_FALSE(refused(good));
  BlockHeader h = good;
  h.raw_bytes = h.stored_bytes = 0xffffffff;
  EXPECT_TRUE(refused(h));
  h = good;
  h.n = 0x80000002;  // times 32 is 64 in 32 bits
  EXPECT_TRUE(refused(h));
  h = good;
  h.stored_bytes = 63;
  EXPECT_TRUE(refused(h));
  h = good;
  h.record_bytes = 16;
  h.n = 4;
  EXPECT_TRUE(refused(h));
  h = good;
  h.slot_first = 5;
  EXPECT_TRUE(refused(h));
  h = good;
  h.slot_last = kSlots;
  EXPECT_TRUE(refused(h));
  h = good;
  h.kind = BlockKind::kEnd;
  EXPECT_TRUE(refused(h));
  h = good;
  h.kind = BlockKind::kWindows;
  EXPECT_TRUE(refused(h));
}

/// tests/ps/recorded/make_part.py: made from the page of the format, by nothing of ours.
std::string recorded_part() {
  const char* root = std::getenv("DLRUN_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) + "/tests/ps/recorded/part-v1.hex");
  std::string bytes;
  for (std::string pair; in >> pair;)
    bytes.push_back(static_cast<char>(std::stoi(pair, nullptr, 16)));
  return bytes;
}

// Old checkpoints are read for ever.
TEST(CheckpointBlock, APartOfVersion1IsReadAndWrittenAsThePageSays) {
  const std::string part = recorded_part();
  ASSERT_FALSE(part.empty());
  const auto rows = read_part(part);
  ASSERT_TRUE(rows) << rows.error().to_string();
  EXPECT_EQ(*rows, 3u);

  DedupWindow window;
  window.mark(1);
  window.mark(2);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> keys;
  for (const std::uint64_t key : {1, 2, 3}) keys.emplace_back(slot_of(7, key), key);
  std::sort(keys.begin(), keys.end());
  BlockBuilder builder;
  builder.begin_rows(7, 2);
  for (const auto& [slot, key] : keys) {
    const float data[2] = {static_cast<float>(key) + 0.5f, -static_cast<float>(key)};
    builder.row(slot, {key, 100 + key, 5, 2, reinterpret_cast<const char*>(data)});
  }
  builder.begin_sightings(7);
  builder.sighting({9, 0xdeadbeef, 3});
  builder.begin_windows();
  builder.window({ClientId{11}, WorkerId{12}, kSlots, window});
  builder.close();
  EXPECT_EQ(part_of(builder.take()), part);
}

TEST(CheckpointBlock, RandomBytesAreNeverABlock) {
  SplitMix64 rng(1);
  for (int i = 0; i < 10'000; ++i) {
    std::string bytes(kBlockHeaderBytes, '\0');
    for (char& c : bytes) c = static_cast<char>(rng.next());
    std::memcpy(bytes.data(), "dCb1", 4);
    EXPECT_FALSE(decode_block_header(bytes));
  }
}

}  // namespace
}  // namespace dlrun::ps
