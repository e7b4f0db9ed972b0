#include "runtime/jobspec/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/jobspec/json.h"

namespace dlrun::jobspec {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr const char* kToml = R"(
name = "ctr"
project = "ads"
priority = 5
time_limit = "2h"
grace = 10

[env]
COMMON = "yes"

[role.worker]
count = "1..4"
argv = ["python3", "train.py", ""]
env = {A = "x=y|z", COMMON = "mine", N = 3}
after = ["ps"]
cpus = 0.5
memory = "2GiB"
gpus = 1
ports = 2
labels = {disk = "ssd"}

[role.ps]
program = "shard-host"
count = 2

[input.train]
uris = ["data/*.txt", "more"]
format = "tsv"
batch_rows = 512
passes = 3
shuffle = false
seed = 9
split_bytes = "1MiB"
header = true
label_column = -1

[restart]
max = 1
on = ["node-lost"]
)";

constexpr const char* kYaml = R"(
name: ctr
project: ads
priority: 5
time_limit: 2h
grace: 10
env: {COMMON: "yes"}
role:
  worker:
    count: 1..4
    argv: [python3, train.py, ""]
    env: {A: "x=y|z", COMMON: mine, N: 3}
    after: ps
    cpus: 0.5
    memory: 2GiB
    gpus: 1
    ports: 2
    labels: {disk: ssd}
  ps:
    program: shard-host
    count: 2
input:
  train:
    uris: ["data/*.txt", more]
    format: tsv
    batch_rows: 512
    passes: 3
    shuffle: false
    seed: 9
    split_bytes: 1MiB
    header: true
    label_column: -1
restart:
  max: 1
  on: [node-lost]
)";

std::string problem_of(std::string_view text, Syntax syntax, std::string_view file) {
  const auto spec = parse_job(text, syntax, file);
  return spec ? "" : spec.error().context;
}

TEST(JobFile, ReadsEveryKeyOfToml) {
  const auto spec = parse_job(kToml, Syntax::kToml, "job.toml");
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->name, "ctr");
  EXPECT_EQ(spec->project, "ads");
  EXPECT_EQ(spec->priority, 5);
  EXPECT_EQ(spec->time_limit, 2h);
  EXPECT_EQ(spec->grace, 10s);
  ASSERT_EQ(spec->roles.size(), 2u);
  const auto& worker = spec->roles[0];
  EXPECT_EQ(worker.name, "worker");
  EXPECT_EQ(worker.count_min, 1u);
  EXPECT_EQ(worker.count_max, 4u);
  EXPECT_THAT(worker.argv, ElementsAre("python3", "train.py", ""));
  EXPECT_THAT(worker.env, ElementsAre(Pair("A", "x=y|z"), Pair("COMMON", "mine"), Pair("N", "3")));
  EXPECT_THAT(worker.after, ElementsAre("ps"));
  EXPECT_EQ(
      worker.resources,
      (sched::Resources{.cpu_milli = 500, .memory_bytes = 2147483648, .gpus = 1, .ports = 2}));
  EXPECT_EQ(worker.require.at("disk"), "ssd");
  const auto& ps = spec->roles[1];
  EXPECT_EQ(ps.program, cluster::RoleProgram::kShardHost);
  EXPECT_EQ(ps.count_max, 2u);
  EXPECT_THAT(ps.env, ElementsAre(Pair("COMMON", "yes")));
  ASSERT_EQ(spec->inputs.size(), 1u);
  io::InputSpec input{.name = "train",
                      .uris = {"data/*.txt", "more"},
                      .format = io::Format::kCsv,
                      .delimiter = '\t',
                      .header = true,
                      .label_column = -1,
                      .batch_rows = 512,
                      .passes = 3,
                      .shuffle = false,
                      .seed = 9,
                      .split_bytes = 1u << 20};
  EXPECT_EQ(spec->inputs[0], input);
  EXPECT_EQ(spec->restart.restarts_max, 1u);
  EXPECT_THAT(spec->restart.on, ElementsAre(cluster::Cause::kNodeLost));
}

TEST(JobFile, MeansTheSameInYamlAndInJson) {
  const auto toml = parse_job(kToml, Syntax::kToml, "job.toml");
  const auto yaml = parse_job(kYaml, Syntax::kYaml, "job.yaml");
  ASSERT_TRUE(toml) << toml.error().context;
  ASSERT_TRUE(yaml) << yaml.error().context;
  EXPECT_EQ(dump(to_json(*toml)), dump(to_json(*yaml)));
  const auto json = parse_job(dump(to_json(*toml)), Syntax::kJson, "job.json");
  ASSERT_TRUE(json) << json.error().context;
  EXPECT_EQ(dump(to_json(*json)), dump(to_json(*toml)));
}

