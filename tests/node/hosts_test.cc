// Several hosts (tests/node/rack.h): a coordinator, agents that join with the line it prints, a
// person on another host who has the launcher, the address, the CA and the token. A job trains
// across the hosts; one is cut off and comes back.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/node/rack.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

constexpr int kRows = 4000;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class F>
bool within(Duration limit, F done) {
  const SystemClock clock;
  const TimePoint until = clock.now() + limit;
  while (!done()) {
    if (clock.now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = Rack::why_not(); !missing.empty())
      GTEST_SKIP() << "not run: several hosts cannot be made here: " << missing;
    std::string pattern = "/tmp/dlrun-t-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    rack_ = std::make_unique<Rack>(folder_);
  }
  void TearDown() override {
    if (folder_.empty()) return;
    if (HasFailure())
      for (const auto& entry : std::filesystem::directory_iterator(folder_))
        if (entry.path().extension() == ".log")
          std::fprintf(stderr, "---- %s\n%s", entry.path().filename().c_str(),
                       text_of(entry.path()).c_str());
    // In good order where they can, so that the groups of their tasks go too.
    for (auto& [name, agent] : agents_) Rack::signal(*agent, SIGTERM);
    for (auto& [name, agent] : agents_) agent->wait(std::chrono::seconds(10));
    if (coordinator_) {
      Rack::signal(*coordinator_, SIGTERM);
      coordinator_->wait(std::chrono::seconds(10));
    }
    rack_.reset();
    std::error_code ec;
    std::filesystem::remove_all(folder_, ec);
  }

  std::string operator/(const std::string& name) const { return folder_ + "/" + name; }

  void start_coordinator(const std::string& address) {
    rack_->add_host("head");
    address_ = address;
    const bool v6 = address.find(':') != std::string::npos;
    coordinator_ =
        rack_->start("head",
                     {dlrun_binary(), "coordinator", "--data", *this / "c", "--listen", address,
                      "--rest", (v6 ? "[" + address + "]" : address) + ":0", "--heartbeat-ms",
                      "200", "--suspect-ms", "1500", "--lost-ms", "5000"},
                     *this / "coordinator.log");
    ASSERT_TRUE(within(std::chrono::seconds(30), [&] {
      return coordinator_->log().find("next machine: ") != std::string::npos ||
             !coordinator_->running();
    }));
    ASSERT_TRUE(coordinator_->running()) << coordinator_->log();
    // What the operator hands to a person.
    const json cluster = json::parse(text_of(*this / "c/cluster.json"));
    EXPECT_EQ(cluster.at("rest").get<std::string>().rfind("https://", 0), 0u) << cluster.dump();
    rest_ = cluster.at("rest");
    token_file_ = cluster.at("token_file");
    ca_file_ = cluster.at("ca_file");
    rack_->add_host("desk");
    const auto [code, text] =
        dlrun({"connect", rest_, "--token-file", token_file_, "--ca-file", ca_file_});
    EXPECT_EQ(code, 0) << text;
  }

  /// The words of the line that the coordinator printed, with this build's program.
  std::vector<std::string> join_line() {
    const std::string log = coordinator_->log(), mark = "next machine: ";
    const auto at = log.find(mark);
    std::istringstream words(log.substr(at + mark.size(), log.find('\n', at) - at - mark.size()));
    std::vector<std::string> argv;
    for (std::string word; words >> word;) argv.push_back(word);
    EXPECT_EQ(argv.at(0), "dlrun");
    argv[0] = dlrun_binary();
    return argv;
  }

  /// Joins with that line; a host's name is its node's.
  void start_agent(const std::string& name,
                   const std::vector<std::string>& more = {"--tasks-as-root"}) {
    std::vector<std::string> argv = join_line();
    argv.insert(argv.end(), {"--cpus", "2", "--memory", "1GiB", "--labels", "host=" + name});
    argv.insert(argv.end(), more.begin(), more.end());
    agents_[name] =
        rack_->start(name, argv, *this / (name + ".log"), {"DLRUN_HOME=" + (*this / name)});
  }

  /// A command of the person at the desk.
  std::pair<int, std::string> dlrun(std::vector<std::string> args) {
    args.insert(args.begin(), dlrun_binary());
    return rack_->run("desk", args, std::chrono::seconds(60), {"DLRUN_HOME=" + (*this / "desk")});
  }
  json ask(const std::vector<std::string>& args) {
    const auto [code, text] = dlrun(args);
    return code == 0 ? json::parse(text, nullptr, false) : json();
  }
  json node(const std::string& name) {
    const json list = ask({"nodes", "--json"});
    if (list.is_object())
      for (const json& n : list.at("nodes"))
        if (n.at("id") == name) return n;
    return json::object();
  }
  bool wait_state(const std::string& name, const std::string& state, Duration limit) {
    return within(limit, [&] { return node(name).value("state", "") == state; });
  }
  json job(const std::string& id) { return ask({"show", id, "--json"}); }

  void write_data() {
    std::ofstream data(*this / "train.libsvm");
    for (int i = 0; i < kRows; ++i) data << i % 2 << " 1:1 2:0.5\n";
  }

  /// One worker and one shard fit on a host, never two of a kind.
  std::string submit_training(int workers, int passes, int ms) {
    const json spec{{"name", "train"},
                    {"failure_grace", 1},
                    {"grace", 1},
                    {"cwd", folder_},
                    {"restart", {{"max", 2}, {"on", {"node-lost"}}}},
                    {"role",
                     {{"worker",
                       {{"argv", {DLRUN_HOSTS_WORKER, std::to_string(ms)}},
                        {"count", workers},
                        {"after", {"ps"}},
                        {"memory", "600MiB"}}},
                      {"ps", {{"program", "shard-host"}, {"count", 2}, {"memory", "400MiB"}}}}},
                    {"input",
                     {{"train",
                       {{"uri", *this / "train.libsvm"},
                        {"format", "libsvm"},
                        {"batch_rows", 25},
                        {"split_bytes", 1000},
                        {"passes", passes}}}}}};
    std::ofstream(*this / "train.json") << spec.dump();
    const auto [code, text] = dlrun({"submit", *this / "train.json"});
    EXPECT_EQ(code, 0) << text;
    return text.substr(0, text.find('\n'));
  }

  std::string folder_, address_, rest_, token_file_, ca_file_;
  std::unique_ptr<Rack> rack_;
  std::unique_ptr<Process> coordinator_;
  std::map<std::string, std::unique_ptr<Process>> agents_;
};

