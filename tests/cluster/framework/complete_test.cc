#include "runtime/cluster/core/framework/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cluster/core/end_rules.h"
#include "tests/cluster/framework/gang.h"

namespace dlrun::cluster::framework {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string problem_of(JobSpec spec) {
  const std::vector<SpecProblem> problems = complete(spec);
  return problems.empty() ? "" : to_string(problems[0], spec);
}

const RoleSpec& role_in(const JobSpec& spec, const std::string& name) {
  for (const RoleSpec& role : spec.roles)
    if (role.name == name) return role;
  ADD_FAILURE() << "no role " << name;
  return spec.roles.at(0);
}

TEST(Complete, EachRoleGetsThePortsAndTheEndRuleOfItsFramework) {
  struct Row {
    const char *framework, *role;
    EndRule end;
  };
  const Row kRows[] = {
      {"tensorflow", "chief", EndRule::kDecides}, {"tensorflow", "worker", EndRule::kAll},
      {"tensorflow", "ps", EndRule::kServes},     {"tensorflow", "evaluator", EndRule::kIgnored},
      {"pytorch", "worker", EndRule::kAll},       {"xgboost", "worker", EndRule::kAll},
      {"xgboost", "tracker", EndRule::kServes},   {"mxnet", "worker", EndRule::kAll},
      {"mxnet", "server", EndRule::kServes},      {"mxnet", "scheduler", EndRule::kServes},
      {"pslite", "server", EndRule::kServes},     {"dmlc", "server", EndRule::kServes},
      {"lightgbm", "worker", EndRule::kAll},      {"mpi", "worker", EndRule::kAll},
      {"jax", "worker", EndRule::kAll},
  };
  for (const Row& row : kRows) {
    const Adapter& adapter = *find(row.framework);
    std::vector<std::pair<std::string, std::uint32_t>> roles;
    for (const RoleRow& known : adapter.roles)
      if (known.extra == Extra::kNo) roles.emplace_back(known.role, 1);
    JobSpec spec = job_of(row.framework, roles);
    EXPECT_THAT(complete(spec), IsEmpty()) << row.framework;
    EXPECT_EQ(role_in(spec, row.role).end, row.end) << row.framework << ' ' << row.role;
    EXPECT_GE(role_in(spec, row.role).resources.ports, 1) << row.framework << ' ' << row.role;
    EXPECT_TRUE(can_be_done(spec));
  }
}

TEST(Complete, DoingItAgainChangesNothing) {
  for (const Adapter& adapter : adapters())
    for (const bool servers : {false, true}) {
      std::vector<std::pair<std::string, std::uint32_t>> roles = {{"worker", 2}};
      if (servers && !adapter.servers.empty()) roles.emplace_back(adapter.servers, 2);
      JobSpec once = job_of(std::string(adapter.name), roles);
      EXPECT_THAT(complete(once), IsEmpty()) << adapter.name;
      JobSpec twice = once;
      EXPECT_THAT(complete(twice), IsEmpty()) << adapter.name;
      EXPECT_EQ(twice, once) << adapter.name;
    }
}

TEST(Complete, WhatTheJobSaysItselfStays) {
  JobSpec spec = job_of("tensorflow", {{"chief", 1}, {"worker", 2}, {"ps", 1}});
  spec.roles[0].end = EndRule::kAll;
  spec.roles[0].resources.ports = 3;
  spec.roles[2].linger = seconds(7);
  EXPECT_THAT(complete(spec), IsEmpty());
  EXPECT_EQ(spec.roles[0].end, EndRule::kAll);
  EXPECT_EQ(spec.roles[0].resources.ports, 3);
  EXPECT_EQ(spec.roles[2].end, EndRule::kServes);
  EXPECT_EQ(spec.roles[2].linger, seconds(7));
  EXPECT_THAT(spec.roles[1].after, ElementsAre("ps"));

  JobSpec ordered = job_of("tensorflow", {{"worker", 2}, {"ps", 1}});
  ordered.roles[1].after = {"worker"};
  EXPECT_THAT(complete(ordered), IsEmpty());
  EXPECT_THAT(ordered.roles[0].after, IsEmpty()) << "an order of the job's own: no circle";

  JobSpec own = job_of("mxnet", {{"worker", 2}, {"server", 1}, {"scheduler", 1}});
  own.roles[2].argv = {"my-scheduler"};
  EXPECT_THAT(complete(own), IsEmpty());
  EXPECT_EQ(own.roles.size(), 3u);
  EXPECT_THAT(own.roles[2].argv, ElementsAre("my-scheduler"));
}

TEST(Complete, AnExtraTaskRunsWhereAndAsTheWorkersDoAndAsksForLittle) {
  JobSpec spec = job_of("pslite", {{"worker", 2}, {"server", 1}});
  spec.roles[0].env = {{"A", "1"}};
  spec.roles[0].cwd = "/data";
  spec.roles[0].require = {{"disk", "ssd"}};
  spec.roles[0].resources.gpus = 2;
  EXPECT_THAT(complete(spec), IsEmpty());
  const RoleSpec& scheduler = role_in(spec, "scheduler");
  EXPECT_EQ(scheduler.argv, spec.roles[0].argv);
  EXPECT_EQ(scheduler.env, spec.roles[0].env);
  EXPECT_EQ(scheduler.cwd, "/data");
  EXPECT_EQ(scheduler.require, spec.roles[0].require);
  EXPECT_EQ(scheduler.resources.gpus, 0);
  EXPECT_EQ(scheduler.resources.cpu_milli, 100);
  EXPECT_EQ(scheduler.count_max, 1u);
  EXPECT_THAT(spec.roles[0].after, ElementsAre("scheduler", "server"));
  EXPECT_THAT(spec.roles[1].after, ElementsAre("scheduler"));
}

TEST(Complete, RefusesWhatDoesNotGoTogetherAndNamesIt) {
  EXPECT_THAT(problem_of(job_of("tensorfow", {{"worker", 1}})), HasSubstr("tensorflow, pytorch"));
  EXPECT_THAT(problem_of(job_of("tensorflow", {{"chef", 1}, {"worker", 1}})),
              HasSubstr("role 'chef': tensorflow knows the roles chief, worker, ps, evaluator"));
  EXPECT_THAT(problem_of(job_of("tensorflow", {{"chief", 2}, {"worker", 1}})),
              HasSubstr("role 'chief': count: tensorflow has at most 1"));
  EXPECT_THAT(problem_of(job_of("tensorflow", {{"ps", 1}, {"evaluator", 1}})),
              HasSubstr("needs a role 'worker'"));
  EXPECT_THAT(problem_of(job_of("lightgbm", {{"worker", 2601}})), HasSubstr("may have 2600"));
  EXPECT_EQ(problem_of(job_of("tensorflow", {{"chief", 1}})), "") << "a chief alone trains";
  EXPECT_EQ(problem_of(job_of("generic", {{"anything", 3}})), "");
  EXPECT_EQ(problem_of(job_of("", {{"chef", 3}})), "");
}

TEST(Complete, ARoleThatIsNoneOfTheFrameworksMayBeAServiceOrSayHowItEnds) {
  JobSpec spec = job_of("pytorch", {{"worker", 2}, {"board", 1}, {"judge", 1}});
  spec.roles[1].kind = RoleKind::kService;
  spec.roles[2].end = EndRule::kIgnored;
  EXPECT_THAT(complete(spec), IsEmpty());
  EXPECT_EQ(end_rule_of(spec, spec.roles[1]), EndRule::kOutlives);
  EXPECT_EQ(spec.roles[1].resources.ports, 0);
}

}  // namespace
}  // namespace dlrun::cluster::framework
