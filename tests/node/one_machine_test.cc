// The program as its user has it on one machine: a cluster for the length of a job, and one that
// stays, with real daemons.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/node/process.h"

namespace dlrun::node {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class OneMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/dlrun-one-XXXXXX";
    home_ = ::mkdtemp(pattern.data());
    ::setenv("DLRUN_HOME", home_.c_str(), 1);
  }
  void TearDown() override {
    dlrun({"down"});
    EXPECT_TRUE(nothing_left()) << "a process is left";
    ::unsetenv("DLRUN_HOME");
    fs::remove_all(home_);
  }
  /// Its code, and stdout and stderr together.
  std::pair<int, std::string> dlrun(std::vector<std::string> args) {
    args.insert(args.begin(), dlrun_binary());
    Process process(args, home_ + "/said" + std::to_string(++runs_));
    const int code = process.wait(std::chrono::seconds(90));
    return {code, process.log()};
  }
  /// No process names our folder in its command line.
  bool nothing_left() {
    const SystemClock clock;
    for (const TimePoint until = clock.now() + std::chrono::seconds(20); clock.now() < until;) {
      bool found = false;
      for (const auto& entry : fs::directory_iterator("/proc")) {
        std::ifstream file(entry.path() / "cmdline", std::ios::binary);
        std::stringstream line;
        line << file.rdbuf();
        found = found || line.str().find(home_) != std::string::npos;
      }
      if (!found) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  std::string home_;
  int runs_ = 0;
};

TEST_F(OneMachine, ARunWithoutAClusterLeavesNothingRunningAndIsStillAnsweredFor) {
  const auto [code, said] = dlrun({"run", "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(code, 7) << said;
  EXPECT_THAT(said, HasSubstr("no cluster is configured: bringing up one on this machine"));
  EXPECT_THAT(said, HasSubstr("out\n"));
  EXPECT_THAT(said, HasSubstr("err\n"));
  EXPECT_TRUE(nothing_left());

  EXPECT_THAT(dlrun({"list"}).second, HasSubstr("FAILED"));
  EXPECT_THAT(dlrun({"show", "j1"}).second, HasSubstr("exit 7"));
  EXPECT_EQ(dlrun({"logs", "--stdout", "j1"}), std::make_pair(0, std::string("out\n")));
  EXPECT_EQ(dlrun({"logs", "--stderr", "j1"}), std::make_pair(0, std::string("err\n")));
  EXPECT_TRUE(nothing_left());
}

TEST_F(OneMachine, NodesOfUpHaveFoldersCpusAndPortsOfTheirOwn) {
  const auto [code, said] = dlrun({"up", "--nodes", "2", "--cpus", "2"});
  ASSERT_EQ(code, 0) << said;
  EXPECT_THAT(said, HasSubstr("dlrun agent --join "));
  const json nodes = json::parse(dlrun({"nodes", "--json"}).second, nullptr, false);
  ASSERT_TRUE(nodes.is_object());
  ASSERT_EQ(nodes.at("nodes").size(), 2u);
  for (const json& node : nodes.at("nodes")) EXPECT_EQ(node.at("capacity").at("cpus"), 2);
  for (const char* name : {"node-0", "node-1"}) EXPECT_TRUE(fs::exists(home_ + "/local/" + name));

  // Two cores each, so one on each node.
  const auto [ran, lines] = dlrun(
      {"run", "-q", "-n", "2", "--cpus", "2", "--", "/bin/sh", "-c", "echo port $DLRUN_PORTS"});
  EXPECT_EQ(ran, 0) << lines;
  std::set<std::string> ports;
  std::istringstream words(lines);
  for (std::string line; std::getline(words, line);) ports.insert(line.substr(line.rfind(' ')));
  EXPECT_EQ(ports.size(), 2u) << lines;
  const json job = json::parse(dlrun({"show", "--json", "j1"}).second, nullptr, false);
  ASSERT_TRUE(job.is_object());
  EXPECT_NE(job.at("tasks").at(0).at("node"), job.at("tasks").at(1).at("node"));

  EXPECT_EQ(dlrun({"down"}).first, 0);
  EXPECT_TRUE(nothing_left());
}

}  // namespace
}  // namespace dlrun::node