TEST_F(Hosts, TrainAcrossThemLoseOneAndTakeItBack) {
  start_coordinator("10.77.0.1");
  if (HasFailure()) return;
  write_data();
  const std::vector<std::string> names{"n0", "n1", "n2"};
  for (const std::string& name : names) rack_->add_host(name);

  // Root's tasks would be root's on a machine that others reach: it must be said.
  {
    start_agent("n0", {});
    EXPECT_EQ(agents_["n0"]->wait(std::chrono::seconds(20)), 1);
    EXPECT_NE(agents_["n0"]->log().find("--tasks-as-root"), std::string::npos)
        << agents_["n0"]->log();
    EXPECT_FALSE(std::filesystem::exists(*this / "n0/agent/tls/node")) << "it must not join first";
  }
  for (const std::string& name : names) {
    start_agent(name);
    ASSERT_TRUE(wait_state(name, "up", std::chrono::seconds(30))) << agents_[name]->log();
    EXPECT_EQ(node(name).value("address", ""), rack_->v4(name)) << "by the route, never loopback";
  }

  const std::string id = submit_training(2, 4, 20);
  const auto follow = rack_->start("desk", {dlrun_binary(), "logs", "-f", "--raw", "--stdout", id},
                                   *this / "follow.txt", {"DLRUN_HOME=" + (*this / "desk")});
  ASSERT_TRUE(
      within(std::chrono::seconds(40),
             [&] {
               return follow->log().find("generation 1 rank 0 batch 5\n") != std::string::npos &&
                      follow->log().find("generation 1 rank 1 batch 5\n") != std::string::npos;
             }))
      << follow->log() << job(id).dump();
  std::map<std::string, std::vector<std::pair<std::string, int>>> placed;  // node -> role and pid
  const json first_tasks = job(id).at("tasks");
  for (const json& task : first_tasks)
    placed[task.at("node")].emplace_back(task.at("role"), task.at("pid"));
  ASSERT_EQ(placed.size(), 2u);
  for (const auto& [name, tasks] : placed) {
    std::set<std::string> roles;
    for (const auto& [role, pid] : tasks) roles.insert(role);
    EXPECT_EQ(roles, (std::set<std::string>{"ps", "worker"})) << name;
  }
  const std::string lost = placed.rbegin()->first;
  const auto lost_tasks = placed.rbegin()->second;
  const std::string incarnation = node(lost).value("incarnation", "");
  const auto alive = [&](int pid) {
    return rack_->run(lost, {"/bin/sh", "-c", "kill -0 " + std::to_string(pid)}).first == 0;
  };

  rack_->cut(lost);
  EXPECT_TRUE(wait_state(lost, "suspect", std::chrono::seconds(20)));
  ASSERT_TRUE(wait_state(lost, "lost", std::chrono::seconds(30)));
  ASSERT_TRUE(within(std::chrono::seconds(30), [&] {
    return follow->log().find("generation 2 rank 0 batch 5\n") != std::string::npos;
  })) << job(id).dump();
  const json second_tasks = job(id).at("tasks");
  for (const json& task : second_tasks) EXPECT_NE(task.at("node"), lost);
  // What was cut off runs on and has things to say; its epoch is over.
  for (const auto& [role, pid] : lost_tasks) EXPECT_TRUE(alive(pid)) << role;

  rack_->mend(lost);
  ASSERT_TRUE(wait_state(lost, "up", std::chrono::seconds(40))) << agents_[lost]->log();
  for (const auto& [role, pid] : lost_tasks)
    EXPECT_TRUE(within(std::chrono::seconds(10), [&] { return !alive(pid); }))
        << role << " of the old epoch lives";
  const std::string events = dlrun({"events"}).second;
  const auto suspect_at = events.find(lost + " is suspect"),
             lost_at = events.find(lost + " is lost"),
             fenced_at = events.find(lost + " is fenced", lost_at),
             up_at = events.find(lost + " is up", fenced_at);
  EXPECT_TRUE(suspect_at < lost_at && lost_at < fenced_at && fenced_at < up_at &&
              up_at != std::string::npos)
      << events;

  const auto [code, said] = dlrun({"wait", id});
  EXPECT_EQ(code, 0) << said << job(id).dump();
  EXPECT_EQ(job(id).value("generation", 0), 2);
  EXPECT_EQ(follow->wait(std::chrono::seconds(20)), 0);
  // A push or a split of the first generation that had been taken would show here.
  EXPECT_NE(follow->log().find("counted " + std::to_string(4 * kRows) + " rows\n"),
            std::string::npos)
      << follow->log();

  // The node works again; its agent, restarted, is another incarnation.
  EXPECT_EQ(dlrun({"run", "-q", "--label", "host=" + lost, "--", "/bin/hostname"}),
            std::make_pair(0, lost + "\n"));
  Rack::signal(*agents_[lost], SIGKILL);
  agents_[lost]->wait(std::chrono::seconds(10));
  start_agent(lost);
  EXPECT_TRUE(within(std::chrono::seconds(20), [&] {
    const json n = node(lost);
    return n.value("state", "") == "up" && n.value("incarnation", "") != incarnation;
  }));
  EXPECT_EQ(dlrun({"run", "-q", "--label", "host=" + lost, "--", "/bin/hostname"}),
            std::make_pair(0, lost + "\n"));
}

