// Real processes: dlrun-shim, ShimClient, and a helper program with bad habits.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "runtime/shim/cgroup.h"
#include "runtime/shim/log_files.h"
#include "runtime/shim/shim_client.h"
#include "runtime/shim/tree_kill.h"

namespace dlrun::shim {
namespace {

using cluster::Cause;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

class Shim : public testing::Test {
 protected:
  Shim() {
    char name[] = "/tmp/dlrun-shim-XXXXXX";
    root_ = ::mkdtemp(name);
    start_client();
  }
  ~Shim() override {
    client_.reset();
    for (const auto& [dir, mark] : marks_) {
      // Nothing of any task is left: no process, no cgroup.
      for (int i = 0; i < 100 && !left_of(mark).empty(); ++i)
        std::this_thread::sleep_for(milliseconds(20));
      EXPECT_EQ(left_of(mark), std::vector<pid_t>{}) << dir;
      const auto home = find_cgroup_home();
      for (const auto& parent : {home.v2, home.v1_tracker, home.v1_memory}) {
        if (!parent.empty()) {
          EXPECT_NE(::access((parent + "/" + cgroup_name(mark)).c_str(), F_OK), 0) << parent;
        }
      }
    }
    for (const auto& [dir, mark] : marks_) {
      for (int i = 0; i < 500 && ShimClient::shim_alive(dir); ++i)
        std::this_thread::sleep_for(milliseconds(20));
      EXPECT_FALSE(ShimClient::shim_alive(dir)) << dir;
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // shims of a client that was let go
    }
    std::filesystem::remove_all(root_);
  }

  void start_client() {
    ShimClient::Options options;
    options.shim_program = DLRUN_SHIM_PROGRAM;
    options.on_event = [this](const ShimEvent& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
      changed_.notify_all();
    };
    auto client = ShimClient::start(std::move(options));
    ASSERT_TRUE(client) << client.error().to_string();
    client_ = std::move(*client);
  }

  std::string new_dir(const std::string& name) {
    const std::string dir = root_ + "/" + name;
    std::filesystem::create_directories(dir);
    return dir;
  }

  Spec spec_of(std::vector<std::string> argv) {
    Spec spec;
    spec.argv = std::move(argv);
    spec.env = {"PATH=/usr/bin:/bin", "ASAN_OPTIONS=detect_leaks=0"};
    spec.mark = (static_cast<std::uint64_t>(::getpid()) << 32) + ++next_mark_;
    spec.leftover_grace_ms = 200;
    return spec;
  }
  Spec helper(const std::string& mode, const std::string& arg = "") {
    return spec_of({DLRUN_SHIM_HELPER, mode, arg});
  }

  std::string spawn(const std::string& name, const Spec& spec) {
    const std::string dir = new_dir(name);
    marks_.emplace_back(dir, spec.mark);
    const auto status = client_->spawn(dir, spec);
    EXPECT_TRUE(status) << status.error().to_string();
    return dir;
  }

  ShimEvent wait_for(const std::string& dir, Phase phase, Duration timeout = seconds(30)) {
    std::unique_lock lock(mutex_);
    ShimEvent found;
    const bool ok = changed_.wait_for(lock, timeout, [&] {
      for (const auto& e : events_) {
        if (e.task_dir == dir && e.phase == phase) {
          found = e;
          return true;
        }
      }
      return false;
    });
    EXPECT_TRUE(ok) << "no event of phase " << static_cast<int>(phase) << " for " << dir;
    return found;
  }
  cluster::TaskEnd end_of(const std::string& dir) { return wait_for(dir, Phase::kEnded).end; }

  std::string output(const std::string& dir, const std::string& stream = "stdout") {
    std::string all;
    std::uint64_t from = 0;
    for (;;) {
      const auto bytes = read_log(dir + "/logs", stream, from, 1 << 20);
      if (!bytes || bytes->bytes.empty()) return all;
      all += bytes->bytes;
      from = bytes->offset + bytes->bytes.size();
    }
  }
  void wait_output(const std::string& dir, const std::string& text) {
    const auto until = Steady::now() + seconds(30);
    while (output(dir).find(text) == std::string::npos && Steady::now() < until) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    ASSERT_NE(output(dir).find(text), std::string::npos);
  }

  /// By the mark alone: independent of the cgroup that the shim used.
  static std::vector<pid_t> left_of(std::uint64_t mark) {
    Tree tree;
    tree.mark = mark;
    return tree_pids(tree, 0);
  }
  pid_t shim_pid(const std::string& dir) {
    const auto tree = decode_tree(read_file(dir + "/tree", 1 << 20).value());
    const auto pid = static_cast<pid_t>(tree.value().shim_pid);
    if (pid <= 1 || pid == ::getpid()) std::abort();  // never kill a group
    return pid;
  }

