#pragma once
/// tests/node/rack.h: several hosts on one machine. A host is a set of namespaces (network,
/// processes, mounts, host name) whose init dies with this process and takes everything in the host
/// with it; a bridge in a namespace of its own joins them, so that the machine's own network is
/// neither used nor changed. One filesystem for all.
/// Errors: gtest failures.
/// Threads: single owner.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/node/process.h"

namespace dlrun::node {

class Rack {
 public:
  /// "" when hosts can be made here, else what is missing, for GTEST_SKIP.
  static std::string why_not();

  explicit Rack(std::string folder);
  ~Rack();
  Rack(const Rack&) = delete;
  Rack& operator=(const Rack&) = delete;

  /// Host number n (from 1) has 10.77.0.n and fd77::n; all reach each other.
  void add_host(const std::string& name);
  std::string v4(const std::string& host) const;
  std::string v6(const std::string& host) const;

  /// Takes the host's cable out of the bridge; puts it back.
  void cut(const std::string& host);
  void mend(const std::string& host);

  /// Runs to its end in the host: exit code (124: not over after `limit`) and stdout with stderr.
  std::pair<int, std::string> run(const std::string& host, std::vector<std::string> argv,
                                  Duration limit = std::chrono::seconds(30),
                                  const std::vector<std::string>& env = {});
  /// Starts in the host; output in `log_path`. Ends with the host.
  std::unique_ptr<Process> start(const std::string& host, std::vector<std::string> argv,
                                 const std::string& log_path,
                                 const std::vector<std::string>& env = {});
  /// Sends a signal to what `start` started.
  static void signal(const Process& started, int number);
  /// Runs `body` on a thread whose sockets are the host's.
  void inside(const std::string& host, const std::function<void()>& body);

 private:
  struct Host {
    int number = 0;
    std::unique_ptr<Process> holder;
    pid_t init = 0;
  };
  Host make(const std::string& name);
  void must(const std::string& host, const std::string& command);  ///< in its network only
  std::vector<std::string> enter(const Host& host, std::vector<std::string> argv,
                                 const std::vector<std::string>& env) const;

  std::string folder_;
  std::map<std::string, Host> hosts_;  ///< and the bridge
  int runs_ = 0;
};

}  // namespace dlrun::node
