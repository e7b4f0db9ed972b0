#include "runtime/wire/common_codec.h"

#include <gtest/gtest.h>

namespace dlrun::wire {
namespace {

TEST(CommonCodec, InputSpecComesBackEqualWithAnyBytesInItsPaths) {
  io::InputSpec spec;
  spec.name = "train";
  spec.uris = {std::string("/data/\xff\x00=|\n", 11), ""};
  spec.format = io::Format::kCsv;
  spec.index_base = 1;
  spec.delimiter = '\t';
  spec.header = true;
  spec.label_column = -1;
  spec.batch_rows = 7;
  spec.passes = 0;
  spec.shuffle = false;
  spec.seed = ~0ull;
  spec.split_bytes = 123;
  spec.on_bad_record = io::OnBadRecord::kSkip;
  spec.bad_records_max = 9;
  capnp::MallocMessageBuilder message;
  put(message.initRoot<schema::InputSpec>(), spec);
  const auto back = from_bytes<schema::InputSpec>(
      to_bytes(message), "InputSpec", [](schema::InputSpec::Reader r) { return get(r); });
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, spec);
}

TEST(CommonCodec, PsViewKeepsItsSlotMapInRuns) {
  ps::PsView view;
  view.map.epoch = {3, 4};
  for (std::uint32_t s = 0; s < ps::kSlots; ++s)
    view.map.owner.push_back(ShardId{s * 3 / ps::kSlots});
  for (std::uint32_t s = 0; s < 3; ++s) {
    view.shards.push_back(
        {ShardId{s}, "tcp://[::1]:" + std::to_string(s), "/run/s\xff", NodeId{"n"}});
  }
  view.token.fill(0xab);
  view.workers = 5;
  capnp::MallocMessageBuilder message;
  put(message.initRoot<schema::PsView>(), view);
  const std::string bytes = to_bytes(message);
  EXPECT_LT(bytes.size(), 1024u);
  const auto back =
      from_bytes<schema::PsView>(bytes, "PsView", [](schema::PsView::Reader r) { return get(r); });
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->map.epoch, view.map.epoch);
  EXPECT_EQ(back->map.owner, view.map.owner);
  EXPECT_EQ(back->shards, view.shards);
  EXPECT_EQ(back->token, view.token);
  EXPECT_EQ(back->workers, 5u);
}

TEST(CommonCodec, TheColumnsOfAnInputComeBackEqual) {
  io::InputSpec spec;
  spec.name = "train";
  spec.format = io::Format::kTokens;
  spec.on_bad_record = io::OnBadRecord::kQuarantine;
  spec.quarantine = "/q\xff";
  spec.columns = {{.name = "a\xff", .type = io::FieldType::kBoolean, .width = 0, .may_miss = true},
                  {.name = "b", .type = io::FieldType::kHashed, .buckets = ~0ull},
                  {.name = "c", .type = io::FieldType::kDictionary, .dictionary = {"x", ""}}};
  spec.missing = {};
  spec.newlines_in_quotes = true;
  spec.record_bytes_max = 77;
  spec.tokens = {.type = io::TokenOptions::Type::kI32,
                 .sequence_length = 1u << 20,
                 .tail = io::TokenOptions::Tail::kPad,
                 .separator = -3,
                 .padding = 4,
                 .vocabulary = 5};
  capnp::MallocMessageBuilder message;
  put(message.initRoot<schema::InputSpec>(), spec);
  const auto back = from_bytes<schema::InputSpec>(
      to_bytes(message), "InputSpec", [](schema::InputSpec::Reader r) { return get(r); });
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, spec);
}

TEST(CommonCodec, ASlotMapThatMissesSlotsIsCorrupt) {
  capnp::MallocMessageBuilder message;
  auto map = message.initRoot<schema::SlotMap>();
  auto runs = map.initRuns(2);
  runs[0].setCount(ps::kSlots);
  runs[1].setCount(1);
  const auto back = from_bytes<schema::SlotMap>(to_bytes(message), "SlotMap",
                                                [](schema::SlotMap::Reader r) { return get(r); });
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Errc::kCorrupt);
}

TEST(CommonCodec, BytesThatAreNoMessageAreCorruptAndNotACrash) {
  const auto visit = [](schema::TaskId::Reader r) { return get(r); };
  for (const std::string& bytes :
       {std::string(), std::string("abc"), std::string(8, '\xff'), std::string(64, '\x7f')}) {
    const auto back = from_bytes<schema::TaskId>(bytes, "TaskId", visit);
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error().code, Errc::kCorrupt);
  }
}

}  // namespace
}  // namespace dlrun::wire