TEST(JobFile, ReadsTheColumnsOfATypedInput) {
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

TEST(JobFile, ReadsModesLanesEndsAndWeightsAndTellsWhichDoNotGoTogether) {
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

TEST(JobFile, NamesThePlaceOfAColumnThatIsWrong) {
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

TEST(JobFile, AFrameworkCompletesTheJobAndItsJsonMeansTheSameAgain) {
  const auto spec = parse_job(R"(framework = "mxnet"
[env]
A = "1"
[role.worker]
count = 2
argv = ["python3", "train.py"]
[role.server]
argv = ["python3", "train.py"]
linger = "3s"
)",
                              Syntax::kToml, "job.toml");
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->framework, "mxnet");
  ASSERT_EQ(spec->roles.size(), 3u);
  EXPECT_EQ(spec->roles[0].end, cluster::EndRule::kAll);
  EXPECT_EQ(spec->roles[0].resources.ports, 1);
  EXPECT_THAT(spec->roles[0].after, ElementsAre("scheduler", "server"));
  EXPECT_EQ(spec->roles[1].end, cluster::EndRule::kServes);
  EXPECT_EQ(spec->roles[1].linger, 3s);
  EXPECT_EQ(spec->roles[2].name, "scheduler");
  EXPECT_EQ(spec->roles[2].argv, spec->roles[0].argv);
  EXPECT_THAT(spec->roles[2].env, ElementsAre(Pair("A", "1")));
  const auto back = parse_job(dump(to_json(*spec)), Syntax::kJson, "body");
  ASSERT_TRUE(back) << back.error().context;
  EXPECT_EQ(dump(to_json(*back)), dump(to_json(*spec)));
}

TEST(JobFile, ReadsTheEndRulesOfRoles) {
  const auto spec = parse_job(R"([role.worker]
count = "4..8"
argv = ["a"]
end = "quorum"
quorum = 3
linger = 0
[role.grid]
argv = ["a"]
end = "tolerant"
failures = 0.25
[role.plain]
argv = ["a"]
)",
                              Syntax::kToml, "job.toml");
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->roles[0].end, cluster::EndRule::kQuorum);
  EXPECT_EQ(spec->roles[0].quorum, 3u);
  EXPECT_EQ(spec->roles[0].linger, 0s);
  EXPECT_EQ(spec->roles[1].end, cluster::EndRule::kTolerant);
  EXPECT_EQ(spec->roles[1].failures_permille, 250u);
  EXPECT_EQ(spec->roles[2].end, cluster::EndRule::kByKind);
  EXPECT_FALSE(spec->roles[2].linger);
  const auto back = parse_job(dump(to_json(*spec)), Syntax::kJson, "body");
  ASSERT_TRUE(back) << back.error().context;
  EXPECT_EQ(dump(to_json(*back)), dump(to_json(*spec)));
}

TEST(JobFile, NamesThePlaceOfWhatDoesNotGoWithAFrameworkOrAnEndRule) {
  const std::pair<const char*, const char*> kCases[] = {
      {"framework = \"tensorfow\"\n[role.worker]\nargv = [\"a\"]\n",
       "j.toml:1:13: framework is one of tensorflow, pytorch"},
      {"framework = \"tensorflow\"\n[role.worker]\nargv = [\"a\"]\n[role.chef]\nargv = [\"a\"]\n",
       "role 'chef': tensorflow knows the roles chief, worker"},
      {"framework = \"tensorflow\"\n[role.chief]\nargv = [\"a\"]\ncount = 2\n",
       "j.toml:4:9: role 'chief': count: tensorflow has at most 1"},
      {"[role.worker]\nargv = [\"a\"]\nend = \"decide\"\n",
       "j.toml:3:7: end is one of all, decides, quorum"},
      {"[role.worker]\nargv = [\"a\"]\nquorum = 1\n",
       "j.toml:3:10: role 'worker': quorum: belongs to end = \"quorum\""},
      {"[role.worker]\nargv = [\"a\"]\nend = \"quorum\"\nquorum = 2\n",
       "j.toml:4:10: role 'worker': quorum: is more than the 1 tasks"},
      {"[role.worker]\nargv = [\"a\"]\nfailures = 0.5\n",
       "j.toml:3:12: role 'worker': failures: belongs to end = \"tolerant\""},
      {"[role.worker]\nargv = [\"a\"]\nend = \"tolerant\"\nfailures = 1.5\n",
       "j.toml:4:12: failures must be a share from 0.001 to 1, not 1.5"},
      {"[role.ps]\nargv = [\"a\"]\nend = \"serves\"\n", "no role's end ends the job"},
      {"[role.worker]\nargv = [\"a\"]\n[role.ps]\nprogram = \"shard-host\"\nend = \"all\"\n",
       "role 'ps': end: a shard host outlives"},
  };
  for (const auto& [text, problem] : kCases) {
    const std::string said = problem_of(text, Syntax::kToml, "j.toml");
    EXPECT_THAT(said, HasSubstr(problem)) << text;
    EXPECT_THAT(said, Not(HasSubstr("\n"))) << "one problem, told once: " << said;
  }
}

