/// Inputs of a job file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "tests/jobspec/problem.h"

namespace dlrun::jobspec {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

TEST(JobFileInputs, ReadsTheColumnsOfATypedInput) {
  const std::string head = "[role.worker]\nargv = [\"a\"]\n[input.train]\nuri = \"/d\"\n";
  const auto spec = parse_job(head + R"toml(format = "csv"
columns = ["id: int64", " price : float32 ? ", "city:hash(1000)", "color: dict(red|a b|)", "on: bool",
           "x: float64", "t: text", "h: hash"]
missing = ["", "NA"]
newlines_in_quotes = true
record_bytes_max = "1MiB"
on_bad_record = "quarantine"
quarantine = "/tmp/bad.jsonl"
[input.tokens]
uri = "/t"
format = "tokens"
token_type = "u32"
sequence_length = 2048
tail = "pad"
separator = 3
padding = 2
vocabulary = 50000
[input.lines]
uri = "/data/x.jsonl.zst"
columns = ["tags: text[]?", "xy: float32[2]"]
[input.guess]
uri = "/data/x.tsv"
columns = "infer"
[input.examples]
uri = "/data/x"
format = "tfexample"
)toml",
                              Syntax::kToml, "job.toml");
  ASSERT_TRUE(spec) << spec.error().context;
  ASSERT_EQ(spec->inputs.size(), 5u);
  const io::InputSpec& train = spec->inputs[0];
  using io::FieldType;
  io::InputSpec want{.name = "train",
                     .uris = {"/d"},
                     .format = io::Format::kTable,
                     .on_bad_record = io::OnBadRecord::kQuarantine,
                     .quarantine = "/tmp/bad.jsonl",
                     .columns = {{.name = "id", .type = FieldType::kInt64},
                                 {.name = "price", .type = FieldType::kFloat32, .may_miss = true},
                                 {.name = "city", .type = FieldType::kHashed, .buckets = 1000},
                                 {.name = "color",
                                  .type = FieldType::kDictionary,
                                  .dictionary = {"red", "a b", ""}},
                                 {.name = "on", .type = FieldType::kBoolean},
                                 {.name = "x", .type = FieldType::kFloat64},
                                 {.name = "t", .type = FieldType::kText},
                                 {.name = "h", .type = FieldType::kHashed}},
                     .missing = {"", "NA"},
                     .newlines_in_quotes = true,
                     .record_bytes_max = 1u << 20};
  EXPECT_EQ(train, want);
  const io::TokenOptions tokens{.type = io::TokenOptions::Type::kU32,
                                .sequence_length = 2048,
                                .tail = io::TokenOptions::Tail::kPad,
                                .separator = 3,
                                .padding = 2,
                                .vocabulary = 50000};
  EXPECT_EQ(spec->inputs[1].tokens, tokens);
  EXPECT_EQ(spec->inputs[2].format, io::Format::kJsonLines);
  EXPECT_EQ(spec->inputs[2].columns[0].width, 0u);
  EXPECT_EQ(spec->inputs[2].columns[1].width, 2u);
  EXPECT_EQ(spec->inputs[3].format, io::Format::kTable);
  EXPECT_EQ(spec->inputs[3].delimiter, '\t');
  EXPECT_TRUE(spec->inputs[3].columns.empty());
  const auto back = parse_job(dump(to_json(*spec)), Syntax::kJson, "body");
  ASSERT_TRUE(back) << back.error().context;
  EXPECT_EQ(back->inputs, spec->inputs);
}

