// What a daemon says when it cannot start.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/node/process.h"

namespace dlrun::node {
namespace {

struct BadStart : ::testing::Test {
  /// Exit code and what it said.
  std::pair<int, std::string> run(std::vector<std::string> args) {
    args.insert(args.begin(), dlrun_binary());
    const std::string log = cluster / ("run" + std::to_string(++runs) + ".txt");
    Process process(args, log);
    const int code = process.wait(std::chrono::seconds(20));
    return {code, process.log()};
  }
  int runs = 0;
  TestCluster cluster;
};

TEST_F(BadStart, SecondCoordinatorOnTheSameFolderIsRefusedByName) {
  cluster.start_coordinator();
  const auto [code, text] = run({"coordinator", "--data", cluster / "c"});
  EXPECT_EQ(code, 1);
  EXPECT_NE(
      text.find("used by another process (pid " + std::to_string(cluster.coordinator().pid())),
      std::string::npos)
      << text;
}

TEST_F(BadStart, FolderOfANewerVersionIsLeftAlone) {
  ::mkdir((cluster / "c").c_str(), 0700);
  std::ofstream(cluster / "c/version") << "coordinator 99\n";
  const auto [code, text] = run({"coordinator", "--data", cluster / "c"});
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("version 99"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(cluster / "c/events.db"));
}

TEST_F(BadStart, FolderThatOthersMayEnterOrThatIsAFileIsRefused) {
  ::mkdir((cluster / "open").c_str(), 0755);
  ::chmod((cluster / "open").c_str(), 0755);
  auto [code, text] = run({"coordinator", "--data", cluster / "open"});
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("chmod 700"), std::string::npos) << text;
  std::ofstream(cluster / "file") << "x";
  std::tie(code, text) = run({"coordinator", "--data", cluster / "file"});
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("is not a folder"), std::string::npos) << text;
}

TEST_F(BadStart, AgentWithoutACertificateDoesNotStart) {
  const auto [code, text] = run({"agent", "--data", cluster / "a", "--name", "a"});
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("has not joined"), std::string::npos) << text;
}

TEST_F(BadStart, WrongFingerprintAndWrongTokenAreToldApart) {
  cluster.start_coordinator();
  const auto c = cluster.cluster();
  auto [code, text] =
      run({"agent", "--data", cluster / "a", "--name", "a", "--join", c.at("join"), "--token-file",
           c.at("join_token_file"), "--ca-fingerprint", "sha256:" + std::string(64, '0')});
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("fingerprint"), std::string::npos) << text;
  std::ofstream(cluster / "wrong") << "dlj-0000";
  std::tie(code, text) =
      run({"agent", "--data", cluster / "a", "--name", "a", "--join", c.at("join"), "--token-file",
           cluster / "wrong", "--ca-fingerprint", c.at("ca_fingerprint")});
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("token"), std::string::npos) << text;
}

TEST_F(BadStart, WrongUsageIsCodeTwo) {
  EXPECT_EQ(run({"coordinator"}).first, 2);
  EXPECT_EQ(run({"agent", "--data", cluster / "a", "--no-such-flag"}).first, 2);
}

TEST_F(BadStart, HelpOfBothDaemonsHasExamples) {
  for (const std::string daemon : {"coordinator", "agent"}) {
    const auto [code, text] = run({daemon, "--help"});
    EXPECT_EQ(code, 0);
    EXPECT_NE(text.find("\nExamples:\n  dlrun " + daemon), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace dlrun::node
