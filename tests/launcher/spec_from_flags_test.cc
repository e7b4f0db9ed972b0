#include "launcher/spec_from_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace dlrun::launcher {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

World world() {
  World out;
  out.cwd = "/home/me/job";
  out.user = "me";
  out.environment = {
      {"PATH", "/bin"}, {"BYTES", "a=b|c\n\xFF"}, {"PATH", "/again"}, {"bad\xFF", "x"}};
  return out;
}

std::string error_of(const RunFlags& flags) {
  const auto spec = make_spec(flags, world());
  return spec ? "" : spec.error().context;
}

TEST(SpecFromFlags, MakesWorkersAndShardsOfAOneLiner) {
  RunFlags flags{.argv = {"python3", "train.py", "", "a=b|c"}, .workers = "4", .shards = 2};
  const auto spec = make_spec(flags, world());
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->name, "train.py");
  EXPECT_EQ(spec->owner, "me");
  EXPECT_EQ(spec->cwd, "/home/me/job");
  ASSERT_EQ(spec->roles.size(), 2u);
  EXPECT_EQ(spec->roles[0].name, "worker");
  EXPECT_EQ(spec->roles[0].count_max, 4u);
  EXPECT_THAT(spec->roles[0].argv, ElementsAre("python3", "train.py", "", "a=b|c"));
  EXPECT_THAT(spec->roles[0].after, ElementsAre("ps"));
  EXPECT_EQ(spec->roles[1].program, cluster::RoleProgram::kShardHost);
  EXPECT_EQ(spec->roles[1].count_max, 2u);
}

