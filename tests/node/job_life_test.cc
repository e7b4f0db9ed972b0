// The states of a job beyond queued, running and over, with real processes: held, requeued,
// committing; services; logs of earlier starts.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/node/process.h"

namespace dlrun::node {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct JobLife : ::testing::Test {
  void SetUp() override {
    cluster.start_coordinator();
    cluster.start_agent("n0");
    cluster.wait("/api/v1/nodes", [](const json& body) {
      return body.at("nodes").size() == 1 && body["nodes"][0].value("state", "") == "up";
    });
  }
  std::string submit(json job) {
    job["name"] = "life";
    job["owner"] = "test";
    job["cwd"] = "/";
    const HttpAnswer answer = cluster.post("/api/v1/jobs", job);
    EXPECT_EQ(answer.status, 201) << answer.text;
    return answer.body.value("id", "");
  }
  static json shell(const std::string& script) {
    return {{"argv", {"/bin/sh", "-c", script}}, {"cpus", 0.1}};
  }
  json wait_state(const std::string& job, const std::string& state) {
    return cluster.wait("/api/v1/jobs/" + job,
                        [&](const json& v) { return v.value("state", "") == state; });
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  TestCluster cluster;
};

TEST_F(JobLife, AHeldJobRunsAfterItsReleaseAndARequeuedOneRunsAgainWithAllItsLogs) {
  const std::string gate = cluster / "gate";
  const std::string job = submit({{"hold", true},
                                  {"role",
                                   {{"main", shell("echo start $DLRUN_GENERATION; [ -e " + gate +
                                                   " ] && exit 4; trap 'echo term; exit 0' TERM; "
                                                   "while :; do sleep 0.05; done")}}}});
  EXPECT_EQ(wait_state(job, "HELD").value("reason", ""), "is held: it waits for dlrun release");
  EXPECT_EQ(cluster.post("/api/v1/jobs/" + job + "/requeue", json::object()).status, 409);
  EXPECT_EQ(cluster.post("/api/v1/jobs/" + job + "/release", json::object()).status, 200);
  wait_state(job, "RUNNING");
  EXPECT_EQ(cluster.post("/api/v1/jobs/" + job + "/hold", json::object()).status, 409);
  const std::string log = "/api/v1/jobs/" + job + "/logs/main/0/stdout";
  for (int i = 0; i < 600 && cluster.get_text(log).find("start 1\n") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(cluster.post("/api/v1/jobs/" + job + "/requeue", {{"hold", true}}).status, 202);
  const json held = wait_state(job, "HELD");
  EXPECT_EQ(held.value("generation", 0), 2);
  std::ofstream(gate).put('x');
  EXPECT_EQ(cluster.post("/api/v1/jobs/" + job + "/release", json::object()).status, 200);
  const json over = cluster.wait_final(job);
  EXPECT_EQ(over.value("exit_code", -1), 4) << over.dump();
  // Every start's output is there, by number and in the stream of all.
  for (int i = 0; i < 600 && cluster.get_text(log + "?generation=2").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(cluster.get_text(log + "?generation=1"), "start 1\nterm\n");
  EXPECT_EQ(cluster.get_text(log + "?generation=2"), "start 2\n");
  const std::string all = cluster.get_text("/api/v1/jobs/" + job + "/logs");
  EXPECT_NE(all.find("\"generation\":1"), std::string::npos) << all;
  EXPECT_NE(all.find("\"generation\":2"), std::string::npos) << all;
}

TEST_F(JobLife, OutputsAppearWithTheSuccessOfTheJobAndNotBefore) {
  const std::string out = cluster / "models/m1", gate = cluster / "gate";
  const json role = shell("echo w > \"$DLRUN_OUTPUT_MODEL/weights\"; while [ ! -e " + gate +
                          " ]; do sleep 0.05; done; exit $(cat " + gate + ")");
  const json spec{{"role", {{"main", role}}}, {"output", {{"model", {{"path", out}}}}}};
  const std::string failing = submit(spec);
  wait_state(failing, "RUNNING");
  std::ofstream(gate) << "3";
  EXPECT_EQ(cluster.wait_final(failing).value("exit_code", -1), 3);
  EXPECT_FALSE(fs::exists(out));
  fs::remove(gate);
  const std::string good = submit(spec);
  wait_state(good, "RUNNING");
  EXPECT_FALSE(fs::exists(out));
  std::ofstream(gate) << "0";
  EXPECT_EQ(cluster.wait_final(good).value("state", ""), "SUCCEEDED");
  EXPECT_EQ(read(out + "/weights"), "w\n");
  EXPECT_NE(read(out + "/_SUCCESS").find(good), std::string::npos);
  const json again = cluster.wait_final(submit(spec));
  EXPECT_EQ(again.value("state", ""), "FAILED");
  EXPECT_NE(again.dump().find("exists already"), std::string::npos) << again.dump();
  const json events = cluster.get("/api/v1/events?job=" + good).body;
  EXPECT_NE(events.dump().find("commit_granted"), std::string::npos) << events.dump();
}

TEST_F(JobLife, AServiceIsReadyWhenItsPortTakesConnectionsAndOutlivesItsPeers) {
  const std::string order = cluster / "order";
  json server{
      {"kind", "service"},
      {"ready", "port"},
      {"ports", 1},
      {"cpus", 0.1},
      {"argv",
       {"/usr/bin/python3", "-c",
        "import os,socket,time\n"
        "time.sleep(0.3)\n"
        "s=socket.socket(); s.bind(('127.0.0.1', int(os.environ['DLRUN_PORTS'].split(',')[0])))\n"
        "open('" +
            order +
            "','a').write('listens\\n')\n"
            "s.listen()\n"
            "while True: s.accept()\n"}}};
  json client = shell("echo client >> " + order);
  client["after"] = "server";
  const std::string job = submit({{"role", {{"server", server}, {"client", client}}}});
  const json over = cluster.wait_final(job);
  EXPECT_EQ(over.value("state", ""), "SUCCEEDED") << over.dump();
  EXPECT_EQ(read(order), "listens\nclient\n");
}

TEST_F(JobLife, AProgramHasTheLimitsOfItsRole) {
  json main = shell("ulimit -n; ulimit -c; ulimit -f; exit 3");
  main["rlimits"] = {{"nofile", 123},   {"core", 0},       {"fsize", "1MiB"},
                     {"stack", "8MiB"}, {"memlock", 4096}, {"nproc", 4000}};
  const std::string job = submit({{"role", {{"main", main}}}});
  EXPECT_EQ(cluster.wait_final(job).value("exit_code", -1), 3);
  const std::string log = "/api/v1/jobs/" + job + "/logs/main/0/stdout";
  for (int i = 0; i < 600 && cluster.get_text(log).size() < 11; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(cluster.get_text(log), "123\n0\n2048\n");
}

TEST_F(JobLife, ATimeLimitGivesTheJobsGraceAlsoWhileTheCoordinatorIsAway) {
  const std::string pid_file = cluster / "pid";
  const std::string job =
      submit({{"time_limit", "3s"},
              {"grace", "200ms"},
              {"role",
               {{"main", shell("trap '' TERM; echo $$ > " + pid_file + ".new; mv " + pid_file +
                               ".new " + pid_file + "; while :; do sleep 0.05; done")}}}});
  wait_state(job, "RUNNING");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto waits = [&](const std::function<bool()>& holds) {
    while (!holds() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return holds();
  };
  ASSERT_TRUE(waits([&] { return fs::exists(pid_file); }));
  cluster.kill_coordinator(SIGKILL);
  const auto pid = static_cast<pid_t>(std::stol(read(pid_file)));
  EXPECT_TRUE(waits([&] { return ::kill(pid, 0) != 0; })) << "30 s are the shim's own grace";
  cluster.start_coordinator();
  EXPECT_EQ(cluster.wait_final(job).value("state", ""), "TIMEOUT");
}

TEST_F(JobLife, MetricsTellWhatAnOperatorLooksForFirst) {
  submit({{"hold", true}, {"role", {{"main", shell("true")}}}});
  cluster.wait_final(submit({{"role", {{"main", shell("echo hello")}}}}));
  const std::string text = cluster.get_text("/metrics");
  for (const char* line :
       {"dlrun_control_up 1\n", "dlrun_jobs{state=\"HELD\"} 1\n",
        "dlrun_jobs_ended_total{state=\"SUCCEEDED\"} 1\n", "dlrun_nodes{state=\"up\"} 1\n",
        "dlrun_control_messages_refused_total 0\n", "dlrun_queue_jobs 0\n",
        "dlrun_queue_wait_seconds_count 1\n", "dlrun_store_commit_seconds_bucket{le=\"+Inf\"}",
        "dlrun_store_bytes ", "dlrun_log_received_bytes_total ",
        "dlrun_http_responses_total{status=\"201\"} 2\n", "dlrun_http_request_seconds_count ",
        "process_resident_memory_bytes ", "process_open_fds ", "dlrun_node_cpus{node=\"n0\"} "})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace dlrun::node
