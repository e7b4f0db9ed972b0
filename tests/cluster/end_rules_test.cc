// One test for each row of the table of end rules, and what holds for all of them.
#include "runtime/cluster/core/end_rules.h"

#include <gtest/gtest.h>

#include <set>

namespace dlrun::cluster {
namespace {

using std::chrono::seconds;

struct Part {
  std::string name;
  EndRule end = EndRule::kByKind;
  std::uint32_t tasks = 1;
};

JobSpec spec_with(const std::vector<Part>& parts) {
  JobSpec spec;
  spec.name = spec.owner = "ann";
  for (const Part& part : parts) {
    RoleSpec role;
    role.name = part.name;
    role.end = part.end;
    role.argv = {"train"};
    role.count_min = role.count_max = part.tasks;
    spec.roles.push_back(role);
  }
  return spec;
}

EndTally tally_of(const JobSpec& spec) {
  std::vector<std::size_t> tasks;
  for (const RoleSpec& role : spec.roles) tasks.push_back(role.count_max);
  return EndTally(spec, tasks);
}

TEST(EndRules, EveryRuleHasOneRowWithAWordOfItsOwn) {
  std::set<EndRule> rules;
  std::set<std::string_view> words;
  for (const EndRow& row : kEndRows) {
    EXPECT_TRUE(rules.insert(row.rule).second);
    EXPECT_TRUE(words.insert(row.word).second) << row.word;
    EXPECT_EQ(&end_row(row.rule), &row);
  }
  EXPECT_EQ(rules.size(), static_cast<std::size_t>(EndRule::kOutlives));
  EXPECT_EQ(rules.count(EndRule::kByKind), 0u);
}

TEST(EndRules, AllEveryTaskMustEndWellAndAnyFailureFailsTheJob) {
  const JobSpec spec = spec_with({{"worker", EndRule::kAll, 3}});
  EndTally good = tally_of(spec);
  EXPECT_EQ(good.ended(0, 0, true), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 2, true), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 1, true), Outcome::kDone);
  EndTally bad = tally_of(spec);
  EXPECT_EQ(bad.ended(0, 0, true), Outcome::kGoesOn);
  EXPECT_EQ(bad.ended(0, 2, false), Outcome::kFailed);
  EXPECT_EQ(bad.culprit(), 2u);
}

TEST(EndRules, DecidesTheChiefsExitEndsTheJobWhateverTheWorkersDo) {
  const JobSpec spec = spec_with({{"chief", EndRule::kDecides}, {"worker", EndRule::kAll, 2}});
  EndTally first = tally_of(spec);
  EXPECT_EQ(first.ended(0, 0, true), Outcome::kDone);
  EndTally last = tally_of(spec);
  EXPECT_EQ(last.ended(1, 1, true), Outcome::kGoesOn);
  EXPECT_EQ(last.ended(1, 2, true), Outcome::kGoesOn) << "all workers ended: the chief has not";
  EXPECT_EQ(last.ended(0, 0, true), Outcome::kDone);
  EndTally worker = tally_of(spec);
  EXPECT_EQ(worker.ended(1, 2, false), Outcome::kFailed);
  EndTally chief = tally_of(spec);
  EXPECT_EQ(chief.ended(0, 0, false), Outcome::kFailed);
}

TEST(EndRules, QuorumEnoughGoodEndsAreDoneAndFailuresCountWhenItIsOutOfReach) {
  JobSpec spec = spec_with({{"worker", EndRule::kQuorum, 5}});
  spec.roles[0].quorum = 3;
  EndTally good = tally_of(spec);
  EXPECT_EQ(good.ended(0, 0, true), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 1, false), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 2, false), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 3, true), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 4, true), Outcome::kDone);
  EndTally bad = tally_of(spec);
  EXPECT_EQ(bad.ended(0, 4, false), Outcome::kGoesOn);
  EXPECT_EQ(bad.ended(0, 1, false), Outcome::kGoesOn);
  EXPECT_EQ(bad.ended(0, 2, false), Outcome::kFailed);
  EXPECT_EQ(bad.culprit(), 4u) << "the first of those that were too many";
  spec.roles[0].quorum = 9;
  EXPECT_EQ(tally_of(spec).ended(0, 0, false), Outcome::kFailed) << "at most all";
  spec.roles[0].quorum = 0;
  EXPECT_EQ(tally_of(spec).ended(0, 0, false), Outcome::kFailed) << "0 = all";
}

TEST(EndRules, TolerantFailsWhenHalfOfItHasFailedAndIsDoneWhenAllHaveEnded) {
  JobSpec spec = spec_with({{"worker", EndRule::kTolerant, 4}});
  EndTally good = tally_of(spec);
  EXPECT_EQ(good.ended(0, 3, false), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 0, true), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 1, true), Outcome::kGoesOn);
  EXPECT_EQ(good.ended(0, 2, true), Outcome::kDone);
  EndTally bad = tally_of(spec);
  EXPECT_EQ(bad.ended(0, 3, false), Outcome::kGoesOn);
  EXPECT_EQ(bad.ended(0, 1, false), Outcome::kFailed) << "2 of 4 is the half";
  EXPECT_EQ(bad.culprit(), 3u);
  spec.roles[0].count_max = 1;
  EXPECT_EQ(tally_of(spec).ended(0, 0, false), Outcome::kFailed) << "the only one";
  spec.roles[0].count_max = 4;
  spec.roles[0].failures_permille = 1000;
  EndTally all = tally_of(spec);
  EXPECT_EQ(all.ended(0, 0, false), Outcome::kGoesOn);
  EXPECT_EQ(all.ended(0, 1, false), Outcome::kGoesOn);
  EXPECT_EQ(all.ended(0, 2, false), Outcome::kGoesOn);
  EXPECT_EQ(all.ended(0, 3, false), Outcome::kFailed) << "all of them";
}