TEST(SpecFromFlags, TakesTheEnvironmentByteForByteOnceEach) {
  RunFlags flags{.argv = {"x"}, .env = {"A=x=y|z\n\xFF", "BYTES", "EMPTY="}};
  const auto spec = make_spec(flags, world());
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_THAT(spec->roles[0].env, ElementsAre(Pair("A", "x=y|z\n\xFF"),
                                              Pair("BYTES", "a=b|c\n\xFF"), Pair("EMPTY", "")));
  EXPECT_THAT(spec->submit_env, ElementsAre(Pair("PATH", "/bin"), Pair("BYTES", "a=b|c\n\xFF")));
  flags.env_policy = "clean";
  EXPECT_TRUE(make_spec(flags, world())->submit_env.empty());
  EXPECT_THAT(error_of({.argv = {"x"}, .env = {"NOT_SET"}}), HasSubstr("it is not set here"));
  EXPECT_THAT(error_of({.argv = {"x"}, .env = {"=v"}}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(error_of({.argv = {"x"}, .env = {"X\xFFY=1"}}), HasSubstr("must be UTF-8"))
      << "not another name in its place";
}

TEST(SpecFromFlags, ReadsInputsAndMakesTheirPathsAbsolute) {
  RunFlags flags{
      .argv = {"x"},
      .inputs = {"train=data/*.txt,./"
                 "b=1.txt,format=csv,batch_rows=512,shuffle=false,delimiter=;,split_bytes=1MiB",
                 "test=/abs.ffm,s3://b/c.FFM"}};
  const auto spec = make_spec(flags, world());
  ASSERT_TRUE(spec) << spec.error().context;
  ASSERT_EQ(spec->inputs.size(), 2u);
  EXPECT_THAT(spec->inputs[0].uris, ElementsAre("/home/me/job/data/*.txt", "/home/me/job/b=1.txt"));
  EXPECT_EQ(spec->inputs[0].format, io::Format::kCsv);
  EXPECT_EQ(spec->inputs[0].batch_rows, 512u);
  EXPECT_EQ(spec->inputs[0].delimiter, ';');
  EXPECT_EQ(spec->inputs[0].split_bytes, 1u << 20);
  EXPECT_FALSE(spec->inputs[0].shuffle);
  EXPECT_THAT(spec->inputs[1].uris, ElementsAre("/abs.ffm", "s3://b/c.FFM"));
  EXPECT_EQ(spec->inputs[1].format, io::Format::kLibffm);
  const auto typed = make_spec(
      {.argv = {"x"},
       .inputs = {"t=/d.csv,column=id: int64,column=s:text?,missing=,missing=7,on_bad_record="
                  "quarantine,quarantine=/q,record_bytes_max=1MiB",
                  "u=/t.bin,format=tokens,sequence_length=128,token_type=u32", "v=/a.jsonl",
                  "w=/b.tsv,columns=infer"}},
      world());
  ASSERT_TRUE(typed) << typed.error().context;
  ASSERT_EQ(typed->inputs.size(), 4u);
  EXPECT_EQ(typed->inputs[0].format, io::Format::kTable);
  ASSERT_EQ(typed->inputs[0].columns.size(), 2u);
  EXPECT_TRUE(typed->inputs[0].columns[1].may_miss);
  EXPECT_THAT(typed->inputs[0].missing, ElementsAre("", "7"));
  EXPECT_EQ(typed->inputs[0].quarantine, "/q");
  EXPECT_EQ(typed->inputs[0].record_bytes_max, 1u << 20);
  EXPECT_EQ(typed->inputs[1].tokens.sequence_length, 128u);
  EXPECT_EQ(typed->inputs[2].format, io::Format::kJsonLines);
  EXPECT_EQ(typed->inputs[3].format, io::Format::kTable);
  EXPECT_THAT(error_of({.argv = {"x"}, .inputs = {"t=/d.csv,columns=infer,column=a: text"}}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(error_of({.argv = {"x"}, .inputs = {"train=a,fromat=csv"}}),
              HasSubstr("did you mean 'format'?"));
  EXPECT_THAT(error_of({.argv = {"x"}, .inputs = {"train=a,format=xml"}}),
              HasSubstr("format is one of"));
  EXPECT_THAT(error_of({.argv = {"x"}, .inputs = {"nothing"}}), HasSubstr("name=PATH"));
  EXPECT_THAT(error_of({.argv = {"x"}, .inputs = {"t=a.csv", "t=b.csv"}}), HasSubstr("two inputs"));
}

TEST(SpecFromFlags, AnInputWithoutAFormatTakesItFromItsNamesOrIsRefused) {
  const auto spec = make_spec(
      {.argv = {"x"}, .inputs = {"a=x.csv,y.CSV", "b=day-*.tsv", "c=z.svm", "d=w.libsvm"}},
      world());
  ASSERT_TRUE(spec) << spec.error().context;
  ASSERT_EQ(spec->inputs.size(), 4u);
  EXPECT_EQ(spec->inputs[0].format, io::Format::kCsv);
  EXPECT_EQ(spec->inputs[0].delimiter, ',');
  EXPECT_EQ(spec->inputs[1].format, io::Format::kCsv);
  EXPECT_EQ(spec->inputs[1].delimiter, '\t');
  EXPECT_EQ(spec->inputs[2].format, io::Format::kLibsvm);
  EXPECT_EQ(spec->inputs[3].format, io::Format::kLibsvm);
  EXPECT_EQ(error_of({.argv = {"x"}, .inputs = {"t=data/part-0"}}),
            "input 't': the name 'data/part-0' does not tell its format; add format = one of "
            "libsvm, libffm, csv, tsv, jsonl, tfrecord, tfexample, recordio, npy, idx, tokens");
  EXPECT_THAT(error_of({.argv = {"x"}, .inputs = {"t=a.csv,b.svm"}}),
              HasSubstr("'b.svm' differs from the first in its format"));
  EXPECT_THAT(error_of({.argv = {"x"}, .inputs = {"t=data.csv/"}}), HasSubstr("does not tell"));
}

TEST(SpecFromFlags, NamesTheFlagAndNoPlaceWhenAValueIsWrong) {
  EXPECT_EQ(error_of({.argv = {"x"}, .workers = "zero"}),
            "count: 'zero' is not a count (like 4 or 1..4; 1 to 65536)");
  EXPECT_EQ(error_of({.argv = {"x"}, .time_limit = "soon"}),
            "time_limit: 'soon' is not a duration (like 90s, 1h30m, 500ms)");
  EXPECT_THAT(error_of({.argv = {"x"}, .memory = "lots"}),
              HasSubstr("memory: 'lots' is not a size"));
  EXPECT_THAT(error_of({.argv = {""}}), HasSubstr("empty"));
  EXPECT_THAT(error_of({}), HasSubstr("what should run?"));
}

TEST(SpecFromFlags, ADirectoryThatWasAskedForIsTheRolesSoThatItMustExist) {
  const auto spec = make_spec({.argv = {"x"}, .shards = 1, .cwd = "sub"}, world());
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->cwd, "/home/me/job");
  EXPECT_EQ(spec->roles[0].cwd, "/home/me/job/sub");
  EXPECT_EQ(spec->roles[1].cwd, "");
}

TEST(SpecFromFlags, TheDirectoryOfAJobFileIsThatOfItsRolesUnlessTheySayTheirOwn) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("dlrun-cwd-" + std::to_string(::getpid()) + ".toml");
  std::ofstream(path) << "cwd='/data'\n[role.a]\nargv=['x']\n[role.b]\nargv=['x']\ncwd='own'\n";
  auto spec = make_spec({.file = path}, world());
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->roles[0].cwd, "/data");
  EXPECT_EQ(spec->roles[1].cwd, "/home/me/job/own");
  EXPECT_EQ(spec->cwd, "/home/me/job");
  spec = make_spec({.file = path, .cwd = "/there"}, world());
  std::filesystem::remove(path);
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->roles[1].cwd, "/there");
}

