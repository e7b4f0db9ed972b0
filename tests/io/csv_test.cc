#include "io/core/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/base/hash.h"
#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

using ::testing::HasSubstr;

const Schema kTwo = {field("n", FieldType::kInt64), field("s", FieldType::kText)};

TEST(Csv, ReadsEveryFormOfAFieldThatRfc4180Knows) {
  EXPECT_EQ(outcome_of(csv_of(kTwo), "1,aaa\r\n2,\"b,b\"\r\n3,\"c\"\"c\"\r\n4, d \n5,\"\"\n"),
            "1|aaa\n2|b,b\n3|c\"c\n4| d \n5|\n");
  CsvOptions across;
  across.newlines_in_quotes = true;
  EXPECT_EQ(outcome_of(csv_of(kTwo, across), "1,\"a\r\nb\"\r\n2,\"\n\"\n3,\"\"\"\n,\"\n"),
            "1|a\r\nb\n2|\n\n3|\"\n,\n");
}

TEST(Csv, NamesThePlaceOfWhatRfc4180DoesNotAllow) {
  const auto answer = [](std::string_view line) { return outcome_of(csv_of(kTwo), line); };
  EXPECT_EQ(answer("1,a\"b\n"), "@0:4 a quote within a field that does not begin with one\n");
  EXPECT_EQ(answer("1,\"a\"b\n"), "@0:6 unexpected 'b' after a closing quote\n");
  EXPECT_EQ(answer("1,\"a\n2,b\n"),
            "2|b\n@0:3 a quoted field without its end on the line (newlines within quotes need "
            "newlines_in_quotes)\n");
  EXPECT_EQ(answer("1\n"), "@0:1 1 fields; the schema has 2\n");
  EXPECT_EQ(answer("1,a,b,c\n"), "@0:1 4 fields; the schema has 2\n");
  EXPECT_EQ(answer("x,a\n1,a\n"), "1|a\n@0:1 field 'n': 'x' is no int64: not a number\n");
  EXPECT_EQ(answer("7,a\n,b\n"), "7|a\n@4:1 field 'n': no value, and it may not miss\n");
  CsvOptions across;
  across.newlines_in_quotes = true;
  EXPECT_EQ(outcome_of(csv_of(kTwo, across), "1,\"a\n2,b\n"),
            "@0:3 a quoted field without its end\n");
}

TEST(Csv, ReadsDeclaredTypesExactly) {
  Schema schema = {field("i", FieldType::kInt64), field("f", FieldType::kFloat32),
                   field("d", FieldType::kFloat64), field("b", FieldType::kBoolean),
                   field("c", FieldType::kDictionary)};
  schema[4].dictionary = {"red", "green", "a,b"};
  EXPECT_EQ(outcome_of(csv_of(schema),
                       "-9223372036854775808,0.1,0.1,true,red\n"
                       "9223372036854775807, +2 ,1e-320,0,\"a,b\"\n"),
            "-9223372036854775808|0.100000001|0.10000000000000001|1|0\n"
            "9223372036854775807|2|9.9998886718268301e-321|0|2\n");
  EXPECT_EQ(outcome_of(csv_of(schema), "9223372036854775808,1,1,1,red\n"),
            "@0:1 field 'i': '9223372036854775808' is no int64: out of range\n");
  EXPECT_EQ(outcome_of(csv_of(schema), "1.0,1,1,1,red\n"),
            "@0:1 field 'i': '1.0' is no int64: unexpected '.'\n");
  EXPECT_EQ(outcome_of(csv_of(schema), "1,1,1,yes,red\n"),
            "@0:7 field 'b': 'yes' is neither true nor false\n");
  EXPECT_EQ(outcome_of(csv_of(schema), "1,1,1,1,blue\n"),
            "@0:9 field 'c': 'blue' is not in the dictionary\n");
}

