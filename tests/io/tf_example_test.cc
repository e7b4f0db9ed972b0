#include "io/core/tf_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/core/tf_record.h"
#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

using ::testing::HasSubstr;

// A writer of protobuf in a few lines, by the encoding's description.
std::string varint(std::uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out += static_cast<char>(n | 0x80);
  return out + static_cast<char>(n);
}
std::string message(int field, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string bytes_list(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += message(1, value);
  return message(1, list);
}
std::string float_list(const std::vector<float>& values, bool packed = true) {
  std::string list;
  for (const float value : values) {
    const std::string raw(reinterpret_cast<const char*>(&value), 4);
    list += packed ? raw : "\x0d" + raw;
  }
  return message(2, packed ? message(1, list) : list);
}
std::string int64_list(const std::vector<std::int64_t>& values, bool packed = true) {
  std::string list;
  for (const std::int64_t value : values)
    list += (packed ? "" : "\x08") + varint(static_cast<std::uint64_t>(value));
  return message(3, packed ? message(1, list) : list);
}
std::string feature(const std::string& key, const std::string& list) {
  return message(1, message(1, key) + message(2, list));
}
std::string example(const std::string& features) { return message(1, features); }

MakeParser parser(const Schema& schema) {
  return [=] {
    return std::make_unique<TfRecordParser>(std::make_unique<ExampleDecoder>(schema), 1 << 20);
  };
}
const Schema kSchema = {field("n", FieldType::kInt64), field("x", FieldType::kFloat32, true, 2),
                        field("s", FieldType::kText, true, 0)};
std::string answer(const std::string& features) {
  return outcome_of(parser(kSchema), tf_frame(example(features)));
}

TEST(TfExample, ReadsListsPackedAndNotInAnyOrder) {
  for (const bool packed : {true, false}) {
    EXPECT_EQ(
        answer(feature("s", bytes_list({"a", ""})) + feature("x", float_list({0.5f, -1}, packed)) +
               feature("n", int64_list({-3}, packed))),
        "-3|[0.5 -1]|[a ]\n");
  }
  EXPECT_EQ(answer(feature("n", int64_list({std::numeric_limits<std::int64_t>::min()}))),
            "-9223372036854775808|-|-\n");
  EXPECT_EQ(answer(feature("n", int64_list({1})) + feature("s", bytes_list({}))), "1|-|[]\n");
  EXPECT_EQ(answer(feature("n", int64_list({1})) + feature("s", "")), "1|-|-\n");
  EXPECT_EQ(answer(feature("n", int64_list({1})) + feature("other", float_list({1}))), "1|-|-\n");
}

TEST(TfExample, PassesOverFieldsItDoesNotKnow) {
  const std::string unknown = message(9, "new") + "\x40\x05" + std::string("\x55\1\2\3\4", 5) +
                              std::string("\x59\1\2\3\4\5\6\7\x08", 9);
  EXPECT_EQ(outcome_of(parser(kSchema), tf_frame(unknown + example(unknown.substr(0, 7) +
                                                                   feature("n", int64_list({4}))))),
            "4|-|-\n");
}

TEST(TfExample, HoldsFeaturesToTheSchema) {
  EXPECT_THAT(answer(""), HasSubstr("feature 'n': no value, and it may not miss"));
  EXPECT_THAT(answer(feature("n", float_list({1}))),
              HasSubstr("feature 'n': a float_list is no int64"));
  EXPECT_THAT(answer(feature("n", int64_list({1, 2}))),
              HasSubstr("feature 'n': 2 values; 1 are wanted"));
  EXPECT_THAT(answer(feature("n", int64_list({}))), HasSubstr("feature 'n': no value"));
  EXPECT_THAT(answer(feature("n", int64_list({1})) + feature("x", float_list({1}))),
              HasSubstr("feature 'x': 1 values; 2 are wanted"));
  EXPECT_THAT(answer(feature("n", int64_list({1})) + feature("n", int64_list({1}))),
              HasSubstr("feature 'n' comes twice"));
  EXPECT_THAT(answer(feature("n", int64_list({1})) + feature("q", "") + feature("q", "")),
              HasSubstr("feature 'q' comes twice"));
  EXPECT_THAT(answer(feature("n", int64_list({1}) + float_list({1}))),
              HasSubstr("holds two lists"));
}

TEST(TfExample, NamesTheByteOfBrokenProtobuf) {
  const auto raw = [](const std::string& bytes) {
    return outcome_of(parser(kSchema), tf_frame(bytes));
  };
  EXPECT_EQ(raw("\x0a\x05"), "@0:15 protobuf: a length beyond the end of its message\n");
  EXPECT_EQ(raw("\x0a"), "@0:14 protobuf: a number without its end\n");
  EXPECT_EQ(raw("\x0b"), "@0:14 protobuf: a wire type that proto3 does not have\n");
  EXPECT_EQ(raw(std::string("\0", 1)), "@0:14 protobuf: a field number that is none\n");
  EXPECT_THAT(raw(std::string(11, '\xff')), HasSubstr("protobuf: a number of more than 10 bytes"));
  EXPECT_THAT(raw(example(feature("n", message(3, message(1, "\x80"))))),
              HasSubstr("a number without its end"));
  EXPECT_THAT(raw(example(feature("x", message(2, message(1, "abc"))))),
              HasSubstr("a float without its end"));
}

TEST(TfExample, InfersASchema) {
  const std::string one = example(feature("n", int64_list({1})) + feature("x", float_list({1, 2})));
  const std::string two = example(feature("n", int64_list({5})) + feature("x", float_list({1})) +
                                  feature("s", bytes_list({"a"})));
  const auto schema = infer_example({one, two});
  ASSERT_TRUE(schema) << schema.error().to_string();
  ASSERT_EQ(schema->size(), 3u);
  EXPECT_EQ((*schema)[0].name, "n");
  EXPECT_EQ((*schema)[0].width, 1u);
  EXPECT_EQ((*schema)[1].type, FieldType::kText);
  EXPECT_TRUE((*schema)[1].may_miss);
  EXPECT_EQ((*schema)[2].width, 0u);
  EXPECT_FALSE(infer_example({}));
  EXPECT_THAT(infer_example({one, example(feature("n", float_list({1})))}).error().context,
              HasSubstr("feature 'n': an int64_list in one record, a float_list in another"));
}

TEST(TfExample, SurvivesTruncatedAndMutatedPayloads) {
  const std::string payload =
      example(feature("n", int64_list({-3})) + feature("x", float_list({0.5f, -1}, false)) +
              feature("s", bytes_list({"abc", "d"})));
  SplitMix64 rng(12);
  for (std::size_t cut = 0; cut <= payload.size(); ++cut)
    (void)outcome_of(parser(kSchema), tf_frame(payload.substr(0, cut)) + tf_frame(payload));
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = payload;
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n)
      bytes[static_cast<std::size_t>(rng.below(bytes.size()))] = static_cast<char>(rng.below(256));
    const auto make = parser(kSchema);
    const auto one = make();
    const Outcome out = parse_whole(*one, tf_frame(bytes) + tf_frame(payload));
    expect_sound(out.table);
    ASSERT_EQ(out.table.rows + out.bad.size(), 2u);
    ASSERT_EQ(row_text(out.table, out.table.rows - 1), "-3|[0.5 -1]|[abc d]");
  }
}

}  // namespace
}  // namespace dlrun::io
