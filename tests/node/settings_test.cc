#include "runtime/node/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <tuple>

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
  for (const char* rest :
       {":70000", "127.0.0.1:70000", "127.0.0.1:abc", "127.0.0.1:-1", "127.0.0.1:", "127.0.0.1",
        ":7443", "localhost:7443", "::1:7443", "[127.0.0.1]:7443", "127.0.0.1: 1", ""})
    EXPECT_EQ(wrong({"--data", "/d", "--rest", rest}),
              "--rest must be ADDRESS:PORT (IPv6: [ADDRESS]:PORT), port 0 to 65535, not \"" +
                  std::string(rest) + "\"");
  EXPECT_EQ(wrong({"--data", "/d", "--listen", "localhost"}),
            "--listen must be a literal IPv4 or IPv6 address, not \"localhost\"");
  EXPECT_EQ(wrong({"--data", "/d", "--log-total-bytes", "0"}),
            "--log-total-bytes must be 1.0 MiB to 1.0 PiB, not \"0\"");
  EXPECT_EQ(wrong({"--data", "/d", "--log-job-bytes", "3EiB"}),
            "--log-job-bytes must be 1.0 MiB to 1.0 PiB, not \"3EiB\"");
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

TEST(Settings, AnAddressAndItsPortAreTakenApart) {
  for (const auto& [text, address, port] :
       {std::tuple<const char*, const char*, int>{"127.0.0.1:0", "127.0.0.1", 0},
        {"0.0.0.0:65535", "0.0.0.0", 65535},
        {"[::1]:7443", "::1", 7443}}) {
    CoordinatorFlags flags;
    EXPECT_TRUE(parse_settings(coordinator_settings(flags), {"--data=/d", "--rest", text})) << text;
    const auto parts = split_address(flags.rest);
    ASSERT_TRUE(parts) << text;
    EXPECT_EQ(parts->address, address);
    EXPECT_EQ(parts->port, port);
  }
}

TEST(Settings, HelpTellsDefaultUnitAndBounds) {
  CoordinatorFlags flags;
  const std::string help =
      settings_help("dlrun coordinator", "Purpose.", coordinator_settings(flags));
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
