// What real daemons answer when what they are given cannot work: jobs, requests, folders, disks,
// clocks.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/node/process.h"

namespace dlrun::node {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A variable of the children that are started while it lives.
struct Variable {
  Variable(const char* name_in, const std::string& value) : name(name_in) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name); }
  const char* name;
};

class BadInput : public ::testing::Test {
 protected:
  void start(std::vector<std::string> coordinator = {}) {
    cluster.start_coordinator(std::move(coordinator));
    cluster.start_agent("n0");
    wait_nodes(1);
  }
  void wait_nodes(int n) {
    cluster.wait("/api/v1/nodes", [&](const json& body) { return nodes_up(body) == n; });
  }
  static int nodes_up(const json& body) {
    int up = 0;
    for (const json& node : body.at("nodes")) up += node.value("state", "") == "up";
    return up;
  }
  /// A job of one worker; `more` goes into the role.
  json spec(std::vector<std::string> argv, const json& more = json::object()) {
    json role{{"argv", std::move(argv)}};
    role.update(more);
    return {{"name", "t"},
            {"owner", "tester"},
            {"cwd", cluster / ""},
            {"submit_env", {{"PATH", "/usr/bin:/bin"}}},
            {"role", {{"worker", role}}}};
  }
  std::string submit(const json& job) {
    const HttpAnswer answer = cluster.post("/api/v1/jobs", job);
    EXPECT_LT(answer.status, 300) << answer.text;
    return answer.body.is_object() ? answer.body.value("id", "?") : "?";
  }
  json run(const json& job) { return cluster.wait_final(submit(job)); }
  /// Its program is over, whether or not the coordinator knows.
  bool task_ended(const std::string& job) const {
    return std::filesystem::exists(cluster / "n0/tasks/" + job + ".worker.0.g1/exit");
  }
  /// `dlrun` as its user sees it: the code, and stdout and stderr together.
  std::pair<int, std::string> launcher(std::vector<std::string> args,
                                       Duration limit = std::chrono::seconds(60)) {
    const Variable home("DLRUN_HOME", cluster / "c");
    args.insert(args.begin(), dlrun_binary());
    Process process(args, cluster / ("said" + std::to_string(++runs)));
    const int code = process.wait(limit);
    return {code, process.log()};
  }
  /// A small disk at `folder`, seen by this process and its children only. False: not allowed here.
  bool mount_disk(const std::string& folder, unsigned long flags = 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return false;
    ::mkdir(folder.c_str(), 0700);
    if (::mount("tmpfs", folder.c_str(), "tmpfs", flags, "size=16m,mode=0700") != 0) return false;
    disks.push_back(folder);
    return true;
  }
  /// Takes all that is left of the disk; what to remove to free it.
  static std::string fill(const std::string& folder) {
    const std::string path = folder + "/filler";
    std::ofstream file(path, std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    return path;
  }
  void TearDown() override {
    for (const std::string& disk : disks) ::umount2(disk.c_str(), MNT_DETACH);
  }

  int runs = 0;
  std::vector<std::string> disks;
  TestCluster cluster;
};

TEST_F(BadInput, AProgramThatCannotStartIsNamedWithTheReason) {
  start();
  const json unknown = run(spec({"no-such-program"}));
  EXPECT_EQ(unknown.at("exit_code"), 127);
  EXPECT_THAT(unknown.dump(), HasSubstr("unknown program 'no-such-program': not found in PATH"));

  std::ofstream(cluster / "plain") << "#!/bin/sh\n";
  const json plain = run(spec({cluster / "plain"}));
  EXPECT_EQ(plain.at("exit_code"), 127);
  EXPECT_THAT(plain.dump(), HasSubstr("plain': not executable"));

  const json nowhere = run(spec({"/bin/true"}, {{"cwd", "/no/such/folder"}}));
  EXPECT_EQ(nowhere.at("exit_code"), 127);
  EXPECT_EQ(nowhere.at("state"), "FAILED");
  EXPECT_THAT(nowhere.dump(), HasSubstr("/no/such/folder"));
  EXPECT_THAT(nowhere.dump(), HasSubstr("n0"));
  json elsewhere = spec({"/bin/sh", "-c", "pwd"});
  elsewhere["cwd"] = "/no/such/home";  // the submitter's own: that of another machine
  EXPECT_EQ(run(elsewhere).at("state"), "SUCCEEDED");

  const auto [code, said] = launcher({"run", "--cwd", "/no/such/folder", "--", "/bin/true"});
  EXPECT_EQ(code, 127) << said;
  EXPECT_THAT(said, HasSubstr("/no/such/folder"));
}

TEST_F(BadInput, ArgumentsAndEnvironmentOfAnyBytesArriveAsTheyWere) {
  start();
  const std::string odd = "a=b|c\nd'\"$x \xff\xc3";
  const std::string script = "printf '%s\\0' \"$#\" \"$1\" \"$2\" \"$ODD\" \"$PLAIN\" > out";
  json job =
      spec({"/bin/sh", "-c", script, "sh", "", "x y"},
           {{"env", {{"PLAIN", "a=b|c\nd"}, {"ODD", {{"base64", "YT1ifGMKZCciJHgg/8M="}}}}}});
  EXPECT_EQ(run(job).at("state"), "SUCCEEDED");
  const std::string expected =
      std::string("2") + '\0' + "" + '\0' + "x y" + '\0' + odd + '\0' + "a=b|c\nd" + '\0';
  EXPECT_EQ(text_of(cluster / "out"), expected);

  for (const auto& [bad, why] : std::vector<std::pair<json, std::string>>{
           {spec({"/bin/true"}, {{"env", {{"A=B", "x"}}}}), "A=B"},
           {spec({}), "argv"},
           {spec({""}), "argv"},
           {spec({"/bin/true"}, {{"env", {{"A", {{"base64", "AA=="}}}}}}), "NUL"}}) {
    const HttpAnswer answer = cluster.post("/api/v1/jobs", bad);
    EXPECT_THAT(answer.status, AnyOf(400, 422)) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr(why));
  }
}

