#include "runtime/jobspec/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/jobspec/json.h"
#include "tests/jobspec/problem.h"

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
