// kill -9 of every kind of process at a random moment of a real training job (two workers, two shards, feeders): afterwards the
// job has the right final state and code, the next job succeeds on the same cluster, and no process or descriptor is left over.
// DLRUN_LONG: 50 moments per kind instead of 2 (a moment is a whole training job under sanitizers: seconds). The seed is printed; DLRUN_SEED replays it.

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/base/rng.h"
#include "tests/node/process.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Running {
  pid_t pid = 0;
  std::string cmdline;  ///< words separated by NUL
};

/// Processes that carry `folder` in their command line, environment or working directory, but for `except`.
std::vector<Running> processes_of(const std::string& folder, const std::vector<pid_t>& except) {
  std::vector<Running> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid() || std::find(except.begin(), except.end(), pid) != except.end()) continue;
    const std::string cmdline = text_of(entry.path() / "cmdline");
    std::error_code gone;
    const std::string cwd = std::filesystem::read_symlink(entry.path() / "cwd", gone);
    if (cmdline.find(folder) != std::string::npos || cwd.find(folder) != std::string::npos ||
        text_of(entry.path() / "environ").find(folder) != std::string::npos)
      out.push_back({pid, cmdline});
  }
  return out;
}

std::size_t descriptors(pid_t pid) {
  std::size_t n = 0;
  std::error_code gone;
  for (auto it = std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone);
       !gone && it != std::filesystem::directory_iterator(); it.increment(gone))
    ++n;
  return n;
}

template <class F>
bool within(Duration limit, F done) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class Kill : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    data_ = cluster_ / "data";
    std::filesystem::create_directory(data_);
    Process generator({DLRUN_CTR_GEN, data_, "--rows", "3000", "--test-rows", "500", "--ids", "300"}, cluster_ / "gen.log");
    ASSERT_EQ(generator.wait(std::chrono::seconds(60)), 0) << generator.log();
    cluster_.start_coordinator({"--suspect-ms", "1500", "--lost-ms", "20000"});
    for (const char* name : {"n0", "n1"}) cluster_.start_agent(name);
    wait_nodes();
  }

  void wait_nodes() {
    cluster_.wait("/api/v1/nodes", [](const json& body) {
      int up = 0;
      for (const json& node : body.at("nodes")) up += node.value("state", "") == "up";
      return up == 2;
    });
  }

  std::vector<pid_t> daemons() {
    return {cluster_.coordinator().pid(), cluster_.agent("n0").pid(), cluster_.agent("n1").pid()};
  }

  std::string train(int passes) {
    const auto input = [&](const char* file, int p) {
      return json{{"uri", data_ + "/" + file}, {"format", "libsvm"}, {"batch_rows", 64}, {"split_bytes", 8192}, {"passes", p}};
    };
    const json spec{
        {"name", "train"}, {"owner", "tester"}, {"cwd", cluster_ / ""}, {"failure_grace", 1}, {"grace", 1},
        {"role",
         {{"worker", {{"argv", {DLRUN_CTR_LR, cluster_ / "model.npy"}}, {"count", 2}, {"after", "ps"}}},
          {"ps", {{"program", "shard-host"}, {"count", 2}}}}},
        {"input", {{"train", input("train.libsvm", passes)}, {"test", input("test.libsvm", 1)}}}};
    HttpAnswer answer;
    within(std::chrono::seconds(20), [&] {
      answer = cluster_.post("/api/v1/jobs", spec);
      return answer.status != 0 && answer.status != 503;
    });
    EXPECT_LT(answer.status, 300) << answer.body.dump();
    return answer.body.value("id", "?");
  }

  json wait_final(const std::string& job) {
    return cluster_.wait("/api/v1/jobs/" + job, [](const json& view) { return view.value("final", false); },
                         std::chrono::seconds(180));
  }

  json tasks_running(const std::string& job) {
    return cluster_.wait("/api/v1/jobs/" + job, [](const json& view) {
      if (view.value("state", "") != "RUNNING") return false;
      for (const json& task : view.at("tasks"))
        if (task.value("pid", 0) <= 0) return false;
      return true;
    });
  }

  /// A process of the kind that GetParam() names, or 0.
  pid_t victim(const json& view, SplitMix64& rng) {
    const std::string kind = GetParam();
    std::vector<pid_t> candidates;
    if (kind == "worker" || kind == "ps") {
      for (const json& task : view.at("tasks"))
        if (task.at("role").get<std::string>() == kind) candidates.push_back(task.value("pid", 0));
    } else {
      for (const Running& p : processes_of(cluster_ / "", daemons())) {
        const bool shim = p.cmdline.find("dlrun-shim") != std::string::npos;
        const bool feeder = p.cmdline.find(std::string("feeder") + '\0') != std::string::npos;
        if (kind == "shim" ? shim && p.cmdline.find(".worker.") != std::string::npos : feeder && !shim) candidates.push_back(p.pid);
      }
    }
    return candidates.empty() ? 0 : candidates[rng.below(candidates.size())];
  }

  void strike(const std::string& job, SplitMix64& rng) {
    const json view = tasks_running(job);
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.below(500)));
    const std::string kind = GetParam();
    if (kind == "coordinator") {
      cluster_.kill_coordinator(SIGKILL);
      cluster_.start_coordinator({"--suspect-ms", "1500", "--lost-ms", "20000"});
    } else if (kind == "agent") {
      const std::string name = rng.below(2) == 0 ? "n0" : "n1";
      cluster_.kill_agent(name, SIGKILL);
      cluster_.start_agent(name);
    } else {
      pid_t pid = 0;  // a feeder starts when a worker asks for it
      ASSERT_TRUE(within(std::chrono::seconds(10), [&] { return (pid = victim(view, rng)) > 0; })) << "no " << kind << " to kill";
      ::kill(pid, SIGKILL);
    }
  }

  void judge(const json& view) {
    const std::string kind = GetParam();
    const std::string state = view.value("state", "");
    const int code = view.at("exit_code").is_number() ? view.at("exit_code").get<int>() : -1;
    if (kind == "coordinator" || kind == "agent") {
      EXPECT_EQ(state, "SUCCEEDED") << view.dump();
      EXPECT_EQ(code, 0);
    } else if (kind == "worker" || kind == "ps") {
      EXPECT_EQ(state, "FAILED") << view.dump();
      EXPECT_EQ(code, 128 + SIGKILL) << view.dump();
      EXPECT_NE(view.at("first_failed").dump().find(kind), std::string::npos) << view.dump();
    } else if (kind == "shim") {
      EXPECT_EQ(state, "LOST") << view.dump();
      EXPECT_NE(code, 0);
    } else {  // the feeder: its workers read on through the next one, or the job says that they could not
      EXPECT_TRUE(state == "SUCCEEDED" || (state == "FAILED" && code != 0)) << view.dump();
    }
  }

  TestCluster cluster_;
  std::string data_;
};

