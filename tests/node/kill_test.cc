// kill -9 of every kind of process at random moments of real training jobs (two workers, two
// shards, feeders), one cluster for all. A job outlives its coordinator, agents and feeders: it is
// struck several times, must succeed, and its workers must have read every row of every pass
// exactly once. It does not outlive a worker, a shard or a shim: the right one is named. After
// each, no process is left but daemons and feeders, not even a dead one, no memory of the input
// pipe, and no descriptor.
// DLRUN_LONG: 50 moments per kind instead of 5. The seed is printed; DLRUN_SEED replays it.

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/base/rng.h"
#include "tests/node/process.h"
#include "tests/node/processes.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

/// What the process holds open, by kind: "socket" or "anon_inode" 12 times, a file once.
std::map<std::string, int> descriptors(pid_t pid) {
  std::map<std::string, int> out;
  std::error_code gone;
  for (auto it = std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone);
       !gone && it != std::filesystem::directory_iterator(); it.increment(gone)) {
    std::error_code closed;
    const std::string what = std::filesystem::read_symlink(it->path(), closed);
    if (!closed) ++out[what.substr(0, what.find(":["))];
  }
  return out;
}

/// Segments of the input pipe that the process holds or maps.
std::size_t memfds(pid_t pid) {
  const std::string proc = "/proc/" + std::to_string(pid);
  const std::string maps = text_of(proc + "/maps");
  std::size_t n = 0;
  for (std::size_t at = 0; (at = maps.find("memfd:dlrun-", at)) != std::string::npos; ++at) ++n;
  std::error_code gone;
  for (auto it = std::filesystem::directory_iterator(proc + "/fd", gone);
       !gone && it != std::filesystem::directory_iterator(); it.increment(gone)) {
    std::error_code closed;
    n += std::filesystem::read_symlink(it->path(), closed).string().find("memfd:dlrun-") !=
         std::string::npos;
  }
  return n;
}

/// Children of `parents` that ended and that nobody waited for.
std::string zombies_of(const std::vector<pid_t>& parents) {
  std::string out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (std::atoi(entry.path().filename().c_str()) <= 0) continue;
    const std::string stat = text_of(entry.path() / "stat");  // pid (name) state parent ...
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(stat.substr(name_end + 1));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    if (state == 'Z' && std::find(parents.begin(), parents.end(), parent) != parents.end())
      out += " zombie " + stat.substr(0, name_end + 1);
  }
  return out;
}

const std::vector<std::string> kLost = {"--suspect-ms", "1500", "--lost-ms", "20000"};
constexpr int kRows = 3000;
constexpr int kPasses = 40;
constexpr int kStrikesPerJob = 5;

/// The cluster of all tests here.
struct World {
  World() {
    std::ofstream file(cluster / "train.libsvm");
    for (int row = 0; row < kRows; ++row)
      file << row % 2 << ' ' << row << ":1 " << 1000000 + row << ":0.5\n";
    file.close();  // the daemons would inherit it
    cluster.start_coordinator(kLost);
    for (const char* name : {"n0", "n1"}) cluster.start_agent(name);
    wait_nodes();
  }
  void wait_nodes() {
    cluster.wait("/api/v1/nodes", [](const json& body) {
      int up = 0;
      for (const json& node : body.at("nodes")) up += node.value("state", "") == "up";
      return up == 2;
    });
  }
  std::vector<pid_t> daemons() {
    return {cluster.coordinator().pid(), cluster.agent("n0").pid(), cluster.agent("n1").pid()};
  }
  TestCluster cluster;
  int jobs = 0;
  bool warm = false;  ///< two jobs have run: the daemons hold what they keep
};