TEST_F(Hosts, RestBeyondLoopbackAnswersOnlyWhoHasTheCaTheNameAndTheToken) {
  start_coordinator("10.77.0.1");
  if (HasFailure()) return;
  Process foreign({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=dlrun cluster", "-keyout",
                   *this / "foreign.key", "-out", *this / "foreign.pem"},
                  *this / "openssl.log");
  ASSERT_EQ(foreign.wait(std::chrono::seconds(20)), 0) << foreign.log();
  std::ofstream(*this / "wrong.token") << std::string(64, '0') << "\n";
  const auto connect = [&](const std::string& url, const std::string& token,
                           std::vector<std::string> ca) {
    std::vector<std::string> argv{dlrun_binary(), "connect", url, "--token-file", token};
    argv.insert(argv.end(), ca.begin(), ca.end());
    return rack_->run("desk", argv, std::chrono::seconds(60),
                      {"DLRUN_HOME=" + (*this / "stranger")});
  };
  const auto [foreign_code, foreign_text] =
      connect(rest_, token_file_, {"--ca-file", *this / "foreign.pem"});
  EXPECT_EQ(foreign_code, 69) << foreign_text;
  const auto [bare_code, bare_text] = connect(rest_, token_file_, {});
  EXPECT_EQ(bare_code, 69) << "a CA of the system's store did not sign it: " << bare_text;
  const auto [wrong_code, wrong_text] =
      connect(rest_, *this / "wrong.token", {"--ca-file", ca_file_});
  EXPECT_EQ(wrong_code, 77) << wrong_text;
  const std::string plain = "http" + rest_.substr(5);
  EXPECT_EQ(connect(plain, token_file_, {}).first, 69) << "no plain HTTP beyond loopback";
  EXPECT_FALSE(std::filesystem::exists(*this / "stranger/cluster.json"));

  std::string token = text_of(token_file_);
  while (token.back() == '\n') token.pop_back();
  const auto curl = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"/usr/bin/curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                               "--max-time", "10", "--cacert", ca_file_});
    more.push_back(rest_ + "/api/v1/nodes");
    return rack_->run("desk", more).second;
  };
  EXPECT_EQ(curl({"-H", "Authorization: Bearer " + token}), "200");
  EXPECT_EQ(curl({}), "401");
  EXPECT_EQ(curl({"-H", "Authorization: Bearer " + token, "-H", "Host: evil.example"}), "421");
  EXPECT_EQ(curl({"-H", "Authorization: Bearer " + token, "-H", "Origin: https://evil.example"}),
            "403");
}