TEST_P(Kill, LeavesTheRightEndAndNothingElse) {
  const char* seed_text = std::getenv("DLRUN_SEED");
  const std::uint64_t seed = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10)
                                                  : static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::printf("DLRUN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  SplitMix64 rng(seed);
  EXPECT_EQ(wait_final(train(1)).value("state", ""), "SUCCEEDED");  // starts the feeders
  const auto quiet = [&] {
    for (const Running& p : processes_of(cluster_ / "", daemons()))
      if (p.cmdline.find("feeder") == std::string::npos) return false;
    return true;
  };
  ASSERT_TRUE(within(std::chrono::seconds(20), quiet));
  const std::size_t before = descriptors(cluster_.agent("n0").pid()) + descriptors(cluster_.agent("n1").pid());

  const int rounds = std::getenv("DLRUN_LONG") != nullptr ? 50 : 2;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const std::string job = train(6);
    strike(job, rng);
    judge(wait_final(job));
    if (HasFailure())
      for (const char* rank : {"0", "1"})
        std::fprintf(stderr, "worker %s: %s\n", rank,
                     cluster_.get_text("/api/v1/jobs/" + job + "/logs/worker/" + rank + "/stderr").c_str());
    EXPECT_TRUE(within(std::chrono::seconds(20), quiet)) << "round " << round << ": processes left";
    wait_nodes();
  }
  EXPECT_EQ(wait_final(train(1)).value("state", ""), "SUCCEEDED") << "the cluster still works";
  EXPECT_TRUE(within(std::chrono::seconds(20), quiet));
  EXPECT_TRUE(within(std::chrono::seconds(10), [&] {
    return descriptors(cluster_.agent("n0").pid()) + descriptors(cluster_.agent("n1").pid()) <= before + 2;
  })) << "descriptors: " << before << " before, "
      << descriptors(cluster_.agent("n0").pid()) + descriptors(cluster_.agent("n1").pid()) << " after";
}

INSTANTIATE_TEST_SUITE_P(Each, Kill, ::testing::Values("coordinator", "agent", "shim", "feeder", "worker", "ps"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dlrun::node