class Kill : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    const char* text = std::getenv("DLRUN_SEED");
    const auto clock = std::chrono::system_clock::now().time_since_epoch().count();
    const std::uint64_t seed =
        text != nullptr ? std::strtoull(text, nullptr, 10) : static_cast<std::uint64_t>(clock);
    std::printf("DLRUN_SEED=%llu\n", static_cast<unsigned long long>(seed));
    rng_ = SplitMix64(seed);
    world_ = std::make_unique<World>();
  }
  static void TearDownTestSuite() { world_.reset(); }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "%s", cluster().logs().c_str());
  }
  TestCluster& cluster() { return world_->cluster; }
  static int moments() { return std::getenv("DLRUN_LONG") != nullptr ? 50 : 5; }
  static void pause(std::uint64_t ms_below) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rng_.below(ms_below)));
  }

  std::string out() { return cluster() / ("out" + std::to_string(world_->jobs)); }
  std::string gate() { return cluster() / ("gate" + std::to_string(world_->jobs)); }
  void open_gate() { std::ofstream(gate()) << "x"; }

  std::string train(int passes) {
    ++world_->jobs;
    const json spec{
        {"name", "train"},
        {"owner", "tester"},
        {"cwd", cluster() / ""},
        {"failure_grace", 1},
        {"grace", 1},
        {"role",
         {{"worker", {{"argv", {DLRUN_KILL_WORKER, out(), gate()}}, {"count", 2}, {"after", "ps"}}},
          {"ps", {{"program", "shard-host"}, {"count", 2}}}}},
        {"input",
         {{"train",
           {{"uri", cluster() / "train.libsvm"},
            {"format", "libsvm"},
            {"batch_rows", 64},
            {"split_bytes", 2048},
            {"passes", passes}}}}}};
    HttpAnswer answer;
    within(std::chrono::seconds(20), [&] {
      answer = cluster().post("/api/v1/jobs", spec);
      return answer.status != 0 && answer.status != 503;
    });
    EXPECT_LT(answer.status, 300) << answer.body.dump();
    return answer.body.value("id", "?");
  }

  json wait_final(const std::string& job) {
    return cluster().wait(
        "/api/v1/jobs/" + job, [](const json& view) { return view.value("final", false); },
        std::chrono::seconds(180));
  }

  json wait_running(const std::string& job) {
    return cluster().wait("/api/v1/jobs/" + job, [](const json& view) {
      if (view.value("state", "") != "RUNNING") return false;
      for (const json& task : view.at("tasks"))
        if (task.value("pid", 0) <= 0) return false;
      return true;
    });
  }

  /// Its shards are not told of here; workers' rows, pass by pass.
  void expect_every_row_once(int passes) {
    std::map<std::pair<unsigned, int>, int> seen;
    for (const char* rank : {".0", ".1"}) {
      std::ifstream file(out() + rank);
      EXPECT_TRUE(file) << out() << rank;
      for (unsigned pass, id; file >> pass >> id;) ++seen[{pass, static_cast<int>(id)}];
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kRows) * static_cast<std::size_t>(passes))
        << "rows are missing";
    for (const auto& [row, times] : seen) {
      if (times == 1) continue;
      ADD_FAILURE() << "row " << row.second << " of pass " << row.first << " was read " << times
                    << " times";
      break;
    }
  }

  std::vector<Running> others() { return processes_of(cluster() / "", world_->daemons()); }

  void expect_quiet() {
    std::string left;
    const bool quiet = within(std::chrono::seconds(20), [&] {
      left = zombies_of(world_->daemons());
      for (const Running& p : others()) {
        if (!is_feeder(p)) left += " " + std::to_string(p.pid) + ":" + p.cmdline;
        if (memfds(p.pid) != 0) left += " memfd of " + std::to_string(p.pid);
      }
      return left.empty();
    });
    EXPECT_TRUE(quiet) << "left:" << left;
    world_->wait_nodes();
  }

  using Descriptors = std::vector<std::map<std::string, int>>;
  Descriptors descriptors_of_daemons() {
    Descriptors out;
    for (const pid_t pid : world_->daemons()) out.push_back(descriptors(pid));
    return out;
  }

  /// Of no kind more than before. Fewer is no fault: a connection may have been ending then.
  static bool no_more(const Descriptors& now, const Descriptors& before) {
    return now.size() == before.size() &&
           std::equal(now.begin(), now.end(), before.begin(), [](const auto& a, const auto& b) {
             return std::all_of(a.begin(), a.end(), [&](const auto& kind) {
               const auto had = b.find(kind.first);
               return had != b.end() && kind.second <= had->second;
             });
           });
  }

  void run_one() {
    const std::string job = train(1);
    open_gate();
    ASSERT_EQ(wait_final(job).value("state", ""), "SUCCEEDED");
    expect_every_row_once(1);
    expect_quiet();
  }

  /// What a strike at a job that it outlives hits.
  void strike(const std::string& kind) {
    if (kind == "coordinator") {
      cluster().kill_coordinator(SIGKILL);
      cluster().start_coordinator(kLost);
    } else if (kind == "agent") {
      const std::string name = rng_.below(2) == 0 ? "n0" : "n1";
      cluster().kill_agent(name, SIGKILL);
      cluster().start_agent(name);
    } else {
      std::vector<pid_t> feeders;
      ASSERT_TRUE(within(std::chrono::seconds(20), [&] {
        feeders.clear();
        for (const Running& p : others())
          if (is_feeder(p) && !is_shim(p)) feeders.push_back(p.pid);
        return !feeders.empty();
      })) << "no feeder to kill";
      ::kill(feeders[rng_.below(feeders.size())], SIGKILL);
    }
  }

  void expect_survives(const std::string& kind) {
    const std::string job = train(kPasses);
    wait_running(job);
    for (int i = 0; i < kStrikesPerJob && !HasFatalFailure(); ++i) {
      pause(700);
      strike(kind);
    }
    pause(500);
    open_gate();
    const json view = wait_final(job);
    EXPECT_EQ(view.value("state", ""), "SUCCEEDED") << view.dump();
    EXPECT_EQ(view.at("exit_code"), 0) << view.dump();
    for (const json& task : view.at("tasks")) {
      if (task.at("role") != "ps") continue;
      const std::string cause = task.at("end").value("cause", "");  // which of the two is a race
      EXPECT_TRUE(cause == "stopped" || (cause == "exit" && task.at("end").at("code") == 0))
          << view.dump();
    }
    expect_every_row_once(kPasses);
    if (HasFailure()) print_workers(job);
  }

  void print_workers(const std::string& job) {
    for (const char* task : {"worker/0", "worker/1", "ps/0", "ps/1"})
      std::fprintf(stderr, "%s: %s\n", task,
                   cluster().get_text("/api/v1/jobs/" + job + "/logs/" + task + "/stderr").c_str());
  }

  /// A worker, a shard, or the shim of one of them; which task it was.
  std::string kill_one(const json& view, const std::string& kind) {
    std::vector<std::pair<pid_t, std::string>> candidates;
    for (const json& task : view.at("tasks")) {
      const std::string role = task.at("role"), rank = std::to_string(task.value("rank", 99));
      if (kind == role) candidates.emplace_back(task.value("pid", 0), role + "/" + rank);
      if (kind != "shim") continue;
      const std::string dir = "." + role + "." + rank + ".g";
      for (const Running& p : others())
        if (is_shim(p) &&
            p.cmdline.find("/" + view.at("id").get<std::string>() + dir) != std::string::npos)
          candidates.emplace_back(p.pid, role + "/" + rank);
    }
    if (candidates.empty()) return "";
    const auto& [pid, name] = candidates[rng_.below(candidates.size())];
    return pid > 0 && ::kill(pid, SIGKILL) == 0 ? name : "";
  }

  void expect_named(const std::string& kind) {
    const std::string job = train(kPasses);
    const json running = wait_running(job);
    pause(500);
    const std::string who = kill_one(running, kind);
    if (HasFailure() || who.empty()) print_workers(job);
    ASSERT_NE(who, "") << "no " << kind << " to kill: " << running.dump();
    const json view = wait_final(job);
    EXPECT_EQ(view.value("state", ""), kind == "shim" ? "LOST" : "FAILED") << view.dump();
    EXPECT_EQ(view.at("exit_code"), kind == "shim" ? 121 : 128 + SIGKILL) << view.dump();
    const json& first = view.at("first_failed");
    const std::string named = first.is_object() ? first.at("role").get<std::string>() + "/" +
                                                      std::to_string(first.value("rank", 99))
                                                : first.dump();
    EXPECT_NE(named.find(who), std::string::npos)
        << "killed: " << who << ", named: " << view.dump();
    if (HasFailure()) print_workers(job);
  }

  static std::unique_ptr<World> world_;
  static SplitMix64 rng_;
};

std::unique_ptr<World> Kill::world_;
SplitMix64 Kill::rng_{0};

TEST_P(Kill, LeavesTheRightEndAndNothingElse) {
  const std::string kind = GetParam();
  if (!std::exchange(world_->warm, true)) {
    run_one();
    run_one();
  }
  const auto before = descriptors_of_daemons();

  const bool outlived = kind == "coordinator" || kind == "agent" || kind == "feeder";
  const int jobs = outlived ? moments() / kStrikesPerJob : moments();
  for (int i = 0; i < jobs && !HasFailure(); ++i) {
    outlived ? expect_survives(kind) : expect_named(kind);
    expect_quiet();
  }

  run_one();  // the cluster still works
  EXPECT_TRUE(
      within(std::chrono::seconds(10), [&] { return no_more(descriptors_of_daemons(), before); }))
      << "before: " << json(before) << "\nafter: " << json(descriptors_of_daemons());
}

INSTANTIATE_TEST_SUITE_P(Each, Kill,
                         ::testing::Values("coordinator", "agent", "feeder", "shim", "worker",
                                           "ps"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dlrun::node
