#include "runtime/cluster/core/spec_check.h"

#include <set>

#include "runtime/cluster/core/job_record.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

struct Case {
  const char* place;
  void (*spoil)(JobSpec&);
};

/// A good input of one file.
io::InputSpec& input(JobSpec& spec, io::Mode mode) {
  spec.inputs.resize(1);
  spec.inputs[0].name = "x";
  spec.inputs[0].uris = {"/a"};
  spec.inputs[0].mode = mode;
  return spec.inputs[0];
}

TEST(SpecCheck, NamesTheFieldThatIsWrong) {
  const Case cases[] = {
      {"name", [](JobSpec& s) { s.name = "Bad Name"; }},
      {"name", [](JobSpec& s) { s.name = ""; }},
      {"owner", [](JobSpec& s) { s.owner = ""; }},
      {"role", [](JobSpec& s) { s.roles.clear(); }},
      {"project", [](JobSpec& s) { s.project = "a\nb"; }},
      {"role '-x'", [](JobSpec& s) { s.roles[0].name = "-x"; }},
      {"role 'Worker'", [](JobSpec& s) { s.roles[0].name = "Worker"; }},
      {"role 'worker'", [](JobSpec& s) { s.roles.push_back(s.roles[0]); }},
      {"role 'worker': argv", [](JobSpec& s) { s.roles[0].argv.clear(); }},
      {"role 'worker': argv",
       [](JobSpec& s) {
         s.roles[0].argv = {"x", std::string(1 << 17, 'y')};
       }},
      {"role 'worker': argv",
       [](JobSpec& s) {
         s.roles[0].argv = {"", "x"};
       }},
      {"role 'worker': argv",
       [](JobSpec& s) {
         s.roles[0].argv = {"x", std::string("a\0b", 3)};
       }},
      {"role 'worker': count", [](JobSpec& s) { s.roles[0].count_min = 0; }},
      {"role 'worker': count", [](JobSpec& s) { s.roles[0].count_min = 5; }},
      {"role", [](JobSpec& s) { s.roles[0].count_max = 1'000'000; }},
      {"role",
       [](JobSpec& s) { s.roles[0].argv.clear(), s.roles[0].program = RoleProgram::kShardHost; }},
      {"role 'worker': env",
       [](JobSpec& s) {
         s.roles[0].env = {{"A=B", "c"}};
       }},
      {"role 'worker': env",
       [](JobSpec& s) {
         s.roles[0].env = {{"A", "b"}, {"B", ""}, {"A", "c"}};
       }},
      {"role 'worker': env",
       [](JobSpec& s) {
         s.roles[0].env = {{"A\xff", "c"}};
       }},
      {"role 'worker': env",
       [](JobSpec& s) {
         s.roles[0].env = {{"", "c"}};
       }},
      {"submit_env",
       [](JobSpec& s) {
         s.submit_env = {{"A", "b"}, {"B", std::string("\0", 1)}};
       }},
      {"role 'worker': cpus", [](JobSpec& s) { s.roles[0].resources.cpu_milli = -1; }},
      {"role 'worker': ready",
       [](JobSpec& s) { s.roles[0].ready = ReadyWhen::kPort, s.roles[0].resources.ports = 0; }},
      {"role 'worker': after", [](JobSpec& s) { s.roles[0].after = {"nobody"}; }},
      {"role 'worker': after", [](JobSpec& s) { s.roles[0].after = {"worker"}; }},
      {"time_limit", [](JobSpec& s) { s.time_limit = Duration{-1}; }},
      {"framework", [](JobSpec& s) { s.framework = "chainer"; }},
      {"role", [](JobSpec& s) { s.roles[0].end = EndRule::kIgnored; }},
      {"role 'worker': quorum", [](JobSpec& s) { s.roles[0].quorum = 1; }},
      {"role 'worker': quorum",
       [](JobSpec& s) { s.roles[0].end = EndRule::kQuorum, s.roles[0].quorum = 3; }},
      {"role 'worker': failures", [](JobSpec& s) { s.roles[0].failures_permille = 1; }},
      {"role 'worker': failures",
       [](JobSpec& s) {
         s.roles[0].end = EndRule::kTolerant, s.roles[0].failures_permille = 1001;
       }},
      {"role 'worker': linger", [](JobSpec& s) { s.roles[0].linger = Duration{-1}; }},
      {"input 'x': uris", [](JobSpec& s) { s.inputs.resize(1), s.inputs[0].name = "x"; }},
      {"input 'x': columns",
       [](JobSpec& s) {
         s.inputs = {{.name = "x", .uris = {"/d"}, .format = io::Format::kTable}};
         s.inputs[0].columns = {{.name = "a", .width = 0}};
       }},
      {"input 'x': delimiter",
       [](JobSpec& s) {
         s.inputs = {{.name = "x", .uris = {"/d"}, .format = io::Format::kCsv, .delimiter = '\r'}};
       }},
      {"input 'x': passes",
       [](JobSpec& s) { s.inputs = {{.name = "x", .uris = {"/d"}, .passes = 2'000'000'000}}; }},
      {"input 'x': lanes", [](JobSpec& s) { input(s, io::Mode::kDeterministic).lanes = 0; }},
      {"input 'x': weights", [](JobSpec& s) { input(s, io::Mode::kStatic).weights = {1}; }},
      {"output 'm': path",
       [](JobSpec& s) {
         s.outputs = {{"m", "relative", "worker"}};
       }},
      {"output 'n': path",
       [](JobSpec& s) {
         s.outputs = {{"m", "/x", "worker"}, {"n", "/x", "worker"}};
       }},
      {"output 'm': role",
       [](JobSpec& s) {
         s.outputs = {{"m", "/x", "nobody"}};
       }},
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
  ASSERT_FALSE(validate(spec).has_value());
  EXPECT_EQ(validate(spec).error().context,
            "role 'c': after: goes in a circle: worker, b, c, worker");
}

TEST(SpecCheck, TellsEverythingThatIsWrongUpToABoundAndEachOnce) {
  JobSpec spec = spec_of(2, 1);
  spec.name = "my job";
  spec.roles[0].after = {"nobody"};
  spec.roles[1].ready = ReadyWhen::kPort;
  spec.roles[1].resources.ports = 0;
  std::vector<std::string> told;
  for (const SpecProblem& problem : problems_of(spec)) told.push_back(to_string(problem, spec));
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(
      told[0],
      "name: must be 1 to 64 of A-Z a-z 0-9 . _ - and not begin with '-' or '.', not 'my job'");
  spec.roles.clear();
  for (int i = 0; i < 100; ++i) spec.roles.push_back({.name = "r" + std::to_string(i)});
  EXPECT_EQ(problems_of(spec).size(), kSpecProblemsMax);
}

TEST(SpecCheck, WhoFillsInTheNameAndTheOwnerIsTold) {
  JobSpec spec = spec_of(1);
  spec.name = spec.owner = "";
  EXPECT_TRUE(problems_of(spec).empty()) << "dlrun's command line fills them in";
  ASSERT_FALSE(validate(spec).has_value());
  EXPECT_NE(validate(spec).error().context.find("a job sent to REST needs one"), std::string::npos);
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
  other = base;
  other.framework = "jax";
  EXPECT_NE(fingerprint(base), fingerprint(other));
  other = base;
  other.roles[1].linger = seconds(0);
  EXPECT_NE(fingerprint(base), fingerprint(other));
  other = base;
  other.roles[1].end = EndRule::kQuorum;
  EXPECT_NE(fingerprint(base), fingerprint(other));
  JobSpec quorum = other;
  quorum.roles[1].quorum = 1;
  EXPECT_NE(fingerprint(other), fingerprint(quorum));
  // Of an input's order and shares; what a dynamic one had before there were modes stays the same.
  JobSpec ordered = base;
  (void)input(ordered, io::Mode::kDeterministic);
  std::set<std::uint64_t> seen{fingerprint(ordered)};
  const auto differs = [&](auto change) {
    JobSpec changed = ordered;
    change(changed.inputs[0]);
    EXPECT_TRUE(seen.insert(fingerprint(changed)).second);
  };
  differs([](io::InputSpec& i) { i.mode = io::Mode::kStatic; });
  differs([](io::InputSpec& i) { i.mode = io::Mode::kDynamic; });
  differs([](io::InputSpec& i) { i.static_by = io::StaticBy::kBytes; });
  differs([](io::InputSpec& i) { i.lanes = 12; });
  differs([](io::InputSpec& i) { i.ends = io::Ends::kDrop; });
  differs([](io::InputSpec& i) { i.skip_batches = 1; });
  differs([](io::InputSpec& i) { i.take_batches = 1; });
  differs([](io::InputSpec& i) { i.weights = {2}; });
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
