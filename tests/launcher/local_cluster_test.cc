// Real processes: the life of embedded and standing clusters, with stand-ins for the daemons.
#include "launcher/local_cluster.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>

#include "runtime/shim/shim_client.h"

namespace dlrun::launcher {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

class LocalCluster : public testing::Test {
 protected:
  void SetUp() override {
    home = fs::temp_directory_path() / ("local_cluster_test_" + std::to_string(::getpid()));
    fs::create_directories(home);
  }
  void TearDown() override {
    dlrun({"down"});
    EXPECT_TRUE(nothing_left()) << "a process of the test is left";
    fs::remove_all(home);
  }

  pid_t start(const std::vector<std::string>& args) {
    std::vector<std::string> all{FAKE_DLRUN};
    all.insert(all.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (auto& a : all) argv.push_back(a.data());
    argv.push_back(nullptr);
    const std::string out = home / "out", err = home / "err",
                      variable = "DLRUN_HOME=" + home.string();
    const pid_t pid = ::fork();
    if (pid < 0) std::abort();  // kill(-1) would end every process
    if (pid == 0) {
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::putenv(const_cast<char*>(variable.c_str()));
      ::execv(argv[0], argv.data());
      ::_exit(126);
    }
    return pid;
  }
  int finish(pid_t pid) {
    int status = 0;
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, &status, 0);
        ADD_FAILURE() << "too slow";
      }
      ::usleep(2000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int dlrun(const std::vector<std::string>& args) { return finish(start(args)); }
  std::string text(const char* name) { return read_file(home / name).value_or(""); }
  static bool eventually(const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > until) return false;
      ::usleep(5000);
    }
    return true;
  }
  bool job_runs() {
    return eventually([&] { return text("out") == "hello\n"; });
  }
  bool says(const char* what) {
    return eventually([&] { return text("err").find(what) != std::string::npos; });
  }

  /// Processes whose command line names our folder.
  std::vector<pid_t> ours() {
    std::vector<pid_t> out;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const auto line = read_file(entry.path() / "cmdline");
      if (line && line->find(home.string()) != std::string::npos && mark_of(std::stoi(name)))
        out.push_back(std::stoi(name));
    }
    return out;
  }
  bool nothing_left() {
    return eventually([&] { return ours().empty(); });
  }

  /// The daemon whose command line has `word`.
  void kill_daemon(const char* word) {
    for (const pid_t pid : ours())
      if (read_file(fmt::format("/proc/{}/cmdline", pid)).value_or("").find(word) !=
          std::string::npos)
        ::kill(pid, SIGKILL);
  }
  /// A task of node-0 with a real shim that nobody is attached to, as a killed agent leaves it.
  pid_t leave_a_task(const char* name) {
    const fs::path dir = home / "local" / "node-0" / "tasks" / name;
    fs::create_directories(dir);
    std::promise<pid_t> runs;
    auto client = shim::ShimClient::start(
        {.shim_program = DLRUN_SHIM_PROGRAM, .on_event = [&](const shim::ShimEvent& event) {
           if (event.phase == shim::Phase::kRunning) runs.set_value(static_cast<pid_t>(event.pid));
         }});
    EXPECT_TRUE(client && (*client)->spawn(dir, {.argv = {"/bin/sleep", "1000"}}));
    auto pid = runs.get_future();
    if (pid.wait_for(20s) == std::future_status::ready) return pid.get();
    ADD_FAILURE() << "the task does not run";
    return 0;
  }
  void expect_ended(const char* name, pid_t pid) {
    EXPECT_TRUE(nothing_left());
    EXPECT_FALSE(fs::exists(fmt::format("/proc/{}", pid))) << "the program runs on";
    const auto bytes = read_file(home / "local" / "node-0" / "tasks" / name / "exit");
    const auto exit = shim::decode_exit(bytes.value_or(""));
    ASSERT_TRUE(exit) << "the next agent would not know how it ended";
    EXPECT_EQ(exit->cause, shim::EndCause::kUserKill);
  }

  fs::path home;
};

TEST_F(LocalCluster, RunWithoutAClusterBringsOneUpSaysSoAndLeavesNothingRunning) {
  EXPECT_EQ(dlrun({"run", "--", "exit", "7"}), 7);
  EXPECT_EQ(text("out"), "hello\n");
  EXPECT_THAT(text("err"), HasSubstr("no cluster is configured: bringing up one on this machine"));
  EXPECT_TRUE(ours().empty()) << "it waits for the end of what it started";
  EXPECT_FALSE(fs::exists(home / "cluster.json"));
}