TEST_F(BadInput, WhySaysWhatNoNodeHas) {
  start();
  const std::vector<std::pair<json, std::string>> asks = {
      {{{"cpus", 1000}}, "CPU"},
      {{{"memory", "900GiB"}}, "memory"},
      {{{"gpus", 9}}, "GPU"},
      {{{"ports", 500}}, "port"},
      {{{"labels", {{"disk", "ssd"}}}}, "disk"}};
  for (const auto& [ask, what] : asks) {
    const std::string job = submit(spec({"/bin/true"}, ask));
    const HttpAnswer why = cluster.get("/api/v1/jobs/" + job + "/why");
    EXPECT_EQ(why.status, 200) << why.text;
    EXPECT_THAT(why.text, HasSubstr(what));
    const auto [code, said] = launcher({"why", job});
    EXPECT_EQ(code, 0);
    EXPECT_THAT(said, HasSubstr(what));
    EXPECT_LT(cluster.post("/api/v1/jobs/" + job + "/kill", json::object()).status, 300);
    EXPECT_EQ(cluster.wait_final(job).at("state"), "CANCELLED");
  }
}

TEST_F(BadInput, APortThatIsTakenIsNamed) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof at;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  const std::string port = std::to_string(ntohs(at.sin_port));
  const std::vector<std::vector<std::string>> ways = {{"--rest", "127.0.0.1:" + port},
                                                      {"--port", port},
                                                      {"--join-port", port},
                                                      {"--log-port", port}};
  for (const auto& way : ways) {
    std::vector<std::string> args = {
        "coordinator", "--data", cluster / ("p" + std::to_string(++runs)), "--listen", "127.0.0.1"};
    args.insert(args.end(), way.begin(), way.end());
    const auto [code, said] = launcher(args, std::chrono::seconds(20));
    EXPECT_EQ(code, 1) << way[0] << said;
    EXPECT_THAT(said, HasSubstr(port)) << way[0];
    EXPECT_THAT(said, AnyOf(HasSubstr("in use"), HasSubstr("taken"))) << way[0];
  }
  ::close(fd);
}

