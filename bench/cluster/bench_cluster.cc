#include "bench/cluster/bench_cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

extern char** environ;

namespace dlrun::bench {

namespace {
struct GaveUp {
  std::string why;
};
}  // namespace

void give_up(const std::string& why) { throw GaveUp{why}; }

int guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const GaveUp& e) {
    std::fprintf(stderr, "bench: %s\n", e.why.c_str());
    return 1;
  }
}

std::string program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::int64_t monotonic_ns() { return SystemClock().now().time_since_epoch().count(); }

pid_t spawn(const std::vector<std::string>& argv, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.empty() ? "/dev/null" : log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> raw;
  for (const std::string& a : argv) raw.push_back(const_cast<char*>(a.c_str()));
  raw.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) give_up("cannot start " + argv[0]);
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

StampPipe::StampPipe(const std::string& path) : path_(path) {
  if (mkfifo(path.c_str(), 0600) != 0) give_up("cannot make " + path);
  fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);  // read-write: never at end of file between writers
  if (fd_ < 0) give_up("cannot open " + path);
}

StampPipe::~StampPipe() {
  close(fd_);
  unlink(path_.c_str());
}

std::int64_t StampPipe::next(Duration limit) {
  pollfd p{fd_, POLLIN, 0};
  if (poll(&p, 1, static_cast<int>(limit / std::chrono::milliseconds(1))) != 1)
    give_up("no stamp came in time");
  std::int64_t ns = 0;
  if (read(fd_, &ns, sizeof ns) != sizeof ns) give_up("a torn stamp");
  return ns;
}

BenchCluster::BenchCluster() {
  char name[] = "/tmp/dlrun-bench-XXXXXX";
  if (mkdtemp(name) == nullptr) give_up("cannot make a folder in /tmp");
  folder_ = name;
  rest_ = std::make_unique<launcher::RestClient>(
      [folder = folder_ + "/coordinator"] { return launcher::read_cluster_info(folder); });
}

BenchCluster::~BenchCluster() {
  rest_.reset();
  for (const auto& [index, pid] : agents_) kill(pid, SIGTERM);
  for (const auto& [index, pid] : agents_) wait_for(pid);
  if (coordinator_ > 0) {
    kill(coordinator_, SIGTERM);
    wait_for(coordinator_);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void BenchCluster::start_coordinator() {
  const std::string data = folder_ + "/coordinator";
  std::error_code ignored;
  std::filesystem::remove(data + "/cluster.json", ignored);
  coordinator_ =
      spawn({program_folder() + "/dlrun", "coordinator", "--data", data, "--listen", "127.0.0.1"},
            folder_ + "/coordinator.log");
  const std::int64_t until = monotonic_ns() + 60'000'000'000;
  while (!std::filesystem::exists(data + "/cluster.json")) {
    if (monotonic_ns() > until || waitpid(coordinator_, nullptr, WNOHANG) != 0)
      give_up("the coordinator did not come up; see " + folder_ + "/coordinator.log");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void BenchCluster::start_agent(int index, int agents, int cpus) {
  std::ifstream file(folder_ + "/coordinator/cluster.json");
  const auto cluster = nlohmann::json::parse(file);
  const int ports = 12000 / agents;
  const int first = 20000 + index * ports;
  agents_[index] = spawn(
      {program_folder() + "/dlrun", "agent", "--data", folder_ + "/node-" + std::to_string(index),
       "--join", cluster.at("join").get<std::string>(), "--token-file",
       cluster.at("join_token_file").get<std::string>(), "--ca-fingerprint",
       cluster.at("ca_fingerprint").get<std::string>(), "--name", "node-" + std::to_string(index),
       "--cpus", std::to_string(cpus), "--gpus", "none", "--ports",
       std::to_string(first) + "-" + std::to_string(first + ports - 1)},
      folder_ + "/node-" + std::to_string(index) + ".log");
}

void BenchCluster::wait_nodes(std::uint32_t nodes) {
  const std::int64_t until = monotonic_ns() + 60'000'000'000;
  for (;;) {
    const auto health = get("/api/v1/health");
    if (health.value("nodes_up", 0u) >= nodes && health.value("status", "") == "ok") return;
    if (monotonic_ns() > until) give_up("the agents did not come up; see " + folder_);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void BenchCluster::kill_coordinator() {
  kill(coordinator_, SIGKILL);
  wait_for(coordinator_);
  coordinator_ = -1;
}

std::string BenchCluster::submit(const std::vector<std::string>& argv, int count, int cpu_milli) {
  const nlohmann::json job{
      {"name", "bench"},
      {"owner", "bench"},
      {"role", {{"worker", {{"argv", argv}, {"count", count}, {"cpus", cpu_milli / 1000.0}}}}}};
  const auto answer = rest_->call({.method = "POST", .target = "/api/v1/jobs", .body = job.dump()});
  if (!answer) give_up("submit: " + answer.error().to_string());
  return nlohmann::json::parse(*answer).at("id").get<std::string>();
}

nlohmann::json BenchCluster::get(const std::string& target) {
  const auto answer = rest_->call({.target = target});
  if (!answer) give_up(target + ": " + answer.error().to_string());
  return nlohmann::json::parse(*answer);
}

std::uint64_t BenchCluster::finished() {
  return get("/api/v1/health").at("jobs_finished").get<std::uint64_t>();
}

void BenchCluster::wait_finished(std::uint64_t jobs, Duration limit) {
  const std::int64_t until = monotonic_ns() + limit.count();
  while (finished() < jobs) {
    if (monotonic_ns() > until) give_up("the jobs did not end in time; see " + folder_);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void BenchCluster::kill_job(const std::string& job) {
  const auto answer =
      rest_->call({.method = "POST", .target = "/api/v1/jobs/" + job + "/kill", .body = "{}"});
  if (!answer) give_up("kill: " + answer.error().to_string());
}

void BenchCluster::wait_idle(Duration limit) {
  const std::int64_t until = monotonic_ns() + limit.count();
  while (get("/api/v1/health").at("jobs_running").get<int>() != 0) {
    if (monotonic_ns() > until) give_up("the jobs did not end in time; see " + folder_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace dlrun::bench
