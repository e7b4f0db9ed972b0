#include "io/core/input_rules.h"

#include <gtest/gtest.h>

#include "io/core/csv.h"
#include "io/core/token_file.h"

namespace dlrun::io {
namespace {

struct Case {
  const char* field;  ///< "" = nothing is wrong
  const char* text;   ///< a part of what is said
  void (*spoil)(InputSpec&);
};

InputSpec good(Format format) {
  InputSpec spec;
  spec.name = "train";
  spec.uris = {"/data/x"};
  spec.format = format;
  if (format == Format::kTable) spec.columns = {{.name = "a"}, {.name = "b"}};
  return spec;
}

void expect(const Case& c, const InputSpec& spec) {
  const auto problems = problems_of(spec);
  if (*c.field == 0) {
    EXPECT_TRUE(problems.empty()) << problems[0].field << ": " << problems[0].text;
    return;
  }
  ASSERT_EQ(problems.size(), 1u) << c.field << ": " << c.text;
  EXPECT_EQ(problems[0].field, c.field);
  EXPECT_NE(problems[0].text.find(c.text), std::string::npos) << problems[0].text;
}

TEST(InputRules, HoldForEveryFormat) {
  const Case cases[] = {
      {"", "", [](InputSpec&) {}},
      {"uris", "a file is needed", [](InputSpec& s) { s.uris.clear(); }},
      {"uris", "a file is needed", [](InputSpec& s) { s.uris.push_back(""); }},
      {"uris", "NUL", [](InputSpec& s) { s.uris.push_back(std::string("/a\0b", 4)); }},
      {"batch_rows", "1 to 1048576", [](InputSpec& s) { s.batch_rows = 0; }},
      {"", "", [](InputSpec& s) { s.batch_rows = 1u << 20; }},
      {"batch_rows", "1 to 1048576", [](InputSpec& s) { s.batch_rows = (1u << 20) + 1; }},
      {"", "", [](InputSpec& s) { s.passes = 0; }},
      {"passes", "0 to 1000000000", [](InputSpec& s) { s.passes = 1'000'000'001; }},
      {"split_bytes", "at least 1", [](InputSpec& s) { s.split_bytes = 0; }},
      {"index_base", "0 or 1", [](InputSpec& s) { s.index_base = 2; }},
      {"label_column", "-1 to 1000000", [](InputSpec& s) { s.label_column = -2; }},
      {"record_bytes_max", "64MiB", [](InputSpec& s) { s.record_bytes_max = 0; }},
      {"record_bytes_max", "64MiB", [](InputSpec& s) { s.record_bytes_max = (64u << 20) + 1; }},
      {"quarantine", "belong together", [](InputSpec& s) { s.quarantine = "/q"; }},
      {"quarantine", "belong together",
       [](InputSpec& s) { s.on_bad_record = OnBadRecord::kQuarantine; }},
      {"quarantine", "absolute",
       [](InputSpec& s) { s.on_bad_record = OnBadRecord::kQuarantine, s.quarantine = "q"; }},
  };
  for (const Case& c : cases)
    for (const Format format : {Format::kLibsvm, Format::kTable, Format::kTokens, Format::kNpy}) {
      InputSpec spec = good(format);
      c.spoil(spec);
      expect(c, spec);
    }
}

// Each was taken at the submit and refused by the feeder, when the job had been placed.
TEST(InputRules, WhatAParserOfCsvRefusesIsRefused) {
  const Case cases[] = {
      {"", "", [](InputSpec& s) { s.delimiter = '\t'; }},
      {"", "", [](InputSpec& s) { s.columns.clear(); }},  // inferred
      {"columns", "'b': csv has no lists", [](InputSpec& s) { s.columns[1].width = 0; }},
      {"columns", "'b': csv has no lists", [](InputSpec& s) { s.columns[1].width = 2; }},
      {"columns", "two columns are named 'a'", [](InputSpec& s) { s.columns[1].name = "a"; }},
      {"columns", "'a': a dictionary that is empty or repeats",
       [](InputSpec& s) { s.columns[0].type = FieldType::kDictionary; }},
      {"columns", "'a': a dictionary that is empty or repeats",
       [](InputSpec& s) {
         s.columns[0].type = FieldType::kDictionary;
         s.columns[0].dictionary = {"A", "B", "A"};
       }},
      {"delimiter", "a quote", [](InputSpec& s) { s.delimiter = '"'; }},
      {"delimiter", "a quote", [](InputSpec& s) { s.delimiter = '\r'; }},
      {"delimiter", "a quote", [](InputSpec& s) { s.delimiter = '\n'; }},
      {"delimiter", "a quote", [](InputSpec& s) { s.delimiter = '\0'; }},
  };
  for (const Case& c : cases) {
    InputSpec spec = good(Format::kTable);
    c.spoil(spec);
    expect(c, spec);
    if (spec.columns.empty()) continue;
    CsvOptions options;
    options.delimiter = spec.delimiter;
    EXPECT_EQ(CsvParser::make(spec.columns, options).has_value(), *c.field == 0) << c.text;
  }
  InputSpec numbers = good(Format::kCsv);
  numbers.delimiter = '\r';
  expect({"delimiter", "a quote", nullptr}, numbers);
}

TEST(InputRules, WhatAParserOfTokensRefusesIsRefused) {
  using Tail = TokenOptions::Tail;
  const Case cases[] = {
      {"", "", [](InputSpec&) {}},
      {"vocabulary", "1 to 2147483647", [](InputSpec& s) { s.tokens.vocabulary = 0; }},
      {"vocabulary", "1 to 2147483647", [](InputSpec& s) { s.tokens.vocabulary = 0x80000000; }},
      {"sequence_length", "0 to 16777216",
       [](InputSpec& s) { s.tokens.sequence_length = (1u << 24) + 1; }},
      {"separator", "100 is outside the vocabulary of 100",
       [](InputSpec& s) { s.tokens.vocabulary = 100, s.tokens.separator = 100; }},
      {"separator", "-1 is outside", [](InputSpec& s) { s.tokens.separator = -1; }},
      {"", "",
       [](InputSpec& s) { s.tokens.sequence_length = 2, s.tokens.separator = -1; }},  // has none
      {"padding", "7 is outside the vocabulary of 7",
       [](InputSpec& s) {
         s.tokens.vocabulary = 7, s.tokens.padding = 7, s.tokens.tail = Tail::kPad;
       }},
      {"", "", [](InputSpec& s) { s.tokens.padding = -1, s.tokens.tail = Tail::kFail; }},
  };
  for (const Case& c : cases) {
    InputSpec spec = good(Format::kTokens);
    c.spoil(spec);
    expect(c, spec);
    EXPECT_EQ(TokenParser::make(spec.tokens).has_value(), *c.field == 0) << c.text;
    spec.format = Format::kLibsvm;  // asks for no tokens
    expect({"", "", nullptr}, spec);
  }
}

TEST(InputRules, OrdersAndSharesAreOfTheirModes) {
  const auto ordered = [](InputSpec& s) { s.mode = Mode::kDeterministic; };
  const Case cases[] = {
      {"", "", [](InputSpec& s) { s.lanes = 4096; }},
      {"lanes", "1 to 4096", [](InputSpec& s) { s.lanes = 0; }},
      {"lanes", "1 to 4096", [](InputSpec& s) { s.lanes = 4097; }},
      {"", "", [](InputSpec& s) { s.mode = Mode::kDynamic, s.lanes = 0; }},  // has none
      {"", "", [](InputSpec& s) { s.skip_batches = 1, s.take_batches = std::uint64_t{1} << 48; }},
      {"skip_batches", "0 to 281474976710656",
       [](InputSpec& s) { s.skip_batches = (std::uint64_t{1} << 48) + 1; }},
      {"take_batches", "0 to 281474976710656",
       [](InputSpec& s) { s.take_batches = (std::uint64_t{1} << 48) + 1; }},
      {"skip_batches", "no n-th batch",
       [](InputSpec& s) { s.mode = Mode::kStatic, s.skip_batches = 1; }},
      {"skip_batches", "no n-th batch",
       [](InputSpec& s) { s.mode = Mode::kDynamic, s.take_batches = 1; }},
      {"", "", [](InputSpec& s) { s.mode = Mode::kStatic, s.ends = Ends::kWrap; }},
      {"ends", "belongs to", [](InputSpec& s) { s.mode = Mode::kDynamic, s.ends = Ends::kDrop; }},
      {"", "", [](InputSpec& s) { s.weights = {1'000'000}; }},
      {"weights", "2 for 1 uris",
       [](InputSpec& s) {
         s.weights = {1, 1};
       }},
      {"weights", "1 to 1000000", [](InputSpec& s) { s.weights = {0}; }},
      {"weights", "1 to 1000000", [](InputSpec& s) { s.weights = {1'000'001}; }},
      {"weights", "more than 256",
       [](InputSpec& s) { s.uris.resize(257, "/b"), s.weights.resize(257, 1); }},
      {"weights", "static = \"files\"",
       [](InputSpec& s) { s.mode = Mode::kStatic, s.weights = {1}; }},
      {"", "",
       [](InputSpec& s) {
         s.mode = Mode::kStatic, s.static_by = StaticBy::kBytes, s.weights = {1};
       }},
  };
  for (const Case& c : cases) {
    InputSpec spec = good(Format::kLibsvm);
    ordered(spec);
    c.spoil(spec);
    expect(c, spec);
  }
}

TEST(InputRules, ColumnsAreOfFormatsThatHaveThem) {
  for (const Format format : {Format::kJsonLines, Format::kTfExample}) {
    InputSpec spec = good(format);
    spec.columns = {{.name = "tags", .type = FieldType::kText, .width = 0}};
    expect({"", "", nullptr}, spec);
    spec.columns.push_back(spec.columns[0]);
    expect({"columns", "two columns are named 'tags'", nullptr}, spec);
    spec.columns[1].name = "";
    expect({"columns", "a name is empty", nullptr}, spec);
    spec.columns[1].name = "x";
    spec.columns[1].width = kFieldWidthMax + 1;
    expect({"columns", "'x' is too wide", nullptr}, spec);
  }
  InputSpec spec = good(Format::kNpy);
  spec.columns = {{.name = "x"}};
  expect({"columns", "this format has none", nullptr}, spec);
}

}  // namespace
}  // namespace dlrun::io