TEST(Csv, ANumberIsReadToTheEndOfItsFieldAndNoFurtherWhateverTheDelimiterIs) {
  Schema schema;
  for (int i = 0; i < 12; ++i)
    schema.push_back(field("c" + std::to_string(i), i % 3 == 0   ? FieldType::kInt64
                                                    : i % 3 == 1 ? FieldType::kFloat32
                                                                 : FieldType::kFloat64));
  SplitMix64 rng(5);
  for (const char delimiter : {',', '\t', '.', 'e', 'E', '5', '-'}) {
    CsvOptions options;
    options.delimiter = delimiter;
    std::string text, expected;
    for (int row = 0; row < 50; ++row)
      for (std::size_t i = 0; i < schema.size(); ++i) {
        std::string number = std::to_string(rng.below(rng.below(2) != 0 ? 100 : ~0ull >> 1));
        if (i % 3 != 0 && rng.below(2) != 0) number += '.' + std::to_string(rng.below(1u << 20));
        if (rng.below(4) == 0) number.insert(0, "-");
        if (number.find(delimiter) != number.npos) number = "7";
        if (delimiter == '5' && rng.below(2) != 0) number = "12";
        text += number + (i + 1 == schema.size() ? '\n' : delimiter);
        char shown[64];
        if (i % 3 == 0)
          std::snprintf(shown, sizeof shown, "%lld", std::strtoll(number.c_str(), nullptr, 10));
        else if (i % 3 == 1)
          std::snprintf(shown, sizeof shown, "%.9g",
                        static_cast<double>(std::strtof(number.c_str(), nullptr)));
        else
          std::snprintf(shown, sizeof shown, "%.17g", std::strtod(number.c_str(), nullptr));
        expected += shown + std::string(i + 1 == schema.size() ? "\n" : "|");
      }
    EXPECT_EQ(outcome_of(csv_of(schema, options), text), expected) << delimiter;
  }
}

TEST(Csv, HashesCategoriesTheSameWayEverywhere) {
  Schema schema = {field("all", FieldType::kHashed), field("few", FieldType::kHashed)};
  schema[1].buckets = 1000;
  const std::uint64_t hash = mix64(fnv1a("shoes"));
  EXPECT_EQ(outcome_of(csv_of(schema), "shoes,\"shoes\"\n"),
            std::to_string(hash) + "|" + std::to_string(hash % 1000) + "\n");
  // Recorded: a model that was trained on these numbers must find them again.
  EXPECT_EQ(mix64(fnv1a("")), 0xf52a15e9a9b5e89bULL);
}

TEST(Csv, TellsAMissingValueFromAnEmptyText) {
  const Schema schema = {field("f", FieldType::kFloat32, true), field("s", FieldType::kText, true)};
  CsvOptions options;
  options.missing = {"", "NA", "nan"};
  EXPECT_EQ(outcome_of(csv_of(schema, options), "1,a\nNA,\nnan,\"\"\n2,\"NA\"\n"),
            "1|a\n-|-\n-|\n2|NA\n");
  EXPECT_EQ(outcome_of(csv_of(schema, options), "NaN,a\n"),
            "@0:1 field 'f': 'NaN' is no float32: not finite (nan and inf are refused)\n");
}

TEST(Csv, AHeaderMustNameTheSchemaInItsOrder) {
  CsvOptions options;
  options.header = true;
  EXPECT_EQ(outcome_of(csv_of(kTwo, options), "n,\"s\"\n1,a\n"), "1|a\n");
  EXPECT_EQ(outcome_of(csv_of(kTwo, options), "s,n\n1,a\n"),
            "!@0:1 the header names 's' where the schema has 'n'\n");
  EXPECT_EQ(outcome_of(csv_of(kTwo, options), "n\n1,a\n"), "!@0:1 1 fields; the schema has 2\n");
  EXPECT_EQ(outcome_of(csv_of(kTwo, options), "n,s"), "");
}

