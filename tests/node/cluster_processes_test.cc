// A coordinator and agents as real processes on the loopback, asked over REST.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/node/process.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

int nodes_up(const json& body) {
  const json& nodes = body.is_array() ? body : body.at("nodes");
  int up = 0;
  for (const json& node : nodes) up += node.value("state", "") == "up";
  return up;
}

struct ClusterProcesses : ::testing::Test {
  void start(int agents) {
    cluster.start_coordinator();
    for (int i = 0; i < agents; ++i) cluster.start_agent("n" + std::to_string(i));
    cluster.wait("/api/v1/nodes", [&](const json& body) { return nodes_up(body) == agents; });
  }
  bool task_gone(pid_t pid) const { return ::kill(pid, 0) != 0; }
  pid_t running_pid(const std::string& job) {
    const json view = cluster.wait("/api/v1/jobs/" + job, [](const json& v) {
      return v.value("state", "") == "RUNNING" && v.contains("tasks") &&
             v["tasks"][0].value("pid", 0) > 0;
    });
    return view["tasks"][0].value("pid", 0);
  }
  TestCluster cluster;
};

TEST_F(ClusterProcesses, TrueSucceedsAndFalseFailsWithItsCode) {
  start(2);
  EXPECT_EQ(cluster.wait_final(cluster.submit({"/bin/true"})).value("state", ""), "SUCCEEDED");
  const json failed = cluster.wait_final(cluster.submit({"/bin/sh", "-c", "exit 7"}));
  EXPECT_EQ(failed.value("state", ""), "FAILED");
  EXPECT_EQ(failed.value("exit_code", -1), 7);
  const json missing = cluster.wait_final(cluster.submit({"/no/such/program"}));
  EXPECT_EQ(missing.value("state", ""), "FAILED");
  EXPECT_NE(missing.dump().find("/no/such/program"), std::string::npos) << missing.dump();
}

TEST_F(ClusterProcesses, GangRunsOnAllItsRanks) {
  start(2);
  const std::string out = cluster / "out";
  std::filesystem::create_directory(out);
  const json view = cluster.wait_final(
      cluster.submit({"/bin/sh", "-c", "echo $WORLD_SIZE > " + out + "/$RANK"}, 6));
  EXPECT_EQ(view.value("state", ""), "SUCCEEDED") << view.dump();
  for (int rank = 0; rank < 6; ++rank) {
    std::ifstream file(out + "/" + std::to_string(rank));
    int world = 0;
    EXPECT_TRUE(file >> world) << rank;
    EXPECT_EQ(world, 6);
  }
}

TEST_F(ClusterProcesses, AgentKilledAndRestartedTakesItsTaskUpAgain) {
  start(1);
  const std::string gate = cluster / "gate";
  const std::string job =
      cluster.submit({"/bin/sh", "-c", "while [ ! -e " + gate + " ]; do sleep 0.05; done; exit 3"});
  const pid_t pid = running_pid(job);
  cluster.kill_agent("n0", SIGKILL);
  EXPECT_FALSE(task_gone(pid)) << "the task outlives its agent";
  cluster.start_agent("n0");
  cluster.wait("/api/v1/nodes", [&](const json& body) { return nodes_up(body) == 1; });
  std::ofstream(gate).put('x');
  const json view = cluster.wait_final(job);
  EXPECT_EQ(view.value("state", ""), "FAILED");
  EXPECT_EQ(view.value("exit_code", -1), 3) << view.dump();
}