const cluster::RoleSpec* role_of(const cluster::JobSpec& spec, const std::string& name) {
  for (const auto& role : spec.roles)
    if (role.name == name) return &role;
  return nullptr;
}

TEST(SpecFromFlags, AsAFrameworkMakesItsRolesOfTheSameProgram) {
  const auto spec = make_spec({.argv = {"python3", "t.py"},
                               .framework = "tensorflow",
                               .workers = "3",
                               .shards = 2,
                               .gpus = "1"},
                              world());
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->framework, "tensorflow");
  ASSERT_EQ(spec->roles.size(), 3u);
  const auto* chief = role_of(*spec, "chief");
  const auto* worker = role_of(*spec, "worker");
  const auto* ps = role_of(*spec, "ps");
  ASSERT_TRUE(chief != nullptr && worker != nullptr && ps != nullptr);
  EXPECT_EQ(chief->count_max, 1u);
  EXPECT_EQ(worker->count_max, 2u) << "the first of -n is the chief";
  EXPECT_EQ(ps->count_max, 2u);
  EXPECT_EQ(ps->program, cluster::RoleProgram::kProcess);
  for (const auto* role : {chief, worker, ps})
    EXPECT_THAT(role->argv, ElementsAre("python3", "t.py"));
  EXPECT_EQ(worker->resources.gpus, 1);
  EXPECT_EQ(ps->resources.gpus, 0) << "servers want none";
  EXPECT_EQ(chief->end, cluster::EndRule::kDecides);
  EXPECT_EQ(ps->end, cluster::EndRule::kServes);
  EXPECT_EQ(spec->name, "t.py");
}

TEST(SpecFromFlags, OneOfALeadersFrameworkIsTheLeaderAndARangeBeginsAtTwo) {
  const auto one = make_spec({.argv = {"t"}, .framework = "tensorflow"}, world());
  ASSERT_TRUE(one) << one.error().context;
  ASSERT_EQ(one->roles.size(), 1u);
  EXPECT_EQ(one->roles[0].name, "chief");
  const auto range =
      make_spec({.argv = {"t"}, .framework = "tensorflow", .workers = "2..5"}, world());
  ASSERT_TRUE(range) << range.error().context;
  EXPECT_EQ(role_of(*range, "worker")->count_min, 1u);
  EXPECT_EQ(role_of(*range, "worker")->count_max, 4u);
  EXPECT_THAT(error_of({.argv = {"t"}, .framework = "tensorflow", .workers = "1..5"}),
              HasSubstr("a range begins at 2"));
  EXPECT_THAT(error_of({.argv = {"t"}, .framework = "tensorflow", .workers = "many"}),
              HasSubstr("'many' is not a count"));
}

