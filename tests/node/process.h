#pragma once
/// tests/node/process.h: real daemons as objects: a child with its output in a file, and a REST
/// client for the loopback.

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/time.h"

namespace dlrun::node {

/// A child process. Killed by its pid and waited for when the object goes.
class Process {
 public:
  Process(std::vector<std::string> argv, std::string log_path);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// The exit code, 128 + signal, or -1 when it still runs after `limit`.
  int wait(Duration limit);
  bool running();
  std::string log() const;

 private:
  pid_t pid_ = -1;
  int code_ = -1;
  std::string log_path_;
};

struct HttpAnswer {
  int status = 0;    ///< 0 = no connection
  std::string text;  ///< the body as it came
  nlohmann::json body;
};

/// A folder under /tmp with a coordinator and agents in it; everything ends with it.
class TestCluster {
 public:
  TestCluster();
  ~TestCluster();
  void start_coordinator(std::vector<std::string> more = {});
  void start_agent(const std::string& name, std::vector<std::string> more = {});
  void kill_coordinator(int signal);
  void kill_agent(const std::string& name, int signal);

  std::string operator/(const std::string& name) const { return folder_ + "/" + name; }
  nlohmann::json cluster() const;  ///< cluster.json
  HttpAnswer get(const std::string& path) const { return http("GET", path, ""); }
  std::string get_text(const std::string& path) const { return http("GET", path, "").text; }
  HttpAnswer post(const std::string& path, const nlohmann::json& body) const {
    return http("POST", path, body.dump());
  }
  HttpAnswer http(const std::string& method, const std::string& path, const std::string& body,
                  const std::string& token = "", const std::string& host = "") const;

  /// Polls `path` until `done` holds for the body of a 200, or the time is over: then the last
  /// answer, with a failure.
  nlohmann::json wait(const std::string& path,
                      const std::function<bool(const nlohmann::json&)>& done,
                      Duration limit = std::chrono::seconds(60)) const;
  /// Submits argv as one role and returns the job's id as REST writes it.
  std::string submit(const std::vector<std::string>& argv, int count = 1) const;
  nlohmann::json wait_final(const std::string& job) const;
  Process& coordinator() { return *coordinator_; }
  Process& agent(const std::string& name) { return *agents_.at(name); }
  std::string logs() const;

 private:
  std::string folder_;
  std::unique_ptr<Process> coordinator_;
  std::map<std::string, std::unique_ptr<Process>> agents_;
  std::map<std::string, std::vector<std::string>> agent_args_;
};

std::string dlrun_binary();

}  // namespace dlrun::node