TEST(JobFileInputs, ReadsModesLanesEndsAndWeightsAndTellsWhichDoNotGoTogether) {
  const std::string head = "name = \"a\"\n[role.worker]\nargv = [\"x\"]\n[input.train]\n";
  const auto one = [&](const std::string& keys) {
    return parse_job(head + "uris = [\"a.csv\", \"b.csv\"]\n" + keys, Syntax::kToml, "job.toml");
  };
  const auto ordered =
      one("mode = \"deterministic\"\nlanes = 12\nends = \"drop\"\n"
          "skip_batches = 3\ntake_batches = 7\nweights = [3, 1]\n");
  ASSERT_TRUE(ordered) << ordered.error().context;
  const io::InputSpec& input = ordered->inputs.at(0);
  EXPECT_EQ(input.mode, io::Mode::kDeterministic);
  EXPECT_EQ(input.lanes, 12u);
  EXPECT_EQ(input.ends, io::Ends::kDrop);
  EXPECT_EQ(input.skip_batches, 3u);
  EXPECT_EQ(input.take_batches, 7u);
  EXPECT_THAT(input.weights, ElementsAre(3, 1));
  const auto again = parse_job(dump(to_json(*ordered)), Syntax::kJson, "job.json");
  ASSERT_TRUE(again) << again.error().context;
  EXPECT_EQ(again->inputs, ordered->inputs);
  const auto parts = one("mode = \"static\"\nstatic = \"bytes\"\n");
  ASSERT_TRUE(parts) << parts.error().context;
  EXPECT_EQ(parts->inputs.at(0).static_by, io::StaticBy::kBytes);
  EXPECT_EQ(parse_job(dump(to_json(*parts)), Syntax::kJson, "job.json")->inputs, parts->inputs);
  const auto wrong = [&](const std::string& keys) {
    const auto spec = one(keys);
    return spec ? std::string() : spec.error().context;
  };
  EXPECT_THAT(wrong("lanes = 4\n"), HasSubstr("belong to mode = \"deterministic\""));
  EXPECT_THAT(wrong("mode = \"static\"\ntake_batches = 4\n"),
              HasSubstr("belong to mode = \"deterministic\""));
  EXPECT_THAT(wrong("static = \"bytes\"\n"), HasSubstr("belongs to mode = \"static\""));
  EXPECT_THAT(wrong("ends = \"pad\"\n"), HasSubstr("ends belongs to mode"));
  EXPECT_THAT(wrong("weights = [1]\n"), HasSubstr("there are 1 for 2 uris"));
  EXPECT_THAT(wrong("weights = [1, 0]\n"), HasSubstr("a weight"));
  EXPECT_THAT(wrong("mode = \"static\"\nweights = [1, 1]\n"), HasSubstr("do not go with static"));
}