TEST_F(BadInput, ALeasedPortThatAnotherProgramHasIsReplacedAndNamedWhenNoOtherIsThere) {
  start();
  const std::string tell = "printf %s \"$DLRUN_PORTS\" > " + (cluster / "ports");
  const auto with_ports = [&](int n) { return spec({"/bin/sh", "-c", tell}, {{"ports", n}}); };
  ASSERT_EQ(run(with_ports(100)).at("state"), "SUCCEEDED");  // all of the node's
  const int first = std::stoi(text_of(cluster / "ports"));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(first));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  const std::string why = "port " + std::to_string(first) + " on node n0";

  const json moved = run(with_ports(1));
  EXPECT_EQ(moved.at("state"), "SUCCEEDED");
  EXPECT_EQ(moved.at("generation"), 2);
  EXPECT_EQ(text_of(cluster / "ports"), std::to_string(first + 1));
  EXPECT_THAT(cluster.get("/api/v1/events").text, HasSubstr(why));

  const json refused = run(with_ports(100));
  EXPECT_EQ(refused.at("state"), "FAILED");
  EXPECT_EQ(refused.at("exit_code"), 127);
  EXPECT_THAT(refused.at("reason").get<std::string>(),
              AllOf(HasSubstr(why), HasSubstr("taken by another program")));
  ::close(fd);
  EXPECT_EQ(run(with_ports(100)).at("state"), "SUCCEEDED");
}

TEST_F(BadInput, AFolderThatCannotBeWrittenOrIsNewerStopsBothDaemons) {
  ::mkdir((cluster / "newer").c_str(), 0700);
  std::ofstream(cluster / "newer/version") << "agent 99\n";
  const auto [newer, why] = launcher({"agent", "--data", cluster / "newer", "--name", "a"});
  EXPECT_EQ(newer, 1);
  EXPECT_THAT(why, HasSubstr("version 99"));
  std::string closed = cluster / "closed";
  if (::geteuid() != 0) {
    ::mkdir(closed.c_str(), 0500);
  } else if (!mount_disk(closed, MS_RDONLY)) {
    GTEST_SKIP() << "no mounts here";
  }
  for (const char* daemon : {"coordinator", "agent"}) {
    const auto [code, said] = launcher({daemon, "--data", closed + "/d"});
    EXPECT_EQ(code, 1) << daemon;
    EXPECT_THAT(said, HasSubstr(closed)) << daemon;
    EXPECT_THAT(said, AnyOf(HasSubstr("Read-only"), HasSubstr("Permission denied"))) << daemon;
  }
}

TEST_F(BadInput, RequestsThatCannotBeAreAnsweredClearly) {
  start();
  const HttpAnswer unknown = cluster.get("/api/v1/jobs/j999");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.text, HasSubstr("j999"));
  auto [code, said] = launcher({"show", "j999"});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(said, HasSubstr("j999"));

  const std::string done = submit(spec({"/bin/true"}));
  cluster.wait_final(done);
  const HttpAnswer late = cluster.post("/api/v1/jobs/" + done + "/kill", json::object());
  EXPECT_EQ(late.status, 409);
  EXPECT_THAT(late.text, HasSubstr("SUCCEEDED"));
  std::tie(code, said) = launcher({"kill", done});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(said, HasSubstr(done));

  const HttpAnswer large = cluster.http("POST", "/api/v1/jobs", std::string(10u << 20, 'x'));
  EXPECT_EQ(large.status, 413) << large.text;
  EXPECT_EQ(cluster.get("/api/v1/health").status, 200) << "and it goes on";
}

TEST_F(BadInput, AJobFileWithAnErrorIsToldWithItsPlace) {
  start();
  std::ofstream(cluster / "job.toml")
      << "name = \"x\"\n[role.worker]\nargv = [\"true\"]\ncont = 2\n";
  for (const char* command : {"check", "submit", "run"}) {
    const auto [code, said] = launcher({command, cluster / "job.toml"});
    EXPECT_EQ(code, 65) << command << said;
    EXPECT_THAT(said, HasSubstr("job.toml:4:1")) << command;
    EXPECT_THAT(said, HasSubstr("count")) << command;
  }
  std::ofstream(cluster / "broken.toml") << "name = \"x\n";
  const auto [code, said] = launcher({"submit", cluster / "broken.toml"});
  EXPECT_EQ(code, 65);
  EXPECT_THAT(said, HasSubstr("broken.toml:1:"));
  EXPECT_THAT(cluster.get("/api/v1/jobs").text, ::testing::Not(HasSubstr("\"name\":\"x\"")))
      << "nothing was submitted";
}