  std::string root_;
  std::uint64_t next_mark_ = 0;
  std::vector<std::pair<std::string, std::uint64_t>> marks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ShimEvent> events_;
  std::unique_ptr<ShimClient> client_;
};

TEST_F(Shim, KeepsTheExitCode) {
  const auto dir = spawn("a", helper("exit", "7"));
  const auto end = end_of(dir);
  EXPECT_EQ(end.cause, Cause::kExit);
  EXPECT_EQ(end.code, 7);
  EXPECT_FALSE(end.ok());
  EXPECT_GT(end.peak_bytes, 0u);
  EXPECT_GT(wait_for(dir, Phase::kRunning).pid, 1);
  EXPECT_TRUE(end_of(spawn("b", helper("exit", "0"))).ok());
}

TEST_F(Shim, KeepsTheSignal) {
  const auto end = end_of(spawn("a", helper("signal", std::to_string(SIGUSR1))));
  EXPECT_EQ(end.cause, Cause::kSignal);
  EXPECT_EQ(end.signal, SIGUSR1);
  EXPECT_EQ(end.detail, "ended by SIGUSR1");
}

TEST_F(Shim, PassesArgumentsAndEnvironmentOfAnyBytes) {
  Spec spec = helper("show");
  spec.argv.insert(spec.argv.end(), {"", "a=b|c\nd", "\xff\xfe"});
  spec.env = {"EMPTY=", "ODD=x=y|z\nsecond line", "RAW=\xc3\x28\xff",
              "ASAN_OPTIONS=detect_leaks=0"};
  spec.cwd = new_dir("work\xff");
  const auto dir = spawn("a", spec);
  ASSERT_TRUE(end_of(dir).ok());
  std::string want;
  for (const auto& a : spec.argv) want += a + std::string(1, '\0');
  want += '\1';
  for (const auto& e : spec.env) want += e + std::string(1, '\0');
  want += mark_env(spec.mark) + std::string(1, '\0');
  want += '\1';
  want += spec.cwd;
  EXPECT_EQ(output(dir), want);
}

TEST_F(Shim, TheProgramInheritsNoDescriptorsAndGetsItsLimits) {
  Spec spec = helper("fds");
  spec.rlimits = {{RLIMIT_NOFILE, 321, 321}};
  const auto dir = spawn("a", spec);
  ASSERT_TRUE(end_of(dir).ok());
  EXPECT_EQ(output(dir), "0 1 2 nofile 321");
}

TEST_F(Shim, SaysExactlyWhatCouldNotBeStarted) {
  const auto detail = [&](const std::string& name, const Spec& spec) {
    const auto end = end_of(spawn(name, spec));
    EXPECT_EQ(end.cause, Cause::kStartFailed) << name;
    return end.detail;
  };
  EXPECT_EQ(detail("a", spec_of({"no-such-program-here"})),
            "unknown program 'no-such-program-here': not found in PATH");
  EXPECT_EQ(detail("b", spec_of({"/no/such/file"})),
            "unknown program '/no/such/file': no such file");
  const std::string script = root_ + "/script";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  EXPECT_EQ(detail("c", spec_of({script})),
            "cannot run '" + script + "': not executable (permission denied)");
  ::chmod(script.c_str(), 0755);
  EXPECT_NE(detail("d", spec_of({script})).find("the interpreter in its first line"),
            std::string::npos);
  EXPECT_EQ(detail("e", spec_of({"/tmp"})), "cannot run '/tmp': it is a directory");
  std::ofstream(script, std::ios::trunc) << "no magic";
  EXPECT_NE(detail("f", spec_of({script})).find("neither a program"), std::string::npos);
  Spec spec = helper("exit", "0");
  spec.cwd = "/no/such/dir";
  EXPECT_EQ(detail("g", spec), "working directory '/no/such/dir': No such file or directory");
}

TEST_F(Shim, RefusesASpecThatCannotRun) {
  const auto dir = new_dir("a");
  Spec spec = spec_of({});
  EXPECT_EQ(client_->spawn(dir, spec).error().code, Errc::kInvalidArgument);
  spec.argv = {std::string("a\0b", 3)};
  EXPECT_EQ(client_->spawn(dir, spec).error().code, Errc::kInvalidArgument);
  spec.argv = {"a"};
  spec.env = {"NO_VALUE"};
  EXPECT_EQ(client_->spawn(dir, spec).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(client_->spawn("relative", helper("exit")).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(client_->stop(dir, seconds(1), Cause::kUserKill).error().code, Errc::kNotFound);
  EXPECT_EQ(client_->attach(dir).error().code, Errc::kNotFound);
}

TEST_F(Shim, StopSendsTermAndTheProgramMayEndInOrder) {
  const auto dir = spawn("a", helper("term-exits"));
  wait_output(dir, "ready");
  ASSERT_TRUE(client_->stop(dir, seconds(20), Cause::kSibling));
  const auto end = end_of(dir);
  EXPECT_EQ(end.cause, Cause::kSibling);
  EXPECT_EQ(end.code, 42);
  EXPECT_EQ(end.signal, 0);
}

TEST_F(Shim, KillsTheWholeTreeAlsoSetsidDoubleForkStoppedAndTermIgnored) {
  for (const bool use_cgroup : {true, false}) {
    Spec spec = helper("brood");
    spec.use_cgroup = use_cgroup;
    const auto dir = spawn(use_cgroup ? "cgroup" : "mark", spec);
    wait_output(dir, "ready");
    const auto running = wait_for(dir, Phase::kRunning);
    if (!use_cgroup) {
      EXPECT_EQ(running.isolation, "best effort");
    }
    EXPECT_EQ(left_of(spec.mark).size(), 4u);
    const auto begin = Steady::now();
    ASSERT_TRUE(client_->stop(dir, milliseconds(300), Cause::kUserKill));
    const auto end = end_of(dir);
    EXPECT_EQ(end.cause, Cause::kUserKill);
    EXPECT_EQ(end.signal, SIGTERM);
    EXPECT_GE(Steady::now() - begin, milliseconds(290));  // one of them ignored TERM
    EXPECT_EQ(left_of(spec.mark).size(), 0u);
  }
}

TEST_F(Shim, KillNowDoesNotWait) {
  const auto dir = spawn("a", helper("brood"));
  wait_output(dir, "ready");
  ASSERT_TRUE(client_->stop(dir, seconds(3600), Cause::kUserKill));
  ASSERT_TRUE(client_->kill(dir, Cause::kPreempted));
  const auto end = end_of(dir);
  EXPECT_EQ(end.cause, Cause::kUserKill);  // the first cause stays
}

TEST_F(Shim, WhatOutlivesTheProgramIsKilledAndTheExitCodeKept) {
  const Spec spec = helper("brood-leaves");
  const auto dir = spawn("a", spec);
  const auto end = end_of(dir);
  EXPECT_EQ(end.cause, Cause::kExit);
  EXPECT_EQ(end.code, 5);
  EXPECT_EQ(left_of(spec.mark).size(), 0u);
}

TEST_F(Shim, EnforcesTheTimeLimit) {
  Spec spec = helper("brood");
  spec.time_limit_ms = 300;
  spec.grace_ms = 100;
  const auto end = end_of(spawn("a", spec));
  EXPECT_EQ(end.cause, Cause::kTimeLimit);
  EXPECT_EQ(end.detail, "the time limit of 300 ms is over");
}

TEST_F(Shim, NamesOutOfMemoryWithPeakAndLimit) {
  const auto home = find_cgroup_home();
  const auto groups = make_task_cgroups(
      home, cgroup_name(~std::uint64_t{0} - static_cast<unsigned>(::getpid())), 64 << 20);
  for (const auto& g : groups.all()) EXPECT_TRUE(cgroup_remove(g));
  if (groups.memory.empty()) GTEST_SKIP() << "no memory cgroup can be made here";
  Spec spec = helper("hog", "400");
  spec.memory_bytes = 64 << 20;
  const auto end = end_of(spawn("a", spec));
  EXPECT_EQ(end.cause, Cause::kOom) << end.detail;
  EXPECT_EQ(end.limit_bytes, spec.memory_bytes);
  EXPECT_GT(end.peak_bytes, 32u << 20);
  EXPECT_LE(end.peak_bytes, spec.memory_bytes);
  EXPECT_EQ(end.signal, SIGKILL);
}

TEST_F(Shim, OutputBytesAreExactThroughRotation) {
  Spec spec = helper("noise", "3000000");
  spec.log_segment_bytes = 100'000;
  const auto dir = spawn("a", spec);
  ASSERT_TRUE(end_of(dir).ok());
  std::string want;
  for (long i = 0; i < 3'000'000; ++i) want.push_back(static_cast<char>((i * 2654435761u) >> 13));
  EXPECT_TRUE(output(dir) == want);
  EXPECT_TRUE(output(dir, "stderr") == want.substr(0, want.size() / 2));
  EXPECT_GE(list_segments(dir + "/logs", "stdout")->size(), 30u);
}

TEST_F(Shim, AnAgentThatDiesTouchesNothingAndTheNextOneAttaches) {
  const auto dir = spawn("a", helper("term-exits"));
  const auto gone = spawn("b", helper("term-exits"));
  wait_output(dir, "ready");
  wait_output(gone, "ready");
  const auto pid = wait_for(gone, Phase::kRunning).pid;
  client_.reset();
  {
    const std::lock_guard lock(mutex_);
    events_.clear();
  }
  ASSERT_TRUE(ShimClient::shim_alive(dir));
  ASSERT_GT(pid, 1);
  ::kill(static_cast<pid_t>(pid), SIGTERM);  // ends while nobody looks
  const auto until = Steady::now() + seconds(20);
  while (::access((gone + "/exit").c_str(), F_OK) != 0 && Steady::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  start_client();
  ASSERT_TRUE(client_->attach(dir));
  ASSERT_TRUE(client_->attach(gone));
  EXPECT_EQ(end_of(gone).code, 42);
  EXPECT_EQ(wait_for(dir, Phase::kRunning).phase, Phase::kRunning);
  EXPECT_EQ(client_->spawn(dir, helper("exit")).error().code, Errc::kAlreadyExists);
  ASSERT_TRUE(client_->stop(dir, seconds(20), Cause::kUserKill));
  EXPECT_EQ(end_of(dir).code, 42);
}

TEST_F(Shim, AShimKilledIsNoticedAndItsTreeDies) {
  for (const bool use_cgroup : {true, false}) {
    Spec spec = helper("brood");
    spec.use_cgroup = use_cgroup;
    const auto dir = spawn(use_cgroup ? "cgroup" : "mark", spec);
    wait_output(dir, "ready");
    EXPECT_EQ(left_of(spec.mark).size(), 4u);
    ::kill(shim_pid(dir), SIGKILL);
    const auto end = end_of(dir);
    EXPECT_EQ(end.cause, Cause::kShimLost);
    EXPECT_EQ(left_of(spec.mark).size(), 0u);
  }
}

TEST_F(Shim, OrphansOfADeadShimAreReapedWithoutAClient) {
  const SystemClock clock;
  const Spec spec = helper("brood");
  const auto dir = spawn("a", spec);
  wait_output(dir, "ready");
  client_.reset();
  EXPECT_EQ(OrphanReaper::begin(dir, clock.now(), seconds(1)).error().code,
            Errc::kFailedPrecondition);
  const pid_t shim = shim_pid(dir);
  ::kill(shim, SIGKILL);
  ::waitpid(shim, nullptr, 0);
  {
    auto reaper = OrphanReaper::begin(dir, clock.now(), seconds(20));
    ASSERT_TRUE(reaper) << reaper.error().to_string();
    while (!reaper->step(clock.now())) std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(reaper->result().cause, EndCause::kShimLost);
  }
  EXPECT_EQ(left_of(spec.mark).size(), 0u);
  // What was found is kept for whoever asks next.
  start_client();
  ASSERT_TRUE(client_->attach(dir));
  EXPECT_EQ(end_of(dir).cause, Cause::kShimLost);
}

TEST_F(Shim, ManyTasksAtOnce) {
  std::vector<std::string> dirs;
  for (int i = 0; i < 40; ++i)
    dirs.push_back(spawn(std::to_string(i), helper("exit", std::to_string(i))));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(end_of(dirs[static_cast<std::size_t>(i)]).code, i);
}

TEST_F(Shim, AStrayShimProgramIsAStartFailure) {
  ShimClient::Options options;
  options.shim_program = "/no/such/shim";
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<ShimEvent> events;
  options.on_event = [&](const ShimEvent& e) {
    const std::lock_guard lock(mutex);
    events.push_back(e);
    changed.notify_all();
  };
  auto client = ShimClient::start(std::move(options)).value();
  ASSERT_TRUE(client->spawn(new_dir("a"), helper("exit")));
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, seconds(20), [&] { return !events.empty(); }));
  EXPECT_EQ(events.front().end.cause, Cause::kStartFailed);
  EXPECT_NE(events.front().end.detail.find("/no/such/shim"), std::string::npos);
  lock.unlock();
  client.reset();
}

}  // namespace
}  // namespace dlrun::shim
