/// The framework of a job file, and the end rules of its roles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "tests/jobspec/problem.h"

namespace dlrun::jobspec {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(JobFileFramework, AFrameworkCompletesTheJobAndItsJsonMeansTheSameAgain) {
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

TEST(JobFileFramework, ReadsTheEndRulesOfRoles) {
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

TEST(JobFileFramework, NamesThePlaceOfWhatDoesNotGoWithAFrameworkOrAnEndRule) {
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

}  // namespace
}  // namespace dlrun::jobspec