TEST_F(ClusterProcesses, CoordinatorKilledAndRestartedGoesOnWithTheJob) {
  start(2);
  const std::string done = cluster.submit({"/bin/true"});
  cluster.wait_final(done);
  const std::string gate = cluster / "gate";
  const std::string job =
      cluster.submit({"/bin/sh", "-c", "while [ ! -e " + gate + " ]; do sleep 0.05; done; exit 5"});
  const pid_t pid = running_pid(job);
  cluster.kill_coordinator(SIGKILL);
  EXPECT_FALSE(task_gone(pid));
  cluster.start_coordinator();
  EXPECT_EQ(running_pid(job), pid) << "the same process, not another";
  std::ofstream(gate).put('x');
  EXPECT_EQ(cluster.wait_final(job).value("exit_code", -1), 5);
  EXPECT_EQ(cluster.wait_final(done).value("state", ""), "SUCCEEDED")
      << "a finished job is remembered";
}

TEST_F(ClusterProcesses, JobEndsWhileTheCoordinatorIsDown) {
  start(1);
  const std::string gate = cluster / "gate";
  const std::string job =
      cluster.submit({"/bin/sh", "-c", "while [ ! -e " + gate + " ]; do sleep 0.05; done; exit 9"});
  const pid_t pid = running_pid(job);
  cluster.kill_coordinator(SIGKILL);
  std::ofstream(gate).put('x');
  for (int i = 0; i < 500 && !task_gone(pid); ++i) ::usleep(10'000);
  EXPECT_TRUE(task_gone(pid));
  cluster.start_coordinator();
  EXPECT_EQ(cluster.wait_final(job).value("exit_code", -1), 9);
}

TEST_F(ClusterProcesses, KillEndsTheTree) {
  start(1);
  const std::string job = cluster.submit({"/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"});
  const pid_t pid = running_pid(job);
  EXPECT_LT(cluster.post("/api/v1/jobs/" + job + "/kill", {{"reason", "test"}}).status, 300);
  EXPECT_EQ(cluster.wait_final(job).value("state", ""), "CANCELLED");
  EXPECT_TRUE(task_gone(pid));
}

TEST_F(ClusterProcesses, AFailedRankIsNamedAndItsSiblingsGetTermWithinTwoSeconds) {
  start(2);
  const std::string out = cluster / "times";
  std::filesystem::create_directory(out);
  const auto stamp = [&](const std::string& name) { return "date +%s.%N > " + out + "/" + name; };
  const std::string job = cluster.submit(
      {"/bin/sh", "-c",
       "cd " + out + "; trap '" + stamp("$RANK") +
           "; exit 0' TERM; touch up$RANK; "
           "if [ $RANK = 1 ]; then while [ ! -e up0 ] || [ ! -e up2 ]; do sleep 0.02; done; " +
           stamp("$RANK") + "; exit 7; fi; while :; do sleep 0.02; done"},
      3);
  const json view = cluster.wait_final(job);
  EXPECT_EQ(view.value("exit_code", -1), 7) << view.dump();
  EXPECT_NE(view.value("first_failed", "").find("worker/1"), std::string::npos) << view.dump();
  const auto time_of = [&](int rank) {
    double time = 0;
    std::ifstream(out + "/" + std::to_string(rank)) >> time;
    return time;
  };
  for (const int rank : {0, 2}) {
    EXPECT_GE(time_of(rank), time_of(1)) << rank;
    EXPECT_LT(time_of(rank), time_of(1) + 2) << rank;
  }
}

TEST_F(ClusterProcesses, ANodeWithoutAGpuSaysSo) {
  start(1);
  const json nodes = cluster.get("/api/v1/nodes").body;
  const bool none = nodes.at("nodes").at(0).at("capacity").at("gpus").empty();
  EXPECT_EQ(none, cluster.agent("n0").log().find("no GPU: ") != std::string::npos);
}

TEST_F(ClusterProcesses, SigtermEndsTheDaemonsInTime) {
  start(1);
  cluster.agent("n0").signal(SIGTERM);
  EXPECT_EQ(cluster.agent("n0").wait(std::chrono::seconds(8)), 0);
  cluster.coordinator().signal(SIGTERM);
  EXPECT_EQ(cluster.coordinator().wait(std::chrono::seconds(8)), 0);
}

}  // namespace
}  // namespace dlrun::node
