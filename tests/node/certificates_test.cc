// Certificates over their life, with real daemons: renewed in time, revoked at run time, gone for
// good.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/node/process.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

struct Certificates : ::testing::Test {
  std::string state_of(const std::string& name) {
    const json body = cluster.get("/api/v1/nodes").body;
    if (body.is_object())
      for (const json& node : body.at("nodes"))
        if (node.value("id", "") == name) return node.value("state", "");
    return "";
  }
  bool wait_for(const std::function<bool()>& done, Duration limit = std::chrono::seconds(40)) {
    const SystemClock clock;
    for (const TimePoint until = clock.now() + limit; !done(); ::usleep(50'000))
      if (clock.now() > until) return false;
    return true;
  }
  bool wait_state(const std::string& name, const std::string& state) {
    return wait_for([&] { return state_of(name) == state; });
  }
  json certificates_of(const std::string& name) {
    json out = json::array();
    const json body = cluster.get("/api/v1/certificates").body;
    if (body.is_object())
      for (const json& c : body.at("certificates"))
        if (c.at("node") == name) out.push_back(c);
    return out;
  }
  TestCluster cluster;
};

TEST_F(Certificates, AreRenewedBeforeTheyEndOnBothSides) {
  const SystemClock clock;
  cluster.start_coordinator({"--certificate-life-s", "12"});
  cluster.start_agent("n0");
  ASSERT_TRUE(wait_state("n0", "up")) << cluster.logs();
  const TimePoint first_is_over = clock.now() + std::chrono::seconds(13);
  ASSERT_EQ(certificates_of("n0").size(), 1u);
  ASSERT_TRUE(wait_for([&] {
    return clock.now() > first_is_over && certificates_of("n0").size() >= 2 &&
           cluster.coordinator().log().find("certificate is renewed") != std::string::npos;
  })) << cluster.logs();
  EXPECT_EQ(state_of("n0"), "up");
  // Everything that stands now stands on renewed ones: an agent that comes back, a machine that
  // joins, a coordinator that restarts.
  cluster.kill_agent("n0", SIGKILL);
  cluster.start_agent("n0");
  cluster.start_agent("n1");
  EXPECT_TRUE(wait_state("n1", "up")) << cluster.logs();
  EXPECT_TRUE(wait_for([&] {
    return count_of(cluster.agent("n0").log(), "connected to the coordinator") >= 2;
  })) << cluster.logs();
  cluster.kill_coordinator(SIGKILL);
  cluster.start_coordinator({"--certificate-life-s", "12"});
  EXPECT_TRUE(wait_state("n0", "up")) << cluster.logs();
  EXPECT_TRUE(wait_state("n1", "up")) << cluster.logs();
}

TEST_F(Certificates, ARevokedNodeIsCutOffAtOnceAndStaysOut) {
  cluster.start_coordinator();
  cluster.start_agent("n0");
  ASSERT_TRUE(wait_state("n0", "up")) << cluster.logs();
  const std::string gate = cluster / "gate";
  std::ofstream(gate).put('x');
  const std::string job =
      cluster.submit({"/bin/sh", "-c", "while [ -e " + gate + " ]; do sleep 0.05; done"});
  cluster.wait("/api/v1/jobs/" + job,
               [](const json& v) { return v.value("state", "") == "RUNNING"; });
  const std::string token_file = cluster.cluster().at("join_token_file"),
                    old_token = cluster / "old.token";
  std::filesystem::copy(token_file, old_token);

  EXPECT_EQ(cluster.post("/api/v1/nodes/nobody/revoke", json::object()).status, 404);
  const HttpAnswer revoked = cluster.post("/api/v1/nodes/n0/revoke", json::object());
  ASSERT_EQ(revoked.status, 200) << revoked.text;
  EXPECT_EQ(revoked.body.at("revoked").size(), 1u);
  EXPECT_EQ(state_of("n0"), "lost") << "not when its lease ends: now";
  EXPECT_EQ(cluster.wait_final(job).value("state", ""), "LOST");
  const auto refusals = [&] { return count_of(cluster.agent("n0").log(), "is revoked"); };
  EXPECT_TRUE(wait_for([&] { return refusals() >= 3; }))
      << "told once, and refused each time it comes: " << cluster.logs();
  EXPECT_EQ(state_of("n0"), "lost");
  EXPECT_TRUE(certificates_of("n0").at(0).at("revoked").is_string());

  // A new process of the same node, and a new coordinator: still out.
  cluster.kill_agent("n0", SIGTERM);
  std::size_t before = refusals();
  cluster.start_agent("n0");
  EXPECT_TRUE(wait_for([&] { return refusals() > before; }));
  cluster.kill_coordinator(SIGKILL);
  cluster.start_coordinator();
  before = refusals();
  EXPECT_TRUE(wait_for([&] { return refusals() > before; }));
  EXPECT_NE(state_of("n0"), "up");
  cluster.kill_agent("n0", SIGTERM);

  // The token it may have seen is over; with a new one the operator can take the machine back.
  const auto join = [&](const std::string& token) {
    return std::vector<std::string>{dlrun_binary(),     "agent",
                                    "--data",           cluster / "again",
                                    "--name",           "n0",
                                    "--cpus",           "1",
                                    "--join",           cluster.cluster().at("join"),
                                    "--token-file",     token,
                                    "--ca-fingerprint", cluster.cluster().at("ca_fingerprint")};
  };
  Process refused(join(old_token), cluster / "refused.log");
  EXPECT_EQ(refused.wait(std::chrono::seconds(20)), 1);
  EXPECT_NE(refused.log().find("token"), std::string::npos) << refused.log();
  const HttpAnswer fresh = cluster.post("/api/v1/join-tokens", {{"minutes", 5}});
  ASSERT_EQ(fresh.status, 201) << fresh.text;
  std::ofstream(cluster / "new.token") << fresh.body.at("token").get<std::string>() << "\n";
  Process back(join(cluster / "new.token"), cluster / "back.log");
  EXPECT_TRUE(wait_state("n0", "up")) << back.log();
  std::filesystem::remove(gate);
}

}  // namespace
}  // namespace dlrun::node