TEST_F(LocalCluster, QuestionsAreAnsweredByTheCoordinatorAloneAfterwards) {
  EXPECT_EQ(dlrun({"list"}), 1) << "nothing ran here yet";
  EXPECT_EQ(dlrun({"run", "-q", "--", "exit", "0"}), 0);
  EXPECT_EQ(text("err"), "");
  EXPECT_EQ(dlrun({"list", "--json"}), 0);
  EXPECT_TRUE(ours().empty());
  EXPECT_FALSE(fs::exists(home / "local" / "node-0" / "up"));
}

TEST_F(LocalCluster, TwoRunsShareOneClusterAndTheLastTakesItDown) {
  const pid_t first = start({"run", "--", "hang"});
  ASSERT_TRUE(job_runs());
  EXPECT_EQ(dlrun({"run", "-q", "--", "exit", "3"}), 3);
  EXPECT_EQ(::waitpid(first, nullptr, WNOHANG), 0) << "the first goes on";
  ::kill(first, SIGTERM);
  EXPECT_EQ(finish(first), 143) << "TERM kills the job and gives its code";
  EXPECT_TRUE(ours().empty());
}

TEST_F(LocalCluster, AKilledLauncherLeavesNothingBehindAndItsJobIsEnded) {
  const pid_t run = start({"run", "--", "hang"});
  ASSERT_TRUE(job_runs());
  ::kill(run, SIGKILL);
  EXPECT_EQ(finish(run), 128 + SIGKILL);
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(read_file(home / "local" / "coordinator" / "ended").value_or(""), "j1 143\n");
}

TEST_F(LocalCluster, ADeadGuardianTakesItsEmbeddedDaemonsWithIt) {
  const pid_t run = start({"run", "--", "hang"});
  ASSERT_TRUE(job_runs());
  for (const pid_t pid : ours())
    if (read_file(fmt::format("/proc/{}/cmdline", pid)).value_or("").find("local-guardian") !=
        std::string::npos)
      ::kill(pid, SIGKILL);
  ::kill(run, SIGKILL);
  finish(run);
  EXPECT_TRUE(nothing_left());
}