TEST_F(Hosts, AnOperatorHandsOutATokenAndPutsANodeOut) {
  start_coordinator("10.77.0.1");
  if (HasFailure()) return;
  rack_->add_host("n0");
  // As a person does it: the token into a file, the line as it is printed.
  const auto [code, text] = rack_->run(
      "desk",
      {"/bin/sh", "-c",
       "umask 077; " + dlrun_binary() + " join-token --minutes 5 > " + *this / "op.token"},
      std::chrono::seconds(60), {"DLRUN_HOME=" + (*this / "desk")});
  ASSERT_EQ(code, 0) << text;
  std::istringstream words(text.substr(text.find("dlrun agent")));
  std::vector<std::string> line;
  for (std::string word; words >> word;) line.push_back(word == "FILE" ? *this / "op.token" : word);
  line[0] = dlrun_binary();
  line.push_back("--tasks-as-root");
  agents_["n0"] = rack_->start("n0", line, *this / "n0.log", {"DLRUN_HOME=" + (*this / "n0")});
  ASSERT_TRUE(wait_state("n0", "up", std::chrono::seconds(30))) << agents_["n0"]->log();
  EXPECT_NE(dlrun({"certificates"}).second.find("in use"), std::string::npos);
  EXPECT_EQ(dlrun({"revoke", "nobody"}).first, 1);
  EXPECT_EQ(dlrun({"revoke", "n0"}).first, 0);
  EXPECT_EQ(node("n0").value("state", ""), "lost");
  EXPECT_NE(dlrun({"certificates"}).second.find("revoked"), std::string::npos);
  EXPECT_TRUE(within(std::chrono::seconds(20),
                     [&] { return agents_["n0"]->log().find("is revoked") != std::string::npos; }));
}

TEST_F(Hosts, TrainOverIpv6) {
  start_coordinator("fd77::1");
  if (HasFailure()) return;
  write_data();
  for (const std::string name : {"n0", "n1"}) {
    rack_->add_host(name);
    start_agent(name);
    ASSERT_TRUE(wait_state(name, "up", std::chrono::seconds(30))) << agents_[name]->log();
    EXPECT_EQ(node(name).value("address", ""), rack_->v6(name));
  }
  const std::string id = submit_training(2, 1, 0);
  const auto [code, said] = dlrun({"wait", id});
  EXPECT_EQ(code, 0) << said << job(id).dump();
  const auto [logs_code, logs] = dlrun({"logs", "--raw", "--stdout", id});
  EXPECT_NE(logs.find("counted " + std::to_string(kRows) + " rows\n"), std::string::npos) << logs;
}

}  // namespace
}  // namespace dlrun::node
