// Jobs of frameworks on real agents: what their programs find, and whose end ends them. The
// programs are shells; real frameworks have tests of their own.

#include <gtest/gtest.h>

#include <chrono>

#include "tests/node/process.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

struct Frameworks : ::testing::Test {
  void SetUp() override {
    cluster.start_coordinator();
    cluster.start_agent("n0");
    cluster.start_agent("n1");
    cluster.wait("/api/v1/nodes", [](const json& body) {
      int up = 0;
      for (const json& node : body.at("nodes")) up += node.value("state", "") == "up";
      return up == 2;
    });
  }
  /// Submits, and waits for the end.
  json run(const std::string& framework, json roles) {
    const json job = {
        {"name", "f"}, {"owner", "test"}, {"cwd", "/"}, {"framework", framework}, {"role", roles}};
    const HttpAnswer answer = cluster.post("/api/v1/jobs", job);
    EXPECT_EQ(answer.status, 201) << answer.text;
    return cluster.wait_final(answer.body.value("id", ""));
  }
  static json shell(const std::string& script, int count = 1) {
    return {{"argv", {"/bin/sh", "-c", script}}, {"cpus", 0.1}, {"count", count}, {"linger", 1}};
  }
  static json task_of(const json& job, const std::string& role) {
    for (const json& task : job.at("tasks"))
      if (task.value("role", "") == role) return task;
    return {};
  }
  TestCluster cluster;
};

TEST_F(Frameworks, EveryWorkerFindsTheMachineListWithItselfInIt) {
  const json job = run("lightgbm", {{"worker", shell("set -e\n"
                                                     "test $(wc -l <$LIGHTGBM_MACHINE_LIST) = 2\n"
                                                     "grep -q \"^$DLRUN_ADDRESS "
                                                     "$LIGHTGBM_LOCAL_LISTEN_PORT\\$\" "
                                                     "$LIGHTGBM_MACHINE_LIST\n"
                                                     "test $LIGHTGBM_NUM_MACHINE = 2\n"
                                                     "test $OMP_NUM_THREADS = 1\n"
                                                     "test -n \"$GLOO_SOCKET_IFNAME\"",
                                                     2)}});
  EXPECT_EQ(job.value("state", ""), "SUCCEEDED") << job.dump();
}

TEST_F(Frameworks, TheChiefsExitEndsTheJobOfServersThatWouldServeForEver) {
  const auto before = std::chrono::steady_clock::now();
  const std::string forever = "exec sleep 300";
  const json job = run("tensorflow", {{"chief", shell("test $TF_ROLE$TF_INDEX = chief0 && case "
                                                      "\"$TF_CONFIG\" in *'\"ps\":['*) ;; *) exit "
                                                      "5;; esac")},
                                      {"worker", shell(forever, 2)},
                                      {"ps", shell(forever)},
                                      {"evaluator", shell("exit 7")}});
  EXPECT_EQ(job.value("state", ""), "SUCCEEDED") << job.dump();
  EXPECT_EQ(job.value("exit_code", -1), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
  EXPECT_EQ(task_of(job, "ps").at("end").value("cause", ""), "stopped") << job.dump();
}

TEST_F(Frameworks, AServerThatDiesFailsTheJobAndIsNamed) {
  const json job =
      run("mxnet", {{"worker", shell("exec sleep 300", 2)},
                    {"server", shell("test $DLRUN_ROLE = server && test -n \"$PORT\" && exit 9")}});
  EXPECT_EQ(job.value("state", ""), "FAILED") << job.dump();
  EXPECT_EQ(job.value("exit_code", -1), 9);
  EXPECT_NE(job.value("reason", "").find("server"), std::string::npos) << job.dump();
  EXPECT_FALSE(task_of(job, "scheduler").is_null()) << "it was added";
}

TEST_F(Frameworks, AJobThatItsFrameworkCannotHaveIsRefusedWithTheReason) {
  const json job = {{"name", "f"},
                    {"owner", "test"},
                    {"framework", "tensorflow"},
                    {"role", {{"chef", shell("true")}, {"worker", shell("true")}}}};
  const HttpAnswer answer = cluster.post("/api/v1/jobs", job);
  EXPECT_EQ(answer.status, 400) << answer.text;
  EXPECT_NE(answer.text.find("chief, worker, ps, evaluator"), std::string::npos) << answer.text;
}

}  // namespace
}  // namespace dlrun::node