TEST_F(BadInput, AMalformedLineReachesTheUsersTerminalWithFileLineColumnAndReason) {
  start();
  {
    std::ofstream file(cluster / "rows.libsvm");
    for (int i = 0; i < 500; ++i) file << "1 " << i << ":1\n";
    file << "1 7:1 x9:2\n";
  }
  std::ofstream(cluster / "job.toml")
      << "[role.worker]\nargv = [\"" DLRUN_KILL_WORKER "\", \"" << cluster / "out"
      << "\", \"" << cluster / "job.toml"
      << "\"]\nafter = [\"ps\"]\n[role.ps]\nprogram = \"shard-host\"\n"
      << "[input.train]\nuri = \"" << cluster / "rows.libsvm"
      << "\"\nformat = \"libsvm\"\n";
  const auto [code, said] = launcher({"run", cluster / "job.toml"});
  EXPECT_EQ(code, 1) << said;
  EXPECT_THAT(said, HasSubstr(cluster / "rows.libsvm" + ": offset "));
  EXPECT_THAT(said, HasSubstr("line 501, column 7"));
}

TEST_F(BadInput, AMemoryLimitThatCannotBeEnforcedIsSaidInTheEvents) {
  start();
  const std::string job = submit(spec({"/bin/true"}, {{"memory", "64MiB"}}));
  EXPECT_EQ(cluster.wait_final(job).at("state"), "SUCCEEDED");
  const std::string events = cluster.get_text("/api/v1/events?job=" + job);
  EXPECT_THAT(events, HasSubstr("job_submitted"));
  const bool enforced =
      cluster.get("/api/v1/jobs/" + job).body.at("tasks")[0].at("end").value("limit_bytes", 0) > 0;
  if (enforced)
    EXPECT_THAT(events, ::testing::Not(HasSubstr("task_warned")));
  else
    EXPECT_THAT(events, HasSubstr("memory limit of 67108864 bytes is not enforced"));
}