TEST(Csv, InfersTypesFromTheFirstRecordsAndHoldsToThem) {
  CsvOptions options;
  options.header = true;
  const auto schema = infer_csv("id,x,name,gap\n1,2,a,\n2,0.5,7,3\n\n3,4,\"8\"", false, options);
  ASSERT_TRUE(schema) << schema.error().to_string();
  ASSERT_EQ(schema->size(), 4u);
  EXPECT_EQ((*schema)[0].name, "id");
  EXPECT_EQ((*schema)[0].type, FieldType::kInt64);
  EXPECT_EQ((*schema)[1].type, FieldType::kFloat32);
  EXPECT_EQ((*schema)[2].type, FieldType::kText);
  EXPECT_EQ((*schema)[3].type, FieldType::kInt64);
  EXPECT_TRUE((*schema)[3].may_miss);
  EXPECT_EQ(
      outcome_of(csv_of(*schema), "1.5,1,a,1\n"),
      "@0:1 field 'id': '1.5' is no int64: unexpected '.' (the type is inferred from the first "
      "records; it may be declared)\n");
  EXPECT_THAT(infer_csv("a,b\n", true, options).error().context, HasSubstr("no record"));
  EXPECT_THAT(infer_csv("a,b\n1,2\n3\n", true, options).error().context,
              HasSubstr("offset 8, column 1: 1 fields; the first record has 2"));
  options.header = false;
  const auto numbered = infer_csv(
      "\xEF\xBB\xBF"
      "1,x\n",
      true, options);
  ASSERT_TRUE(numbered);
  EXPECT_EQ((*numbered)[1].name, "1");
  EXPECT_EQ((*numbered)[0].type, FieldType::kInt64);
  const auto large = infer_csv("1,1e30,1e39,1e309\n", true, options);
  ASSERT_TRUE(large);
  EXPECT_EQ((*large)[1].type, FieldType::kFloat32);
  EXPECT_EQ((*large)[2].type, FieldType::kFloat64);
  EXPECT_EQ((*large)[3].type, FieldType::kText);
}

TEST(Csv, BlankLinesBeforeTheHeaderAreNoHeader) {
  CsvOptions options;
  options.header = true;
  EXPECT_EQ(outcome_of(csv_of(kTwo, options), " \t\n\r\nn,s\n1,x\n"), "1|x\n");
}

TEST(Csv, RefusesASchemaOrDelimiterThatCannotBe) {
  EXPECT_FALSE(CsvParser::make({}, {}));
  EXPECT_FALSE(CsvParser::make({field("a", FieldType::kText), field("a", FieldType::kText)}, {}));
  EXPECT_FALSE(CsvParser::make({field("a", FieldType::kText, false, 0)}, {}));
  EXPECT_FALSE(CsvParser::make({field("a", FieldType::kDictionary)}, {}));
  for (const char c : {'"', '\n', '\r', '\0'}) {
    CsvOptions options;
    options.delimiter = c;
    EXPECT_FALSE(CsvParser::make(kTwo, options));
  }
}

TEST(Csv, PassesOverARecordThatIsTooLongAndGoesOnAfterIt) {
  CsvOptions options;
  options.record_bytes_max = 10;
  EXPECT_EQ(outcome_of(csv_of(kTwo, options), "1,12345678\n2,123456789\n3,c\r\n"),
            "1|12345678\n3|c\n@11:1 record of more than 10 bytes\n");
  options.newlines_in_quotes = true;
  EXPECT_EQ(outcome_of(csv_of(kTwo, options), "1,a\n2,\"34567890123\n4,d\n"),
            "1|a\n!@4:1 record of more than 10 bytes (a quote that nobody closes?)\n");
}

constexpr char kSpice[] = "0123456789,\"\"\"\r\n\n.-e \t\0ab\xEF\xBB\xBF";

TEST(Csv, SurvivesTruncationAndMutationAndPiecesOfAnySize) {
  const std::string text = "1,aaa\r\n2,\"b,\"\"b\"\r\n3,\n4, d \n\n5,\"e\ne\"\n6,f";
  CsvOptions across;
  across.newlines_in_quotes = true;
  across.record_bytes_max = 40;
  const Schema schema = {field("n", FieldType::kInt64), field("s", FieldType::kText, true)};
  for (const CsvOptions& options : {CsvOptions{}, across}) {
    const MakeParser make = csv_of(schema, options);
    const std::string whole = outcome_of(make, text);
    expect_mutations_are_safe(make, text, {kSpice, sizeof kSpice - 1}, 300, 3);
  }
  expect_truncation_is_safe(csv_of(kTwo, {}), "12,ab\r\n3,\"c,d\"\n", true);
}

}  // namespace
}  // namespace dlrun::io
