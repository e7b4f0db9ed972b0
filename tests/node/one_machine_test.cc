// The program as its user has it on one machine: a cluster for the length of a job, and one that
// stays, with real daemons.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
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
using ::testing::Not;
namespace fs = std::filesystem;

/// `dlrun` in a terminal of its own, and who sits before it.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> args) {
    args.insert(args.begin(), dlrun_binary());
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    ::setenv("TERM", "xterm", 1);
    pid_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      ::execv(argv[0], argv.data());
      ::_exit(126);
    }
  }
  ~Terminal() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::close(fd_);
  }
  void type(const char* keys) { EXPECT_GT(::write(fd_, keys, std::strlen(keys)), 0); }
  /// Waits until the screen has shown it; false: it has not within a minute, or all is over.
  bool shows(const std::string& text) {
    const SystemClock clock;
    for (const TimePoint until = clock.now() + std::chrono::minutes(1);
         screen_.find(text) == std::string::npos;)
      if (clock.now() > until || !read_some()) return false;
    return true;
  }
  bool runs() const {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }
  int end() {
    EXPECT_FALSE(shows(std::string("\0never", 6)));  // to the last byte
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& screen() const { return screen_; }

 private:
  bool read_some() {
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, 200) == 0) return true;
    char bytes[4096];
    const ssize_t n = ::read(fd_, bytes, sizeof bytes);  // EIO: nobody has the terminal any more
    if (n > 0) screen_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }
  int fd_ = -1;
  pid_t pid_ = 0;
  std::string screen_;
};

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

TEST_F(OneMachine, AtATerminalCtrlCAsksAndTheSecondKills) {
  Terminal terminal({"run", "--", "/bin/sh", "-c", "echo it runs; exec sleep 1000"});
  ASSERT_TRUE(terminal.shows("it runs\r\n")) << terminal.screen();
  ASSERT_TRUE(terminal.shows("\x1b[2mdlrun:\x1b[0m j1 RUNNING"))
      << "in colour" << terminal.screen();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("Ctrl-C again to kill the job j1")) << terminal.screen();
  EXPECT_TRUE(terminal.runs());
  terminal.type("\x03");
  EXPECT_EQ(terminal.end(), 130) << terminal.screen();
  EXPECT_THAT(terminal.screen(), HasSubstr("j1 CANCELLED"));
  EXPECT_TRUE(nothing_left());

  ::setenv("NO_COLOR", "1", 1);
  Terminal plain({"run", "--", "/bin/echo", "it runs"});
  EXPECT_EQ(plain.end(), 0) << plain.screen();
  ::unsetenv("NO_COLOR");
  EXPECT_THAT(plain.screen(), HasSubstr("dlrun: j2 SUCCEEDED"));
  EXPECT_THAT(plain.screen(), HasSubstr("it runs\r\n"));
  EXPECT_THAT(plain.screen(), Not(HasSubstr("\x1b[2m")));
}

TEST_F(OneMachine, WhatAnOperatorAsksInJsonIsAnsweredInJsonAlsoWhenItFails) {
  const auto ask = [&](int expected, std::vector<std::string> args) {
    args.emplace_back("--json");
    const auto [code, said] = dlrun(args);
    EXPECT_EQ(code, expected) << args[0] << ": " << said;
    const json answer = json::parse(said.substr(std::min(said.find('{'), said.size())), nullptr,
                                    /*allow_exceptions=*/false);
    EXPECT_TRUE(answer.is_object()) << args[0] << ": " << said;
    return answer.is_object() ? answer : json::object();
  };
  EXPECT_EQ(ask(1, {"join-token"}).value("error", ""), "kNotFound") << "no cluster yet";
  const json up = ask(0, {"up", "--nodes", "1"});
  EXPECT_EQ(up.value("nodes", 0), 1);
  EXPECT_THAT(up.value("join", ""), HasSubstr("dlrun agent --join"));
  const std::string token = ask(0, {"join-token", "--minutes", "1"}).value("token", "");
  EXPECT_FALSE(token.empty());
  EXPECT_EQ(ask(0, {"certificates"}).at("certificates").size(), 1u);
  EXPECT_TRUE(ask(1, {"revoke", "nobody"}).contains("detail"));
  EXPECT_TRUE(
      ask(1, {"connect", up.value("rest", ""), "--token-file", home_ + "/none"}).contains("detail"))
      << "this home has a cluster";
  const std::string file = home_ + "/bad.toml";
  std::ofstream(file) << "name = \"x\"\nnmae = 1\n";
  EXPECT_THAT(ask(65, {"check", file}).value("detail", ""), HasSubstr("bad.toml:2:1"));
  ask(0, {"down"});
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