TEST(SpecFromFlags, ServersOfAFrameworkAreProcessesAndThoseThatHaveNoneSaySo) {
  const auto mxnet =
      make_spec({.argv = {"t"}, .framework = "mxnet", .workers = "2", .shards = 1}, world());
  ASSERT_TRUE(mxnet) << mxnet.error().context;
  ASSERT_EQ(mxnet->roles.size(), 3u);
  EXPECT_NE(role_of(*mxnet, "scheduler"), nullptr);
  EXPECT_EQ(role_of(*mxnet, "server")->program, cluster::RoleProgram::kProcess);
  const auto generic =
      make_spec({.argv = {"t"}, .framework = "generic", .workers = "2", .shards = 1}, world());
  ASSERT_TRUE(generic) << generic.error().context;
  EXPECT_EQ(role_of(*generic, "ps")->end, cluster::EndRule::kServes);
  EXPECT_EQ(role_of(*generic, "worker")->end, cluster::EndRule::kByKind);
  EXPECT_THAT(error_of({.argv = {"t"}, .framework = "pytorch", .shards = 1}),
              HasSubstr("pytorch has no servers"));
  EXPECT_EQ(error_of({.argv = {"t"}, .framework = "pytroch"}),
            "--as pytroch: did you mean 'pytorch'?");
  EXPECT_THAT(error_of({.argv = {"t"}, .framework = "fortran"}), HasSubstr("one of tensorflow,"));
  EXPECT_THAT(error_of({.framework = "mpi", .file = "job.toml"}), HasSubstr("--as"));
}

TEST(SpecFromFlags, AShellLineIsExplicit) {
  const auto spec = make_spec({.argv = {"echo", "a", "|", "cat"}, .shell = true}, world());
  EXPECT_THAT(spec->roles[0].argv, ElementsAre("/bin/sh", "-c", "echo a | cat"));
}

TEST(SpecFromFlags, FlagsChangeAJobFileWhereThatMakesSense) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("spec_test_" + std::to_string(::getpid()) + ".toml");
  std::ofstream(path) << "project='p'\n[role.main]\nargv=['a']\nenv={A='1',B='2'}\n";
  const auto spec =
      make_spec({.file = path, .env = {"A=9"}, .name = "other", .time_limit = "5s"}, world());
  const auto plain = make_spec({.file = path}, world());
  const std::string refused = error_of({.file = path, .workers = "2", .workers_given = true});
  std::filesystem::remove(path);
  ASSERT_TRUE(spec) << spec.error().context;
  EXPECT_EQ(spec->name, "other");
  EXPECT_EQ(spec->project, "p");
  EXPECT_EQ(spec->time_limit, 5s);
  EXPECT_THAT(spec->roles[0].env, ElementsAre(Pair("B", "2"), Pair("A", "9")));
  EXPECT_THAT(plain->name, testing::StartsWith("spec_test_"));
  EXPECT_THAT(refused, HasSubstr("job file"));
}

TEST(DefaultName, IsTheScriptOrTheProgram) {
  EXPECT_EQ(default_name({"python3", "-u", "dir/train.py", "x"}), "train.py");
  EXPECT_EQ(default_name({"/usr/bin/true"}), "true");
  EXPECT_EQ(default_name({"sh", "-c", "echo a; exit 3"}), "sh");
  EXPECT_EQ(default_name({"./we ird\n"}), "we-ird-");
  EXPECT_EQ(default_name({"--"}), "main");
  EXPECT_EQ(default_name({}), "main");
}

}  // namespace
}  // namespace dlrun::launcher