TEST_F(BadInput, AFullDiskOfTheCoordinatorRefusesNewWorkKeepsItsStateAndRecovers) {
  if (!mount_disk(cluster / "c")) GTEST_SKIP() << "no mounts here";
  start();
  const std::string before = submit(spec({"/bin/true"}));
  EXPECT_EQ(cluster.wait_final(before).at("state"), "SUCCEEDED");
  const std::string gate = cluster / "gate";
  const std::string running =
      submit(spec({"/bin/sh", "-c", "while [ ! -e " + gate + " ]; do sleep 0.05; done; exit 5"}));
  cluster.wait("/api/v1/jobs/" + running,
               [](const json& view) { return view.value("state", "") == "RUNNING"; });

  const std::string filler = fill(cluster / "c");
  HttpAnswer refused;
  for (int i = 0; i < 200; ++i) {  // SQLite may have a page or two left
    refused = cluster.post("/api/v1/jobs", spec({"/bin/true", std::string(20'000, 'y')}));
    if (refused.status >= 400) break;
  }
  EXPECT_EQ(refused.status, 507) << refused.text;
  EXPECT_THAT(refused.text, HasSubstr("full"));
  EXPECT_EQ(cluster.get("/api/v1/jobs/" + before).body.value("state", ""), "SUCCEEDED");
  std::ofstream(gate).put('x');
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!task_ended(running) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(task_ended(running));
  // Its end waits for the disk: nothing is shown that a restart would take back.
  for (int i = 0; i < 20; ++i) {
    const json view = cluster.get("/api/v1/jobs/" + running).body;
    EXPECT_EQ(view.value("state", ""), "RUNNING") << view.dump();
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  EXPECT_THAT(cluster.coordinator().log(), HasSubstr("full"));

  std::filesystem::remove(filler);
  EXPECT_EQ(cluster.wait_final(running).at("exit_code"), 5) << "nothing was lost";
  EXPECT_EQ(run(spec({"/bin/true"})).at("state"), "SUCCEEDED");
}

TEST_F(BadInput, AFullDiskOfAnAgentFailsTheTaskWithTheReasonAndWorksAgainOnceThereIsRoom) {
  if (!mount_disk(cluster / "n0")) GTEST_SKIP() << "no mounts here";
  start();
  EXPECT_EQ(run(spec({"/bin/true"})).at("state"), "SUCCEEDED");
  const std::string filler = fill(cluster / "n0");
  const json failed = run(spec({"/bin/true"}));
  EXPECT_EQ(failed.at("state"), "FAILED");
  EXPECT_EQ(failed.at("exit_code"), 127);
  EXPECT_THAT(failed.dump(), HasSubstr("No space left on device"));
  EXPECT_EQ(nodes_up(cluster.get("/api/v1/nodes").body), 1);
  std::filesystem::remove(filler);
  EXPECT_EQ(run(spec({"/bin/true"})).at("state"), "SUCCEEDED");
}

TEST_F(BadInput, AClockThatIsSetBackChangesNoLeaseAndLetsNoExpiredTokenIn) {
  const auto set_clock = [&](long seconds) {
    std::ofstream(cluster / "clock.new") << seconds;
    std::filesystem::rename(cluster / "clock.new", cluster / "clock");
  };
  set_clock(0);
  const Variable shift("DLRUN_TEST_CLOCK", cluster / "clock");
  const Variable preload("LD_PRELOAD", DLRUN_SHIFTED_CLOCK);
  const char* asan = std::getenv("ASAN_OPTIONS");
  const Variable order("ASAN_OPTIONS",
                       std::string(asan != nullptr ? asan : "") + ":verify_asan_link_order=0");
  start({"--suspect-ms", "1000", "--lost-ms", "2000", "--join-token-minutes", "1"});
  std::filesystem::copy_file(cluster.cluster().at("join_token_file").get<std::string>(),
                             cluster / "old.token");
  const std::string gate = cluster / "gate";
  const std::string running =
      submit(spec({"/bin/sh", "-c", "while [ ! -e " + gate + " ]; do sleep 0.05; done; exit 5"}));
  cluster.wait("/api/v1/jobs/" + running,
               [](const json& view) { return view.value("state", "") == "RUNNING"; });

  for (const long shift_s : {-120L, -86400L, 0L}) {
    set_clock(shift_s);
    for (int i = 0; i < 15; ++i) {  // longer than the lease
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ASSERT_EQ(nodes_up(cluster.get("/api/v1/nodes").body), 1) << "shifted by " << shift_s;
    }
    EXPECT_EQ(run(spec({"/bin/true"})).at("state"), "SUCCEEDED") << "shifted by " << shift_s;
  }
  // Two minutes back a new machine may join: certificates are valid from five minutes before they
  // were made.
  set_clock(-120);
  cluster.start_agent("n1");
  wait_nodes(2);
  // A day back its certificate is not valid yet, and it says so.
  cluster.kill_agent("n1", SIGTERM);
  set_clock(-86400);
  cluster.start_agent("n1");
  EXPECT_EQ(cluster.agent("n1").wait(std::chrono::seconds(20)), 1);
  EXPECT_THAT(cluster.logs(), HasSubstr("not yet valid"));
  // A token that has expired is refused, and stays so when the clock goes back behind its end.
  for (const long shift_s : {3600L, -120L}) {
    set_clock(shift_s);
    const auto c = cluster.cluster();
    const auto [code, said] = launcher(
        {"agent", "--data", cluster / "n2", "--name", "n2", "--join", c.at("join"), "--token-file",
         cluster / "old.token", "--ca-fingerprint", c.at("ca_fingerprint")},
        std::chrono::seconds(20));
    EXPECT_EQ(code, 1) << "shifted by " << shift_s;
    EXPECT_THAT(said, HasSubstr("the join token is wrong or has expired"))
        << "shifted by " << shift_s;
  }

  set_clock(0);
  std::ofstream(gate).put('x');
  EXPECT_EQ(cluster.wait_final(running).at("exit_code"), 5) << "all the time";
}

}  // namespace
}  // namespace dlrun::node
