#include "io/core/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

using ::testing::HasSubstr;

const Schema kSchema = {
    field("id", FieldType::kInt64),           field("user.name", FieldType::kText, true),
    field("x", FieldType::kFloat32, true),    field("tags", FieldType::kText, true, 0),
    field("p", FieldType::kFloat64, true, 2), field("ok", FieldType::kBoolean, true)};

std::string answer(std::string_view text) { return outcome_of(json_of(kSchema), text); }
std::string lone(std::string_view value) {
  return outcome_of(json_of({field("v", FieldType::kText)}), "{\"v\":" + std::string(value) + "}");
}

TEST(JsonLines, ReadsScalarsListsAndNestedObjectsInAnyOrder) {
  EXPECT_EQ(
      answer(R"({"x": -1.5e1, "id": 9007199254740993, "user": {"name": "A\u00e9\n", "z": [1]},)"
             R"( "tags": ["a", "b"], "p": [0.1, 2], "ok": true, "more": {"deep": [null, {}]}})"
             "\n"),
      "@0:151 an object within an array\n");
  EXPECT_EQ(
      answer(R"({"x": -1.5e1, "id": 9007199254740993, "user": {"name": "A\u00e9\n", "z": [1]},)"
             R"( "tags": ["a", "b"], "p": [0.1, 2], "ok": true, "more": {"deep": [null]}})"
             "\r\n"),
      "9007199254740993|A\xc3\xa9\n|-15|[a b]|[0.10000000000000001 2]|1\n");
  EXPECT_EQ(answer("{\"id\":1}\n{\"tags\":[],\"id\":2,\"x\":null}\n"),
            "1|-|-|-|-|-\n2|-|-|[]|-|-\n");
}

TEST(JsonLines, HoldsValuesToTheSchema) {
  EXPECT_EQ(answer("{}\n"), "@0:1 field 'id': no value, and it may not miss\n");
  EXPECT_EQ(answer("{\"id\":\"1\"}"), "@0:7 field 'id': a string is no int64\n");
  EXPECT_EQ(answer("{\"id\":1.0}"), "@0:7 field 'id': '1.0' is no int64: unexpected '.'\n");
  EXPECT_EQ(answer("{\"id\":[1]}"), "@0:7 field 'id': a single value is wanted, not an array\n");
  EXPECT_EQ(answer("{\"id\":1,\"tags\":\"a\"}"),
            "@0:16 field 'tags': an array is wanted, not a string\n");
  EXPECT_EQ(answer("{\"id\":1,\"p\":[1]}"),
            "@0:13 field 'p': an array of 1; 2 values are wanted\n");
  EXPECT_EQ(answer("{\"id\":1,\"p\":[1,null]}"), "@0:16 field 'p': null within an array\n");
  EXPECT_EQ(answer("{\"id\":9223372036854775808}"),
            "@0:7 field 'id': '9223372036854775808' is no int64: out of range\n");
  EXPECT_EQ(answer("{\"id\":1,\"x\":1e39}"),
            "@0:13 field 'x': '1e39' is no float32: out of range\n");
}

TEST(JsonLines, RefusesWhatRfc8259DoesNotKnow) {
  for (const char* number :
       {"+1", "01", "-", ".5", "1.", "1e", "1e+", "0x1", "NaN", "Infinity", "-inf"})
    EXPECT_THAT(answer("{\"id\":1,\"x\":" + std::string(number) + "}"), HasSubstr("@0:")) << number;
  for (const char* text : {"", "[]", "1", "{", "{\"id\":1", "{\"id\":1,}", "{id:1}", "{'id':1}",
                           "{\"id\":1}}", "{\"id\":1} x", "{\"id\" 1}", "{\"id\":}", "{\"id\":tru}",
                           "{\"id\":1 \"x\":2}", "{\"a\":[1,]}", "{\"a\":[[1]]}", "// c"}) {
    if (*text == 0) continue;
    EXPECT_THAT(answer(text), ::testing::StartsWith("@0:")) << text;
  }
  EXPECT_EQ(answer("{\"id\":1,\"id\":2}"), "@0:9 the key 'id' twice in one object\n");
  EXPECT_EQ(answer("{\"id\":1,\"q\":1,\"q\":2}"), "@0:15 the key 'q' twice in one object\n");
  std::string many = "{\"id\":1";
  for (int i = 0; i < 100; ++i) many += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_EQ(answer(many + "}"), "1|-|-|-|-|-\n");
  EXPECT_THAT(answer(many + ",\"k7\":0}"), HasSubstr("the key 'k7' twice in one object"));
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "{\"a\":";
  EXPECT_THAT(answer(deep), HasSubstr("objects nested deeper than 64"));
}