TEST(JobFileInputs, NamesThePlaceOfAColumnThatIsWrong) {
  const std::string head = "[role.worker]\nargv = [\"a\"]\n[input.train]\nuri = \"/d\"\n";
  const auto problem = [&](const std::string& keys) {
    return problem_of(head + keys, Syntax::kToml, "job.toml");
  };
  const std::pair<const char*, const char*> kCases[] = {
      {"format = \"csv\"\ncolumns = [\"a\"]\n", "job.toml:6:12: column 'a': write NAME: TYPE"},
      {"format = \"csv\"\ncolumns = [\"a: flaot\"]\n", "column 'a': unknown type 'flaot'; known"},
      {"format = \"csv\"\ncolumns = [\"a: text[0]\"]\n", "[N] needs a number"},
      {"format = \"csv\"\ncolumns = [\"a: text(3)\"]\n", "text takes no (...)"},
      {"format = \"csv\"\ncolumns = [\"a: hash(0)\"]\n", "hash(N) needs a number above 0"},
      {"format = \"csv\"\ncolumns = [\"a: dict\"]\n", "dict(A|B|C) needs its words"},
      {"format = \"csv\"\ncolumns = [\"a: text\", \"a: text\"]\n", "two columns are named 'a'"},
      {"format = \"csv\"\ncolumns = []\n", "columns names none"},
      {"format = \"csv\"\ncolumns = \"guess\"\n", "columns must be a list"},
      {"format = \"npy\"\ncolumns = [\"a: text\"]\n", "columns belongs to csv, tsv, jsonl"},
      {"format = \"csv\"\nmissing = [\"\"]\n", "belong to csv and tsv with columns"},
      {"format = \"csv\"\ntail = \"pad\"\n", "belongs to format = \"tokens\""},
      {"format = \"csv\"\nquarantine = \"/q\"\n", "belong together"},
      {"format = \"csv\"\non_bad_record = \"quarantine\"\n", "belong together"},
      {"format = \"csv\"\nrecord_bytes_max = \"65MiB\"\n",
       "job.toml:6:20: input 'train': record_bytes_max: must be 1 byte to 64MiB"},
      {"format = \"csv\"\nsplit_bytes = 0\n",
       "job.toml:6:15: input 'train': split_bytes: must be at least 1"},
      {"format = \"csv\"\ncolumns = [\"a: text[]\"]\n",
       "job.toml:6:11: input 'train': columns: 'a': csv has no lists"},
      {"format = \"csv\"\ncolumns = [\"a: dict(A|A)\"]\n",
       "job.toml:6:11: input 'train': columns: 'a': a dictionary that is empty or repeats a word"},
      {"format = \"csv\"\ndelimiter = \"\\\"\"\n",
       "job.toml:6:13: input 'train': delimiter: must not be a quote, CR, LF or NUL"},
      {"format = \"csv\"\ndelimiter = \"\\r\"\n", "delimiter: must not be a quote"},
      {"format = \"csv\"\ndelimiter = \"ab\"\n", "delimiter must be one character"},
      {"format = \"tokens\"\nseparator = 100\nvocabulary = 100\n",
       "job.toml:6:13: input 'train': separator: 100 is outside the vocabulary of 100"},
      {"format = \"tokens\"\nsequence_length = 8\ntail = \"pad\"\npadding = 9\nvocabulary = 9\n",
       "job.toml:8:11: input 'train': padding: 9 is outside the vocabulary of 9"},
  };
  for (const auto& [keys, text] : kCases) EXPECT_THAT(problem(keys), HasSubstr(text)) << keys;
}

TEST(JobFileInputs, AFormatThatNoNameTellsIsAskedForWithThePlace) {
  const std::string text =
      problem_of("[role.a]\nargv=[\"x\"]\n[input.t]\nuri = \"x.txt\"\n", Syntax::kToml, "j");
  EXPECT_THAT(text, testing::StartsWith("j:3:"));
  EXPECT_THAT(text, HasSubstr("input 't': the name 'x.txt' does not tell its format; add format = "
                              "one of libsvm, libffm, csv, tsv"));
  const auto spec =
      parse_job("[role.a]\nargv=[\"x\"]\n[input.t]\nuri = \"x.tsv\"\n", Syntax::kToml, "j");
  for (const char* name : {"x.csv.gz", "day-*.CSV.zst", "a.b/x.csv.xz", "x.csv.bz2"}) {
    const auto packed =
        parse_job(std::string("[role.a]\nargv=[\"x\"]\n[input.t]\nuri = \"") + name + "\"\n",
                  Syntax::kToml, "j");
    ASSERT_TRUE(packed) << name;
    EXPECT_EQ(packed->inputs[0].format, io::Format::kCsv) << name;
  }
  for (const char* name : {"x.gz", "gz", "x.csv.gz.gz", "x.csv.zip", "csv.gz", "a.csv/x.gz"})
    EXPECT_THAT(
        problem_of(std::string("[role.a]\nargv=[\"x\"]\n[input.t]\nuri = \"") + name + "\"\n",
                   Syntax::kToml, "j"),
        HasSubstr("does not tell its format"))
        << name;
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->inputs[0].format, io::Format::kCsv);
  EXPECT_EQ(spec->inputs[0].delimiter, '\t');
}

}  // namespace
}  // namespace dlrun::jobspec