TEST(JobFile, KeepsAnyByteOfAnEnvironmentValueThroughJson) {
  cluster::JobSpec spec;
  std::string bytes;
  for (int c = 1; c < 256; ++c) bytes.push_back(static_cast<char>(c));
  spec.roles.push_back({.name = "main",
                        .argv = {"a", "", bytes},
                        .env = {{"V", bytes}, {"E", ""}, {"P", "a=b|c\nd"}},
                        .cwd = "/x\xFF"});
  spec.time_limit = 1500ms;
  spec.submit_env = {{"HOME", "/root"}};
  const auto back = parse_job(dump(to_json(spec)), Syntax::kJson, "body");
  ASSERT_TRUE(back) << back.error().context;
  EXPECT_EQ(back->roles[0].env, spec.roles[0].env);
  EXPECT_EQ(back->roles[0].argv, spec.roles[0].argv);
  EXPECT_EQ(back->roles[0].cwd, spec.roles[0].cwd);
  EXPECT_EQ(back->time_limit, 1500ms);
  EXPECT_EQ(back->submit_env, spec.submit_env);
}

TEST(JobFile, NamesPlaceAndNearestKeyOfAnUnknownOne) {
  EXPECT_EQ(problem_of("name = \"x\"\n[role.worker]\nargv = [\"a\"]\n  cuont = 2\n", Syntax::kToml,
                       "job.toml"),
            "job.toml:4:3: unknown key 'cuont' in [role.worker]; did you mean 'count'?");
  EXPECT_EQ(
      problem_of("role:\n  worker:\n    argv: [a]\n    memroy: 2GiB\n", Syntax::kYaml, "job.yaml"),
      "job.yaml:4:5: unknown key 'memroy' in [role.worker]; did you mean 'memory'?");
  EXPECT_EQ(problem_of("{\"role\": {\"worker\": {\"argv\": [\"a\"],\n  \"gpu\": 2}}}",
                       Syntax::kJson, "job.json"),
            "job.json:2:3: unknown key 'gpu' in [role.worker]; did you mean 'gpus'?");
  EXPECT_THAT(
      problem_of("role = {w = {argv = [\"a\"]}}\nfrobnicate = 1\n", Syntax::kToml, "job.toml"),
      HasSubstr("job.toml:2:1: unknown key 'frobnicate' in the job; known are name"));
}

TEST(JobFile, NamesThePlaceOfASyntaxError) {
  EXPECT_THAT(problem_of("name = \n", Syntax::kToml, "job.toml"),
              testing::StartsWith("job.toml:1:8: "));
  EXPECT_EQ(problem_of("name = 'x'\n\n[=]\nb = 1\n", Syntax::kToml, "j"),
            "j:3:1: a key or a table header is malformed");
  EXPECT_THAT(problem_of("role:\n  a: [1,\n", Syntax::kYaml, "job.yaml"),
              testing::StartsWith("job.yaml:3:1: "));
  EXPECT_EQ(problem_of("{\n  \"name\": }", Syntax::kJson, "job.json"),
            "job.json:2:11: not a JSON value");
  EXPECT_EQ(problem_of("{\"name\": \"x\"} {}", Syntax::kJson, "b"),
            "b:1:15: text after the end of the document");
  EXPECT_THAT(problem_of("{\"name\": \"\xFF\"}", Syntax::kJson, "b"),
              HasSubstr("b:1:10: a string that is not UTF-8"));
}

