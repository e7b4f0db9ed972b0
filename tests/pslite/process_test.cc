// Programs written for ps-lite as processes: started by hand with DMLC_* set, and by dlrun.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

extern char** environ;

namespace dlrun::pslite {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Env = std::map<std::string, std::string>;
namespace fs = std::filesystem;

/// Killed by its pid and waited for when the object goes.
class Child {
 public:
  Child(const std::vector<std::string>& argv, const Env& env, fs::path log) : log_(std::move(log)) {
    std::vector<std::string> lines;
    for (char** line = environ; *line != nullptr; ++line) {
      const std::string text = *line;
      if (!env.contains(text.substr(0, text.find('='))) && !text.starts_with("DMLC_"))
        lines.push_back(text);
    }
    for (const auto& [name, value] : env) lines.push_back(name + "=" + value);
    std::vector<char*> args, envp;
    for (const auto& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
    for (auto& line : lines) envp.push_back(line.data());
    args.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawn(&pid_, args[0], &actions, nullptr, args.data(), envp.data()) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_GT(pid_, 0) << argv[0];
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void signal(int number) const {
    if (pid_ > 0) ::kill(pid_, number);
  }
  /// The exit code, 128 + signal, or -1 when it still runs after `limit`.
  int wait(std::chrono::steady_clock::time_point until) {
    int status = 0;
    while (pid_ > 0) {
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        pid_ = -1;
        break;
      }
      if (std::chrono::steady_clock::now() > until) return -1;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return code_;
  }
  std::string log() const {
    std::ifstream in(log_);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  bool says(const std::string& text, std::chrono::steady_clock::duration limit) const {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (log().find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return true;
  }

 private:
  pid_t pid_ = -1;
  int code_ = -1;
  fs::path log_;
};

class ByHand : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/pslite-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    port_ = free_port();
  }
  void TearDown() override {
    children_.clear();
    fs::remove_all(folder_);
  }
  static std::uint16_t free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    ::close(fd);
    return ntohs(address.sin_port);
  }
  Child& add(const std::string& role, const std::string& what, int workers, int servers,
             Env env = {}) {
    env.emplace("DMLC_ROLE", role);
    env.emplace("DMLC_NUM_WORKER", std::to_string(workers));
    env.emplace("DMLC_NUM_SERVER", std::to_string(servers));
    env.emplace("DMLC_PS_ROOT_URI", "127.0.0.1");
    env.emplace("DMLC_PS_ROOT_PORT", std::to_string(port_));
    const std::string name = role + std::to_string(children_.size());
    children_.push_back(
        std::make_unique<Child>(std::vector<std::string>{program_, what}, env, folder_ / name));
    return *children_.back();
  }
  /// The scheduler last: the others wait for it.
  void start(const std::string& what, int workers, int servers, const Env& env = {},
             int processes_of_workers = -1) {
    for (int i = 0; i < servers; ++i) add("server", what, workers, servers, env);
    const int n = processes_of_workers < 0 ? workers : processes_of_workers;
    for (int i = 0; i < n; ++i) add("worker", what, workers, servers, env);
    add("scheduler", what, workers, servers, env);
  }
  void expect_all_well(std::chrono::seconds limit = seconds(60)) {
    const auto until = std::chrono::steady_clock::now() + limit;
    for (auto& child : children_) EXPECT_EQ(child->wait(until), 0) << child->log();
  }
  void run(const std::string& what, int workers, int servers, const Env& env = {},
           int processes_of_workers = -1) {
    start(what, workers, servers, env, processes_of_workers);
    expect_all_well();
  }
  /// All but `dead` end with an error that says `why`, within `limit`.
  void expect_all_failed(const Child* dead, const std::string& why, std::chrono::seconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    for (auto& child : children_) {
      if (child.get() == dead) continue;
      const int code = child->wait(until);
      EXPECT_NE(code, -1) << "it hangs: " << child->log();
      EXPECT_NE(code, 0) << child->log();
      EXPECT_THAT(child->log(), HasSubstr(why));
    }
  }

  std::string program_ = PSLITE_PROGRAM;
  fs::path folder_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Child>> children_;
};

TEST_F(ByHand, SumsOfThreeWorkersOverTwoServersAreExact) { run("sums", 3, 2); }
TEST_F(ByHand, ProcessesOfOneHostShareMemory) {
  run("sums", 1, 1, {{"PS_VERBOSE", "1"}});
  EXPECT_THAT(children_[1]->log(), HasSubstr("dials server 0 at shm://"));
}
TEST_F(ByHand, OverTcpAndIpv6) {
  run("sums", 2, 2, {{"DLRUN_PSLITE_SHM", "0"}, {"DMLC_PS_ROOT_URI", "::1"}, {"PS_VERBOSE", "1"}});
  EXPECT_THAT(children_[2]->log(), HasSubstr("dials server 0 at tcp://[::1]:"));
}
TEST_F(ByHand, ATenthOfAllPacketsLostChangesNothing) { run("sums", 2, 2, {{"PS_DROP_MSG", "10"}}); }
TEST_F(ByHand, LargeValuesComeWhole) { run("large", 2, 2); }
TEST_F(ByHand, RaggedValuesKeepTheirLengths) { run("ragged", 3, 2); }
TEST_F(ByHand, SimpleRequestsReachEverybodyWithTheirBodies) { run("simple", 3, 2); }
TEST_F(ByHand, TwoCustomersOfOneProcessAreTwoWorkers) { run("customers", 2, 2, {}, 1); }
TEST_F(ByHand, CallbacksAndSeveralAppsInAProcess) { run("callbacks", 2, 2); }
TEST_F(ByHand, BarriersOfGroupsDoNotMix) { run("groups", 3, 2); }
TEST_F(ByHand, AServerMayAnswerWhenAllHavePushed) { run("synchronous", 3, 2); }
TEST_F(ByHand, WithoutBarriersAtStartAndEnd) { run("no-barriers", 2, 2); }
TEST_F(ByHand, TheInterfaceBeforeCustomers) {
  program_ = PSLITE_OLD_PROGRAM;
  run("", 3, 2);
}
TEST_F(ByHand, TheInterfaceThatNamesRolesGivesTheRankThatIsAskedFor) {
  add("scheduler", "roles", 2, 1);
  add("server", "roles", 2, 1);
  add("worker", "roles", 2, 1, {{"WISH", "1"}});
  add("worker", "roles", 2, 1, {{"WISH", "0"}});
  expect_all_well();
}
TEST_F(ByHand, VariablesMayBeGivenInTheProgram) {
  for (const std::string role : {"scheduler", "server", "worker"})
    add("nothing", "given", 1, 1, {{"MY_ROLE", role}});
  expect_all_well();
}

const Env kSoon = {{"PS_HEARTBEAT_TIMEOUT", "3"}, {"DLRUN_PSLITE_GRACE_S", "2"}};

TEST_F(ByHand, AKilledServerEndsAllOthersWithItsName) {
  start("forever-waiting", 2, 2, kSoon);
  ASSERT_TRUE(children_[2]->says("training", seconds(30))) << children_[2]->log();
  children_[0]->signal(SIGKILL);
  expect_all_failed(children_[0].get(), "nothing heard for", seconds(20));
  EXPECT_THAT(children_[2]->log(), HasSubstr("server "));
}
TEST_F(ByHand, AKilledWorkerEndsAllOthersAlsoThoseThatWaitForCallbacksAlone) {
  start("forever-calling", 2, 2, kSoon);
  ASSERT_TRUE(children_[2]->says("training", seconds(30)));
  ASSERT_TRUE(children_[3]->says("training", seconds(30)));
  children_[2]->signal(SIGKILL);
  expect_all_failed(children_[2].get(), "worker ", seconds(20));
}
TEST_F(ByHand, AKilledSchedulerEndsAllOthers) {
  start("forever-waiting", 1, 1, kSoon);
  ASSERT_TRUE(children_[1]->says("training", seconds(30)));
  children_[2]->signal(SIGKILL);
  expect_all_failed(children_[2].get(), "the scheduler at tcp://127.0.0.1:", seconds(20));
}
TEST_F(ByHand, AServerThatStandsStillForAWhileIsWaitedFor) {
  start("sums", 2, 2);
  children_[0]->signal(SIGSTOP);
  std::this_thread::sleep_for(seconds(2));
  children_[0]->signal(SIGCONT);
  expect_all_well();
}
TEST_F(ByHand, WhatAHandlerThrowsIsToldToEverybody) {
  start("throws", 2, 1, kSoon);
  expect_all_failed(nullptr, "five keys were expected", seconds(20));
}
TEST_F(ByHand, ARequestWithoutAnAnswerEnds) {
  start("silent", 1, 1, {{"DLRUN_PSLITE_REQUEST_S", "1"}});
  expect_all_failed(nullptr, "does a handler forget Response?", seconds(15));
}
TEST_F(ByHand, WhoIsMissingIsToldToThoseThatCame) {
  const Env env = {{"DLRUN_PSLITE_START_S", "1"}};
  add("scheduler", "sums", 2, 1, env);
  add("worker", "sums", 2, 1, env);
  add("server", "sums", 2, 1, env);
  expect_all_failed(nullptr, "1 of 2 workers, 1 of 1 server", seconds(20));
}
TEST_F(ByHand, AMissingVariableAndATakenPortAreNamed) {
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  Child& role = add("", "sums", 1, 1);
  EXPECT_EQ(role.wait(until), 128 + SIGABRT);
  EXPECT_THAT(role.log(), HasSubstr("DMLC_ROLE is not set"));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  Child& scheduler = add("scheduler", "sums", 1, 1);
  EXPECT_EQ(scheduler.wait(until), 128 + SIGABRT);
  EXPECT_THAT(scheduler.log(), HasSubstr("the scheduler cannot listen at tcp://127.0.0.1:"));
  ::close(fd);
}

#ifdef DLRUN_BINARY
/// Under dlrun, which sets what ps-lite's programs read and ends the job as they end.
class ByDlrun : public ByHand {
 protected:
  int run_dlrun(const std::vector<std::string>& args, std::string& log) {
    std::vector<std::string> argv = {DLRUN_BINARY};
    argv.insert(argv.end(), args.begin(), args.end());
    Child dlrun(argv, {{"DLRUN_HOME", folder_ / "home"}}, folder_ / "dlrun");
    const int code = dlrun.wait(std::chrono::steady_clock::now() + seconds(90));
    log = dlrun.log();
    return code;
  }
};

TEST_F(ByDlrun, SumsOfThreeWorkersOverTwoServers) {
  std::string log;
  EXPECT_EQ(
      run_dlrun({"run", "--as", "pslite", "-n", "3", "--ps", "2", "--", program_, "sums"}, log), 0)
      << log;
}
TEST_F(ByDlrun, TheExampleLearns) {
  std::string log;
  EXPECT_EQ(run_dlrun({"run", "--as", "pslite", "-n", "2", "--ps", "2", "--", PSLITE_LR}, log), 0)
      << log;
  EXPECT_THAT(log, HasSubstr("accuracy"));
}
#endif

}  // namespace
}  // namespace dlrun::pslite
