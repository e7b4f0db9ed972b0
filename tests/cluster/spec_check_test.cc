#include "runtime/cluster/core/spec_check.h"

#include "runtime/cluster/core/job_record.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

struct Case {
  const char* place;
  void (*spoil)(JobSpec&);
};

TEST(SpecCheck, NamesTheFieldThatIsWrong) {
  const Case cases[] = {
      {"name", [](JobSpec& s) { s.name = "Bad Name"; }},
      {"name", [](JobSpec& s) { s.name = ""; }},
      {"owner", [](JobSpec& s) { s.owner = ""; }},
      {"roles", [](JobSpec& s) { s.roles.clear(); }},
      {"roles[0].name", [](JobSpec& s) { s.roles[0].name = "-x"; }},
      {"roles[1].name", [](JobSpec& s) { s.roles.push_back(s.roles[0]); }},
      {"roles[0].argv", [](JobSpec& s) { s.roles[0].argv.clear(); }},
      {"roles[0].argv[0]",
       [](JobSpec& s) {
         s.roles[0].argv = {"", "x"};
       }},
      {"roles[0].argv[1]",
       [](JobSpec& s) {
         s.roles[0].argv = {"x", std::string("a\0b", 3)};
       }},
      {"roles[0].count", [](JobSpec& s) { s.roles[0].count_min = 0; }},
      {"roles[0].count", [](JobSpec& s) { s.roles[0].count_min = 5; }},
      {"roles", [](JobSpec& s) { s.roles[0].count_max = 1'000'000; }},
      {"roles[0].env[0]",
       [](JobSpec& s) {
         s.roles[0].env = {{"A=B", "c"}};
       }},
      {"roles[0].env[0]",
       [](JobSpec& s) {
         s.roles[0].env = {{"", "c"}};
       }},
      {"submit_env[1]",
       [](JobSpec& s) {
         s.submit_env = {{"A", "b"}, {"B", std::string("\0", 1)}};
       }},
      {"roles[0].resources.cpu", [](JobSpec& s) { s.roles[0].resources.cpu_milli = -1; }},
      {"role 'worker'.after", [](JobSpec& s) { s.roles[0].after = {"nobody"}; }},
      {"role 'worker'.after", [](JobSpec& s) { s.roles[0].after = {"worker"}; }},
      {"time_limit", [](JobSpec& s) { s.time_limit = Duration{-1}; }},
      {"inputs[0].uris", [](JobSpec& s) { s.inputs.resize(1), s.inputs[0].name = "x"; }},
  };
  for (const Case& c : cases) {
    JobSpec spec = spec_of(2);
    c.spoil(spec);
    const Status status = validate(spec);
    ASSERT_FALSE(status.has_value()) << c.place;
    EXPECT_EQ(status.error().code, Errc::kInvalidArgument);
    EXPECT_EQ(status.error().context.rfind(std::string(c.place) + ":", 0), 0u)
        << status.error().context;
  }
}

TEST(SpecCheck, TakesWhatIsUnusualButRight) {
  JobSpec spec = spec_of(2, 1);
  spec.roles[1].argv = {"sh", "-c", "", "\xff\xfe"};
  spec.roles[1].env = {{"A", "x=y|z\n\xff"}, {"EMPTY", ""}};
  EXPECT_TRUE(validate(spec).has_value());
}

TEST(SpecCheck, ALongerCycleIsFound) {
  JobSpec spec = spec_of(1);
  spec.roles.push_back(spec.roles[0]);
  spec.roles.push_back(spec.roles[0]);
  spec.roles[1].name = "b";
  spec.roles[2].name = "c";
  spec.roles[0].after = {"b"};
  spec.roles[1].after = {"c"};
  spec.roles[2].after = {"worker"};
  EXPECT_FALSE(validate(spec).has_value());
}

TEST(JobRecord, TheFingerprintSeesEveryField) {
  const JobSpec base = spec_of(2, 1);
  JobSpec other = base;
  EXPECT_EQ(fingerprint(base), fingerprint(other));
  other.roles[1].env = {{"A", "B"}};
  EXPECT_NE(fingerprint(base), fingerprint(other));
  other = base;
  other.roles[1].argv = {"trai", "n"};
  EXPECT_NE(fingerprint(base), fingerprint(other));
  other = base;
  other.time_limit = seconds(1);
  EXPECT_NE(fingerprint(base), fingerprint(other));
  other = base;
  other.roles[1].time_limit = seconds(1);
  EXPECT_NE(fingerprint(base), fingerprint(other));
  other = base;
  other.roles[1].rlimits = {{"core", 0}};
  EXPECT_NE(fingerprint(base), fingerprint(other));
  other = base;
  other.roles[1].restart_on.emplace();
  EXPECT_NE(fingerprint(base), fingerprint(other));
}

TEST(JobRecord, AGangOfARangeSpreadsItsShare) {
  JobSpec spec = spec_of(2);
  spec.roles[0].count_max = 6;
  EXPECT_EQ(gang_of(spec, JobId{1}, Generation{1}, {}, 0.0).tasks.size(), 2u);
  EXPECT_EQ(gang_of(spec, JobId{1}, Generation{1}, {}, 0.5).tasks.size(), 4u);
  EXPECT_EQ(gang_of(spec, JobId{1}, Generation{1}, {}, 1.0).tasks.size(), 6u);
  EXPECT_EQ(gang_of(spec, JobId{1}, Generation{1}, {}, 1.0).tasks[0].need.ports, 1);
}

}  // namespace
}  // namespace dlrun::cluster