// Found by fuzzing: toml++ counts on never seeing U+0495 and its neighbours here.
TEST(JobFile, ALetterOutsideOfAStringIsAnErrorWithAPlace) {
  for (const char* text :
       {"\xd2\x95", "n\xc3\xa9 = 1\n", "name = \xd2\x95", "[\xc4\x80]\n", "\xc2\xa1\n"})
    EXPECT_THAT(problem_of(text, Syntax::kToml, "job.toml"), HasSubstr("job.toml:1:")) << text;
}

TEST(JobFile, ListsSeveralProblemsAtOnceEachWithItsPlace) {
  const std::string text = problem_of(
      "time_limit = \"soon\"\n[role.worker]\nargv = []\ncount = 0\nafter = "
      "[\"pss\"]\n[role.ps]\nprogram = \"shard\"\n",
      Syntax::kToml, "j.toml");
  EXPECT_THAT(text, HasSubstr("j.toml:1:14: time_limit: 'soon' is not a duration"));
  EXPECT_THAT(text, HasSubstr("j.toml:3:8: role 'worker': argv: a program is needed"));
  EXPECT_THAT(text, HasSubstr("j.toml:4:9: count: '0' is not a count"));
  EXPECT_THAT(text, HasSubstr("j.toml:5:10: after: no role 'pss'; did you mean 'ps'?"));
  EXPECT_THAT(text, HasSubstr("j.toml:7:11: program is one of process, shard-host"));
}

TEST(JobFile, RefusesWhatCouldNotRun) {
  EXPECT_THAT(problem_of("name = \"x\"", Syntax::kToml, "j"), HasSubstr("at least one role"));
  EXPECT_THAT(problem_of("[role.a]\nargv=[\"\"]", Syntax::kToml, "j"),
              HasSubstr("names the program and is empty"));
  EXPECT_THAT(problem_of("[role.A]\nargv=[\"x\"]", Syntax::kToml, "j"), HasSubstr("lower-case"));
  EXPECT_THAT(problem_of("[role.a]\nargv=[\"x\"]\nenv={\"A=B\"=\"c\"}", Syntax::kToml, "j"),
              HasSubstr("holds '='"));
  EXPECT_THAT(problem_of(R"({"role":{"a":{"argv":["x","a\u0000b"]}}})", Syntax::kJson, "j"),
              HasSubstr("NUL"));
  EXPECT_THAT(problem_of(R"({"role":{"a":{"argv":["x"]},"a":{"argv":["y"]}}})", Syntax::kJson, "j"),
              HasSubstr("role 'a': two roles have this name"));
  EXPECT_THAT(problem_of(R"({"role":{"a":{"argv":["x"],"argv":["y"]}}})", Syntax::kJson, "j"),
              HasSubstr("'argv' stands twice"));
  EXPECT_THAT(problem_of("[role.a]\nargv=[\"x\"]\nafter=\"b\"\n[role.b]\nargv=[\"x\"]\nafter=\"a\"",
                         Syntax::kToml, "j"),
              HasSubstr("j:6:7: role 'b': after: goes in a circle: a, b, a"));
  EXPECT_THAT(
      problem_of("[role.a]\nargv=[\"x\"]\n[input.t]\nformat=\"libsvm\"", Syntax::kToml, "j"),
      HasSubstr("j:3:8: input 't': uris: a file is needed"));
  EXPECT_THAT(
      problem_of("[role.a]\nargv=[\"x\"]\ncount=65536\n[role.b]\nargv=[\"x\"]", Syntax::kToml, "j"),
      HasSubstr("65537 tasks"));
  EXPECT_THAT(problem_of("when = 2020-01-01", Syntax::kToml, "j"), HasSubstr("j:1:8: dates"));
}

