#include "tests/node/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

extern char** environ;

namespace dlrun::node {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class F>
bool poll_until(F done, Duration limit) {
  const SystemClock clock;
  const TimePoint until = clock.now() + limit;
  while (!done()) {
    if (clock.now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

std::string dlrun_binary() { return DLRUN_BINARY; }

Process::Process(std::vector<std::string> argv, std::string log_path)
    : log_path_(std::move(log_path)) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> raw;
  for (std::string& a : argv) raw.push_back(a.data());
  raw.push_back(nullptr);
  if (::posix_spawn(&pid_, raw[0], &actions, nullptr, raw.data(), environ) != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
}

Process::~Process() {
  if (!running()) return;
  signal(SIGTERM);
  if (wait(std::chrono::seconds(10)) >= 0) return;
  signal(SIGKILL);
  wait(std::chrono::seconds(10));
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

bool Process::running() { return pid_ > 0 && wait(Duration(0)) < 0; }

int Process::wait(Duration limit) {
  poll_until(
      [&] {
        if (pid_ <= 0) return true;
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        pid_ = -1;
        return true;
      },
      limit);
  return pid_ > 0 ? -1 : code_;
}

std::string Process::log() const { return read_text(log_path_); }

TestCluster::TestCluster() {
  std::string pattern = "/tmp/dlrun-t-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
}

TestCluster::~TestCluster() {
  if (::testing::Test::HasFailure()) std::fprintf(stderr, "%s", logs().c_str());
  agents_.clear();
  coordinator_.reset();
  std::error_code ec;
  std::filesystem::remove_all(folder_, ec);
}

std::string TestCluster::logs() const {
  std::string out;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().extension() == ".log")
      out += "---- " + entry.path().filename().string() + "\n" + read_text(entry.path());
  return out;
}

void TestCluster::start_coordinator(std::vector<std::string> more) {
  std::vector<std::string> argv = {dlrun_binary(), "coordinator",    "--data",
                                   *this / "c",    "--heartbeat-ms", "200"};
  argv.insert(argv.end(), more.begin(), more.end());
  const std::string file = *this / "c/cluster.json";
  std::filesystem::remove(file);
  coordinator_ = std::make_unique<Process>(argv, *this / "coordinator.log");
  ASSERT_TRUE(poll_until([&] { return std::filesystem::exists(file) || !coordinator_->running(); },
                         std::chrono::seconds(30)));
  ASSERT_TRUE(coordinator_->running()) << coordinator_->log();
}

void TestCluster::start_agent(const std::string& name, std::vector<std::string> more) {
  if (!agent_args_.contains(name)) {
    const auto c = cluster();
    // Other clusters may run on this machine at the same time.
    const int first = 10000 + static_cast<int>(::getpid() % 100 * 200 + agent_args_.size() * 100);
    std::vector<std::string> argv = {
        dlrun_binary(),     "agent",
        "--data",           *this / name,
        "--name",           name,
        "--cpus",           "4",
        "--memory",         std::to_string(1ll << 30),
        "--ports",          std::to_string(first) + "-" + std::to_string(first + 99),
        "--join",           c.at("join"),
        "--token-file",     c.at("join_token_file"),
        "--ca-fingerprint", c.at("ca_fingerprint")};
    argv.insert(argv.end(), more.begin(), more.end());
    agent_args_[name] = argv;
  }
  agents_[name] = std::make_unique<Process>(agent_args_[name], *this / (name + ".log"));
}

void TestCluster::kill_coordinator(int signal) {
  coordinator_->signal(signal);
  EXPECT_GE(coordinator_->wait(std::chrono::seconds(20)), 0);
}

void TestCluster::kill_agent(const std::string& name, int signal) {
  agents_.at(name)->signal(signal);
  EXPECT_GE(agents_.at(name)->wait(std::chrono::seconds(20)), 0);
}

nlohmann::json TestCluster::cluster() const {
  return nlohmann::json::parse(read_text(*this / "c/cluster.json"));
}

HttpAnswer TestCluster::http(const std::string& method, const std::string& path,
                             const std::string& body, const std::string& given_token,
                             const std::string& given_host) const {
  const auto c = cluster();
  const std::string rest = c.at("rest");
  const std::string authority = rest.substr(rest.find("//") + 2);
  const auto colon = authority.rfind(':');
  std::string token = given_token.empty() ? read_text(c.at("token_file")) : given_token;
  while (!token.empty() && token.back() == '\n') token.pop_back();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval limit{15, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(authority.substr(colon + 1))));
  ::inet_pton(AF_INET, authority.substr(0, colon).c_str(), &to.sin_addr);
  HttpAnswer out;
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
    const std::string request =
        method + " " + path +
        " HTTP/1.1\r\nHost: " + (given_host.empty() ? authority : given_host) +
        "\r\nAuthorization: Bearer " + token +
        "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    (void)!::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[16384];
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  if (answer.rfind("HTTP/1.1 ", 0) != 0) return out;
  out.status = std::stoi(answer.substr(9, 3));
  const auto at = answer.find("\r\n\r\n");
  if (at != std::string::npos) {
    out.text = answer.substr(at + 4);
    out.body = nlohmann::json::parse(out.text, nullptr, false);
  }
  return out;
}

nlohmann::json TestCluster::wait(const std::string& path,
                                 const std::function<bool(const nlohmann::json&)>& done,
                                 Duration limit) const {
  HttpAnswer last;
  const bool ok = poll_until(
      [&] {
        last = get(path);
        return last.status == 200 && done(last.body);
      },
      limit);
  EXPECT_TRUE(ok) << path << ": " << last.status << " " << last.body.dump();
  return last.body;
}

std::string TestCluster::submit(const std::vector<std::string>& argv, int count) const {
  const nlohmann::json spec = {{"name", "t"},
                               {"owner", "tester"},
                               {"cwd", folder_},
                               {"submit_env", {{"PATH", "/usr/bin:/bin"}}},
                               {"role", {{"worker", {{"argv", argv}, {"count", count}}}}}};
  HttpAnswer answer;
  poll_until(
      [&] {
        answer = post("/api/v1/jobs", spec);
        // just started: the term is not claimed yet
        return answer.status != 0 && answer.status != 503;
      },
      std::chrono::seconds(20));
  EXPECT_TRUE(answer.status == 201 || answer.status == 200 || answer.status == 202)
      << answer.status << answer.body.dump();
  return answer.body.value("id", answer.body.value("job", std::string("?")));
}

nlohmann::json TestCluster::wait_final(const std::string& job) const {
  return wait("/api/v1/jobs/" + job, [](const nlohmann::json& view) {
    const std::string state = view.value("state", "");
    return state == "SUCCEEDED" || state == "FAILED" || state == "CANCELLED" ||
           state == "TIMEOUT" || state == "OOM" || state == "LOST";
  });
}

}  // namespace dlrun::node