TEST(JsonLines, ReadsStringsAsUtf8AndNothingElse) {
  EXPECT_EQ(lone(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t\n");
  EXPECT_EQ(lone(R"("\ud83d\ude00")"), "\xf0\x9f\x98\x80\n");
  EXPECT_EQ(lone("\"\xf0\x9f\x98\x80\""), "\xf0\x9f\x98\x80\n");
  EXPECT_EQ(lone(R"("\u0000")"), std::string("\0\n", 2));
  for (const char* bad : {R"("\ud83d")", R"("\ude00")", R"("\ud83d\u0041")", R"("\x41")",
                          R"("\u12g4")", R"("\u12)", "\"\x01\"", "\"\t\"", "\"abc", "\"\\"})
    EXPECT_THAT(lone(bad), ::testing::StartsWith("@0:")) << bad;
  for (const char* bytes : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
                            "\x80", "\xc3", "\xf0\x9f\x98", "\xc3\x28"})
    EXPECT_EQ(lone("\"" + std::string(bytes) + "\""), "@0:7 bytes that are not UTF-8\n");
}

TEST(JsonLines, InfersASchemaFromTheFirstRecords) {
  const auto schema = infer_json_lines(
      "{\"a\":1,\"b\":{\"c\":\"x\"},\"l\":[1,2]}\n\n{\"b\":{\"c\":null},\"a\":2.5,\"l\":[],\"f\":"
      "false}\n{\"a\"",
      false);
  ASSERT_TRUE(schema) << schema.error().to_string();
  ASSERT_EQ(schema->size(), 4u);
  EXPECT_EQ((*schema)[0].type, FieldType::kFloat32);
  EXPECT_FALSE((*schema)[0].may_miss);
  EXPECT_EQ((*schema)[1].name, "b.c");
  EXPECT_TRUE((*schema)[1].may_miss);
  EXPECT_EQ((*schema)[2].width, 0u);
  EXPECT_EQ((*schema)[2].type, FieldType::kInt64);
  EXPECT_EQ((*schema)[3].type, FieldType::kBoolean);
  EXPECT_THAT(
      infer_json_lines("{\"a\":1}\n{\"a\":\"x\"}\n", true).error().context,
      HasSubstr("offset 8, column 6: field 'a': a number in one record, a string in another"));
  EXPECT_FALSE(infer_json_lines("\n", true));
}

TEST(JsonLines, ANumberThatIsTooLargeForOneTypeIsInferredAsTheNext) {
  // 10^19 is above int64, 10^39 above float32, 10^309 above float64.
  const auto type_of = [](int zeros) {
    const auto schema = infer_json_lines(
        "{\"a\":[7,1" + std::string(static_cast<std::size_t>(zeros), '0') + "]}", true);
    return schema ? std::string(type_name((*schema)[0].type)) : schema.error().context;
  };
  EXPECT_EQ(type_of(18), "int64");
  EXPECT_EQ(type_of(19), "float32");
  EXPECT_EQ(type_of(39), "float64");
  EXPECT_THAT(type_of(309), HasSubstr("field 'a': a number that no float64 holds"));
}

TEST(JsonLines, SurvivesTruncationAndMutationAndPiecesOfAnySize) {
  const std::string text =
      "{\"id\":1,\"user\":{\"name\":\"a\\u00e9\"},\"p\":[1,2]}\r\n\n{\"tags\":[\"x\"],\"id\":2,"
      "\"ok\":true}\n"
      "{\"id\":3,\"x\":1e-3}";
  expect_truncation_is_safe(json_of(kSchema), text);
  static constexpr char kSpice[] = "{}[]:,\"\"\\u0123ed.+-\n\r truefalsn\xc3\xa9";
  expect_mutations_are_safe(json_of(kSchema, 60), text, {kSpice, sizeof kSpice - 1}, 500, 4);
}

}  // namespace
}  // namespace dlrun::io