TEST(EndRules, AwaitedTheJobWaitsForItsEndAndIgnoresItsFailure) {
  const JobSpec spec = spec_with({{"worker", EndRule::kAll}, {"evaluator", EndRule::kAwaited}});
  EndTally tally = tally_of(spec);
  EXPECT_EQ(tally.ended(0, 0, true), Outcome::kGoesOn);
  EXPECT_EQ(tally.ended(1, 1, false), Outcome::kDone);
  EndTally early = tally_of(spec);
  EXPECT_EQ(early.ended(1, 1, false), Outcome::kGoesOn);
  EXPECT_EQ(early.ended(0, 0, true), Outcome::kDone);
}

TEST(EndRules, IgnoredEvaluatorsDoNotCount) {
  const JobSpec spec = spec_with({{"worker", EndRule::kAll}, {"evaluator", EndRule::kIgnored, 2}});
  EndTally tally = tally_of(spec);
  EXPECT_EQ(tally.ended(1, 1, false), Outcome::kGoesOn);
  EXPECT_EQ(tally.ended(1, 2, true), Outcome::kGoesOn);
  EXPECT_EQ(tally.ended(0, 0, true), Outcome::kDone);
  EndTally runs = tally_of(spec);
  EXPECT_EQ(runs.ended(0, 0, true), Outcome::kDone) << "it still runs: nobody waits for it";
}

TEST(EndRules, ServesAServerMayEndWellAtAnyTimeButNotFail) {
  const JobSpec spec = spec_with({{"worker", EndRule::kAll}, {"ps", EndRule::kServes, 2}});
  EndTally tally = tally_of(spec);
  EXPECT_EQ(tally.ended(1, 1, true), Outcome::kGoesOn);
  EXPECT_EQ(tally.ended(0, 0, true), Outcome::kDone);
  EndTally bad = tally_of(spec);
  EXPECT_EQ(bad.ended(1, 2, false), Outcome::kFailed);
  EXPECT_EQ(bad.culprit(), 2u);
}

TEST(EndRules, OutlivesAServiceThatEndsBeforeItsPeersIsAFailure) {
  const JobSpec spec = spec_with({{"worker", EndRule::kAll}, {"board", EndRule::kOutlives}});
  EXPECT_EQ(tally_of(spec).ended(1, 1, true), Outcome::kFailed);
  EXPECT_EQ(tally_of(spec).ended(1, 1, false), Outcome::kFailed);
  EXPECT_EQ(tally_of(spec).ended(0, 0, true), Outcome::kDone);
}

TEST(EndRules, WithoutARuleTheKindOfTheRoleSaysIt) {
  JobSpec spec = spec_with({{"worker"}, {"board"}, {"ps"}});
  spec.roles[1].kind = RoleKind::kService;
  spec.roles[2].program = RoleProgram::kShardHost;
  EXPECT_EQ(end_rule_of(spec, spec.roles[0]), EndRule::kAll);
  EXPECT_EQ(end_rule_of(spec, spec.roles[1]), EndRule::kOutlives);
  EXPECT_EQ(end_rule_of(spec, spec.roles[2]), EndRule::kOutlives);
  spec.roles.erase(spec.roles.begin());
  EXPECT_EQ(end_rule_of(spec, spec.roles[0]), EndRule::kAll) << "services only: they count";
  EXPECT_TRUE(can_be_done(spec));
  spec.roles[0].end = EndRule::kServes;
  EXPECT_FALSE(can_be_done(spec));
}

TEST(EndRules, ARuleFinishesWhenItIsWaitedForAndItsFailuresAreNotIgnored) {
  for (const EndRow& row : kEndRows)
    EXPECT_EQ(row.finishes,
              row.waits != EndRow::Waits::kNothing && row.bad != EndRow::Means::kNothing)
        << row.word;
}

TEST(EndRules, AJobOfNothingButAwaitedRolesCannotBeDone) {
  EXPECT_FALSE(can_be_done(spec_with({{"evaluator", EndRule::kAwaited}})));
}

TEST(EndRules, ARoleLingersAsLongAsItSaysOrItsRuleDoes) {
  JobSpec spec = spec_with({{"worker"}, {"evaluator", EndRule::kIgnored}});
  EXPECT_EQ(linger_of(spec, spec.roles[1]), seconds(60));
  spec.roles[1].linger = seconds(0);
  EXPECT_EQ(linger_of(spec, spec.roles[1]), seconds(0));
  spec.roles[0].kind = RoleKind::kService;
  EXPECT_EQ(linger_of(spec, spec.roles[0]), seconds(0));
}

}  // namespace
}  // namespace dlrun::cluster