// What only the whole spec shows was told at 1:1, with the role's number.
TEST(JobFile, NamesTheRoleAndThePlaceOfWhatOnlyTheWholeSpecShows) {
  const std::string head = "name = \"x\"\n[role.a]\nargv = [\"x\"]\n";
  const auto told = [&](const std::string& more) {
    return problem_of(head + more, Syntax::kToml, "j");
  };
  EXPECT_EQ(told("ready = \"port\"\n"),
            "j:4:9: role 'a': ready: \"port\" wants a leased port: ports = 1");
  EXPECT_EQ(told("after = \"a\"\n"), "j:4:9: role 'a': after: goes in a circle: a, a");
  EXPECT_THAT(told("[output.m]\npath = \"/x\"\n[output.n]\npath = \"/x\"\n"),
              HasSubstr("j:7:8: output 'n': path: '/x' is the path of another output"));
  EXPECT_THAT(told("[output.m]\npath = \"x\"\n"),
              HasSubstr("j:5:8: output 'm': path: must be the absolute path"));
  EXPECT_THAT(told("[output.m]\npath = \"/x\"\nrole = \"b\"\n"),
              HasSubstr("j:6:8: output 'm': role: there is no role 'b'"));
  EXPECT_THAT(told("[role.b]\nargv = [\"x\", \"" + std::string(1 << 17, 'y') + "\"]\n"),
              HasSubstr("j:5:8: role 'b': argv: an argument of 131072 bytes or more"));
  EXPECT_THAT(told("[role.b]\nargv = [\"x\"]\nenv = {A = \"" + std::string(1 << 20, 'y') + "\"}\n"),
              HasSubstr("j:6:7: role 'b': env: together more than"));
  EXPECT_THAT(problem_of("[role.ps]\nprogram = \"shard-host\"\n", Syntax::kToml, "j"),
              HasSubstr("j:1:1: role: shard hosts alone do nothing"));
}

TEST(JobFile, ANumberOfTheWrongKindIsToldByWhatItIs) {
  const auto told = [](const std::string& field) {
    return problem_of("[role.a]\nargv = [\"x\"]\n" + field, Syntax::kToml, "j");
  };
  EXPECT_EQ(told("gpus = 1.5"), "j:3:8: gpus must be a whole number, not 1.5");
  EXPECT_EQ(told("count = 1.5"), "j:3:9: count must be a count, like 4 or \"1..4\", not 1.5");
  EXPECT_EQ(told("memory = 1.5"), "j:3:10: memory must be a size, like \"2GiB\" or bytes, not 1.5");
  EXPECT_EQ(told("cpus = true"),
            "j:3:8: cpus must be a number of cores, like 2 or 0.5, not true or false");
  EXPECT_EQ(told("time_limit = [1]"),
            "j:3:14: time_limit must be a duration, like \"90s\" or seconds, not a list");
  EXPECT_EQ(told("gpus = \"two\""), "j:3:8: gpus must be a whole number, not 'two'");
}

TEST(JobFile, WhatFollowsFromAProblemIsNotToldAsAnother) {
  const auto told = [](const std::string& text) { return problem_of(text, Syntax::kToml, "j"); };
  EXPECT_EQ(told("[role.a]\nargv = [1, \"x\"]\n"), "j:2:9: argv must be a string, not an integer");
  EXPECT_EQ(told("[role.a]\nargv = \"x y\"\n"), "j:2:8: argv must be a list, not a string");
  EXPECT_EQ(told("[role.a]\nprogram = \"shardhost\"\n"),
            "j:2:11: program is one of process, shard-host; did you mean 'shard-host'?");
  EXPECT_EQ(told("role = 1\n"), "j:1:8: role must be a table, not an integer");
  EXPECT_EQ(told("role = {a = 1}\n"), "j:1:13: [role.a] must be a table, not an integer");
  EXPECT_EQ(told("[role.a]\nargv=[\"x\"]\n[input.t]\nuri = 1\n"),
            "j:4:7: uri must be a string, not an integer");
  EXPECT_EQ(told("[role.a]\nargv=[\"x\"]\n[output.t]\npath = 1\n"),
            "j:4:8: path must be a string, not an integer");
  EXPECT_EQ(told("[env]\n\"A=B\" = 1\n[role.a]\nargv=[\"x\"]\n"),
            "j:2:1: the variable name 'A=B' holds '='");
}

TEST(JobFile, IsNotFooledByDeepOrWideInput) {
  EXPECT_THAT(problem_of(std::string(100000, '['), Syntax::kJson, "j"),
              HasSubstr("nested too deeply"));
  EXPECT_FALSE(parse_job(std::string(100000, '['), Syntax::kYaml, "j"));
  EXPECT_FALSE(parse_job("a = " + std::string(100000, '['), Syntax::kToml, "j"));
  // Nine levels of ten aliases each: a billion values when followed blindly.
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ",*a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(problem_of(bomb, Syntax::kYaml, "j"), HasSubstr("too many values"));
  std::string wide = "{\"role\":{\"a\":{\"argv\":[\"x\"],\"env\":{\"A\":1";
  for (int i = 0; i < 100000; ++i) wide += ",\"B\":2";
  EXPECT_THAT(problem_of(wide + "}}}}", Syntax::kJson, "j"), HasSubstr("at most 4096"));
  std::string keys = "{\"b\":1";
  for (int i = 0; i < 100000; ++i) keys += ",\"b\":1";
  EXPECT_THAT(problem_of(keys + "}", Syntax::kJson, "j"), HasSubstr("and more problems"));
  EXPECT_THAT(problem_of(std::string(kJobBytesMax + 1, ' '), Syntax::kJson, "j"),
              HasSubstr("a job file may have"));
}

