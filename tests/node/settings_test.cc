#include "runtime/node/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/node/agent_settings.h"
#include "runtime/node/coordinator_settings.h"

namespace dlrun::node {
namespace {

using testing::HasSubstr;

std::string wrong(const std::vector<std::string>& args) {
  CoordinatorFlags flags;
  const Status ok = parse_settings(coordinator_settings(flags), args);
  EXPECT_FALSE(ok.has_value());
  return ok ? "" : ok.error().context;
}

TEST(Settings, ThePageInTheDocsIsTheTable) {
  const std::string path = std::string(std::getenv("DLRUN_SOURCE_DIR")) + "/docs/settings.md";
  if (std::getenv("DLRUN_WRITE") != nullptr) std::ofstream(path) << settings_document();
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, settings_document()) << "run this test with DLRUN_WRITE=1";
}

TEST(Settings, AreReadInBothSpellingsAndKeepTheirDefaults) {
  CoordinatorFlags flags;
  ASSERT_TRUE(parse_settings(coordinator_settings(flags),
                             {"--data", "/d", "--heartbeat-ms=50", "--rest-host", "a",
                              "--rest-host", "b", "--log-job-bytes", "2GiB"}));
  EXPECT_EQ(flags.data, "/d");
  EXPECT_EQ(flags.heartbeat_ms, 50);
  EXPECT_EQ(flags.rest_hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(flags.log_job_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(flags.lost_ms, CoordinatorFlags{}.lost_ms);
  AgentFlags agent;
  ASSERT_TRUE(parse_settings(agent_settings(agent),
                             {"--data", "/d", "--labels", "zone=a,disk=ssd", "--labels",
                              "x=", "--cpus", "2.5", "--tasks-as-root", "--gpus", "none"}));
  EXPECT_EQ(agent.labels.size(), 3u);
  EXPECT_EQ(agent.labels["disk"], "ssd");
  EXPECT_EQ(agent.cpus, 2.5);
  EXPECT_TRUE(agent.tasks_as_root);
  EXPECT_EQ(agent.gpus, "none");
}

TEST(Settings, AWrongOneIsNamedWithItsBounds) {
  EXPECT_EQ(wrong({"--data", "/d", "--heartbeat-ms", "5"}),
            "--heartbeat-ms must be 20 to 60000 ms, not \"5\"");
  EXPECT_EQ(wrong({"--data", "/d", "--port", "70000"}), "--port must be 0 to 65535, not \"70000\"");
  EXPECT_EQ(wrong({"--data", "/d", "--log-total-bytes", "0"}),
            "--log-total-bytes must be 1.0 MiB to 1.0 PiB, not \"0\"");
  EXPECT_EQ(wrong({"--data", "/d", "--log-job-bytes", "2251799813685248"}),
            "--log-job-bytes must be 1.0 MiB to 1.0 PiB, not \"2251799813685248\"");
  EXPECT_EQ(wrong({"--data", "/d", "--heartbeat-ms", "1e3"}),
            "--heartbeat-ms must be 20 to 60000 ms, not \"1e3\"");
  EXPECT_EQ(wrong({"--data", "/d", "--lost-sm", "5"}),
            "unknown setting --lost-sm; did you mean --lost-ms?");
  EXPECT_EQ(wrong({"--data", "/d", "--data", "/e"}), "--data is given twice");
  EXPECT_EQ(wrong({"--data"}), "--data wants a value");
  EXPECT_THAT(wrong({}), HasSubstr("--data is required"));
  EXPECT_THAT(wrong({"--data", "/d", "stray"}), HasSubstr("stray"));
  AgentFlags agent;
  for (const auto& [value, said] :
       {std::pair<const char*, const char*>{"--gpus=some", "--gpus must be one of auto, none"},
        {"--labels=x", "--labels must be key=value"},
        {"--tasks-as-root=1", "takes no value"},
        {"--memory=much", "--memory"}})
    EXPECT_THAT(parse_settings(agent_settings(agent), {"--data=/d", value}).error().context,
                HasSubstr(said));
}

TEST(Settings, AnAddressIsLiteralAndAPortEndsAt65535) {
  for (const char* bad :
       {"127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1", "127.0.0.1:", ":80", "localhost:80",
        "127.0.0.1:80x", "[::1:80", "foo", "::1:7443", "[127.0.0.1]:7443", "127.0.0.1: 1", ""})
    EXPECT_THAT(wrong({"--data=/d", std::string("--rest=") + bad}),
                HasSubstr("--rest must be ADDRESS:PORT"))
        << bad;
  for (const char* bad : {"nohost", "", "1.2.3", "1.2.3.4:5", "[::1]"})
    EXPECT_THAT(wrong({"--data=/d", std::string("--listen=") + bad}),
                HasSubstr("--listen must be a literal address"))
        << bad;
  CoordinatorFlags flags;
  for (const char* good : {"--listen=fd00::1", "--listen=0.0.0.0", "--listen=fe80::1%eth0",
                           "--rest=[fd00::1]:7443", "--rest=0.0.0.0:65535"})
    EXPECT_TRUE(parse_settings(coordinator_settings(flags), {"--data=/d", good})) << good;
  const auto rest = parse_endpoint("[fd00::1]:7443");
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->address, "fd00::1");
  EXPECT_EQ(rest->port, 7443);
}

TEST(Settings, ThoseThatContradictEachOtherAreBothNamed) {
  EXPECT_TRUE(check_coordinator_flags({}));
  EXPECT_EQ(check_coordinator_flags({.heartbeat_ms = 2000, .suspect_ms = 1000}).error().context,
            "--suspect-ms (1000) must be above --heartbeat-ms (2000)");
  EXPECT_EQ(check_coordinator_flags({.suspect_ms = 10'000, .lost_ms = 500}).error().context,
            "--lost-ms (500) must be above --suspect-ms (10000)");
}

TEST(Settings, HelpTellsDefaultUnitAndBounds) {
  CoordinatorFlags flags;
  const std::string help =
      settings_help("dlrun coordinator", "Purpose.", coordinator_settings(flags),
                    "  dlrun coordinator --data x\n");
  EXPECT_THAT(help, HasSubstr("\nExamples:\n  dlrun coordinator --data x\n"));
  EXPECT_THAT(help, HasSubstr("--heartbeat-ms MS"));
  EXPECT_THAT(help, HasSubstr("(20 to 60000 ms; default 2000)"));
  EXPECT_THAT(help, HasSubstr("(required)"));
}

TEST(Settings, EveryRowHasATextAndANameOfItsOwn) {
  CoordinatorFlags coordinator;
  AgentFlags agent;
  for (const auto& table : {coordinator_settings(coordinator), agent_settings(agent)})
    for (std::size_t i = 0; i < table.size(); ++i) {
      EXPECT_FALSE(table[i].text.empty()) << table[i].name;
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(table[i].name, table[j].name);
    }
}

}  // namespace
}  // namespace dlrun::node