TEST_F(LocalCluster, UpStaysAndDownEndsIt) {
  EXPECT_EQ(dlrun({"up", "--nodes", "3", "--cpus", "4"}), 0);
  EXPECT_THAT(text("out"), HasSubstr("a cluster of 3 nodes is up at http://127.0.0.1:"));
  EXPECT_THAT(text("out"),
              HasSubstr("another agent on this machine: dlrun agent --join 127.0.0.1:1 "
                        "--token-file "));
  EXPECT_THAT(text("out"), HasSubstr("dlrun up --listen ADDRESS"))
      << "a loopback address is no use to another machine";
  EXPECT_EQ(ours().size(), 5u) << "a guardian, a coordinator, three agents";
  EXPECT_EQ(fs::status(home / "cluster.json").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(dlrun({"run", "-q", "--", "exit", "5"}), 5);
  EXPECT_EQ(text("out"), "hello\n");
  EXPECT_EQ(dlrun({"up"}), 1) << "one stands already";
  EXPECT_EQ(dlrun({"submit", "--", "hang"}), 0);
  EXPECT_EQ(dlrun({"down"}), 0);
  EXPECT_TRUE(ours().empty());
  EXPECT_THAT(read_file(home / "local" / "coordinator" / "ended").value_or(""), HasSubstr("j2 143"))
      << "what ran was ended first";
  EXPECT_FALSE(fs::exists(home / "cluster.json"));
  EXPECT_EQ(dlrun({"down"}), 1);
}

TEST_F(LocalCluster, ARunThatMeetsAnUpUnderWayUsesTheClusterOfTheUp) {
  fs::create_directories(home / "local");
  auto users = FileLock::open(home / "local" / "users.lock");
  ASSERT_TRUE(users && users->lock_within(FileLock::Mode::kExclusive, 20s));
  const pid_t run = start({"run", "--", "exit", "7"});
  ASSERT_TRUE(says("bringing up")) << "they do not meet";
  EXPECT_EQ(dlrun({"up"}), 0);  // meanwhile the run waits for the lock
  users->unlock();
  EXPECT_EQ(finish(run), 7);
  EXPECT_EQ(dlrun({"down"}), 0);
}

TEST_F(LocalCluster, DownCleansUpAfterAGuardianThatWasKilled) {
  EXPECT_EQ(dlrun({"up"}), 0);
  for (const pid_t pid : ours())
    if (read_file(fmt::format("/proc/{}/cmdline", pid)).value_or("").find("local-guardian") !=
        std::string::npos)
      ::kill(pid, SIGKILL);
  eventually([&] { return ours().size() <= 2; });
  EXPECT_EQ(ours().size(), 2u) << "a standing cluster's daemons go on";
  EXPECT_EQ(dlrun({"list"}), 69);
  EXPECT_EQ(dlrun({"down"}), 0);
  EXPECT_TRUE(ours().empty());
}

TEST_F(LocalCluster, AGuardianThatCannotSeeItsUsersLeaveStartsNothing) {
  const std::string folder = home / "local";
  fs::create_directories(folder + "/users.lock");  // no file: it cannot be opened
  EXPECT_EQ(dlrun({"local-guardian", "--data", folder, "--nodes", "1", "--cpus", "1", "--memory",
                   "1073741824", "--mode", "embedded", "--listen", "", "--as-root", "no"}),
            69);
  EXPECT_THAT(text("err"), HasSubstr("users.lock"));
  EXPECT_FALSE(fs::exists(folder + "/coordinator"));
}

TEST_F(LocalCluster, DownEndsTheTasksOfAnAgentThatWasKilled) {
  EXPECT_EQ(dlrun({"up"}), 0);
  const pid_t task = leave_a_task("j9.worker.0.g1");
  kill_daemon("agent");
  EXPECT_EQ(dlrun({"down"}), 0);
  expect_ended("j9.worker.0.g1", task);
}

TEST_F(LocalCluster, TasksOutliveTheCoordinatorOfAStandingClusterUntilDown) {
  EXPECT_EQ(dlrun({"up"}), 0);
  const pid_t run = start({"run", "--", "hang"});
  ASSERT_TRUE(job_runs());
  const pid_t task = leave_a_task("j9.worker.0.g1");
  kill_daemon("coordinator");
  eventually([&] { return ours().size() <= 1; });
  EXPECT_EQ(ours().size(), 1u) << "the shim alone: the next up takes its task up again";
  EXPECT_EQ(finish(run), 69);
  EXPECT_THAT(text("err"), HasSubstr("gone (the coordinator was killed by signal 9); dlrun down"));
  EXPECT_EQ(dlrun({"down"}), 0);
  expect_ended("j9.worker.0.g1", task);
}

TEST_F(LocalCluster, TasksOfAnEmbeddedClusterDoNotOutliveItWhicheverDaemonWasKilled) {
  for (const char* victim : {"agent", "coordinator", "local-guardian"}) {
    SCOPED_TRACE(victim);
    const pid_t run = start({"run", "--", "hang"});
    ASSERT_TRUE(job_runs());
    const pid_t task = leave_a_task("j9.worker.0.g1");
    kill_daemon(victim);
    const bool ends_it = std::string_view(victim) != "agent";
    // The agent of a real cluster comes back or not; three times Ctrl-C leaves at once.
    for (const char* answer : {"Ctrl-C again", "once more to leave", ""}) {
      if (ends_it) break;
      ::kill(run, SIGINT);
      EXPECT_TRUE(says(answer));
    }
    const auto began = std::chrono::steady_clock::now();
    const int code = finish(run);
    if (ends_it) {
      EXPECT_EQ(code, 69);
      EXPECT_LT(std::chrono::steady_clock::now() - began, 30s) << "not when all patience is over";
      EXPECT_THAT(text("err"), HasSubstr(std::string_view(victim) == "coordinator"
                                             ? "ended (the coordinator was killed by signal 9)"
                                             : "ended (its guardian was killed)"));
    }
    expect_ended("j9.worker.0.g1", task);
    fs::remove_all(home / "local" / "node-0" / "tasks");
    fs::remove(home / "out");
  }
}

TEST_F(LocalCluster, AnAgentThatCannotStartIsExplainedAtOnce) {
  fs::create_directories(home / "local" / "node-0");
  std::ofstream(home / "local" / "node-0" / "refuse") << "x";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(dlrun({"run", "--", "exit", "0"}), 69);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s) << "not at the end of the start's limit";
  EXPECT_THAT(text("err"), HasSubstr("node-0 of the local cluster ended: the clock is set back"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(LocalCluster, ACoordinatorThatCannotStartIsExplained) {
  fs::create_directories(home / "local" / "coordinator");
  std::ofstream(home / "local" / "coordinator" / "refuse") << "x";
  EXPECT_EQ(dlrun({"run", "--", "exit", "0"}), 69);
  EXPECT_THAT(text("err"), HasSubstr("the data folder is of a newer version"));
  EXPECT_TRUE(nothing_left());
}

}  // namespace
}  // namespace dlrun::launcher