TEST(JobFile, AFormatThatNoNameTellsIsAskedForWithThePlace) {
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

TEST(JobFile, TellsWhyAFileCannotBeRead) {
  EXPECT_EQ(load_job_file("/nonexistent/job.toml").error().code, Errc::kNotFound);
  EXPECT_THAT(load_job_file("/nonexistent/job.toml").error().context,
              HasSubstr("/nonexistent/job.toml"));
  EXPECT_EQ(load_job_file("job.txt").error().code, Errc::kInvalidArgument);
}

TEST(JobFile, WhatItCallsGoodTheCoordinatorTakes) {
  const auto parsed =
      parse_job("name = \"my job\"\n[role.main]\nargv = [\"true\"]\n", Syntax::kToml, "job.toml");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_THAT(parsed.error().context, HasSubstr("job.toml:1:"));
  EXPECT_THAT(parsed.error().context, HasSubstr("job.toml:1:8: name: must be 1 to 64 of"));
  const auto many =
      parse_job("[role.main]\nargv = [\"true\"]\ncount = 65537\n", Syntax::kToml, "job.toml");
  ASSERT_FALSE(many.has_value());
  EXPECT_THAT(many.error().context, HasSubstr("65536"));
}

TEST(JobFile, ReadsHoldOutputsReadinessAndTheRolesOwnLimitAndCauses) {
  const char* text = R"(
hold = true
[role.web]
kind = "service"
argv = ["serve"]
ports = 1
ready = "port"
time_limit = "1m"
restart_on = ["oom", "time_limit"]
rlimits = {nofile = 4096, memlock = "64MiB", stack = "unlimited"}
[role.main]
argv = ["true"]
after = "web"
restart_on = []
[output.model]
path = "/out/model"
)";
  const auto spec = parse_job(text, Syntax::kToml, "job.toml");
  ASSERT_TRUE(spec.has_value()) << spec.error().context;
  EXPECT_TRUE(spec->hold);
  EXPECT_EQ(spec->roles[0].ready, cluster::ReadyWhen::kPort);
  EXPECT_EQ(spec->roles[0].time_limit, 1min);
  EXPECT_THAT(spec->roles[0].rlimits,
              ElementsAre(Pair("memlock", 64u << 20), Pair("nofile", 4096u), Pair("stack", ~0ull)));
  EXPECT_THAT(problem_of("[role.a]\nargv=[\"x\"]\nrlimits={nofiles=1}", Syntax::kToml, "j"),
              HasSubstr("unknown key 'nofiles' in rlimits; did you mean 'nofile'?"));
  EXPECT_THAT(spec->roles[0].restart_on,
              testing::Optional(ElementsAre(cluster::Cause::kOom, cluster::Cause::kTimeLimit)));
  EXPECT_THAT(spec->roles[1].restart_on, testing::Optional(testing::IsEmpty()));
  ASSERT_EQ(spec->outputs.size(), 1u);
  EXPECT_EQ(spec->outputs[0].role, "main") << "the first role that trains";
  const auto again = parse_job(dump(to_json(*spec)), Syntax::kJson, "again");
  ASSERT_TRUE(again.has_value()) << again.error().context;
  EXPECT_TRUE(*again == *spec);
}

TEST(JobFile, NamesThePlaceOfAWrongOutput) {
  const auto spec =
      parse_job("[role.main]\nargv = [\"true\"]\n[output.m]\npath = \"out\"\nrole = \"mian\"\n",
                Syntax::kToml, "job.toml");
  ASSERT_FALSE(spec.has_value());
  EXPECT_THAT(spec.error().context,
              HasSubstr("job.toml:4:8: output 'm': path: must be the absolute path"));
  EXPECT_THAT(spec.error().context,
              HasSubstr("job.toml:5:8: output 'm': role: there is no role 'mian'; did you mean "
                        "'main'?"));
  const auto port =
      parse_job("[role.main]\nargv = [\"true\"]\nready = \"port\"\n", Syntax::kToml, "job.toml");
  ASSERT_FALSE(port.has_value());
  EXPECT_THAT(port.error().context, HasSubstr("leased port"));
}

}  // namespace
}  // namespace dlrun::jobspec
