#pragma once
/// bench/cluster/bench_cluster.h: a cluster of real daemons for a benchmark, in a folder of its
/// own, gone with the object. Everything that fails ends the program with a message, and its
/// cluster with it: a benchmark without its cluster has nothing to say.

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/rest_client.h"
#include "runtime/base/time.h"

namespace dlrun::bench {

/// Throws what guarded() catches, so that every BenchCluster on the way is taken down.
[[noreturn]] void give_up(const std::string& why);
/// Runs `body`; when it gives up: the reason on stderr, and 1.
int guarded(const std::function<int()>& body);

/// The folder that holds this program: `dlrun`, `dlrun-shim` and `bench_stamp` lie there too.
std::string program_folder();

/// Starts argv[0] with posix_spawn; its output goes to `log` ("" = nowhere).
pid_t spawn(const std::vector<std::string>& argv, const std::string& log);
int wait_for(pid_t pid);

/// A FIFO that `bench_stamp PATH` writes to: one CLOCK_MONOTONIC time at the start of its main().
class StampPipe {
 public:
  explicit StampPipe(const std::string& path);
  ~StampPipe();
  const std::string& path() const { return path_; }
  /// The next stamp, ns; gives up after `limit`.
  std::int64_t next(Duration limit);

 private:
  std::string path_;
  int fd_ = -1;
};

class BenchCluster {
 public:
  BenchCluster();
  ~BenchCluster();
  BenchCluster(const BenchCluster&) = delete;
  BenchCluster& operator=(const BenchCluster&) = delete;

  void start_coordinator();
  void start_agent(int index, int agents, int cpus);
  void wait_nodes(std::uint32_t nodes);  ///< until so many are up and nothing is being reconciled
  void kill_coordinator();               ///< SIGKILL
  pid_t coordinator_pid() const { return coordinator_; }
  const std::map<int, pid_t>& agents() const { return agents_; }

  /// Returns the job's id as REST writes it.
  std::string submit(const std::vector<std::string>& argv, int count = 1, int cpu_milli = 1000);
  nlohmann::json get(const std::string& target);
  /// until the store counts so many finished jobs
  void wait_finished(std::uint64_t jobs, Duration limit);
  std::uint64_t finished();
  void kill_job(const std::string& job);
  void wait_idle(Duration limit);  ///< until no job runs
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  pid_t coordinator_ = -1;
  std::map<int, pid_t> agents_;
  std::map<int, std::vector<std::string>> agent_args_;
  std::unique_ptr<launcher::RestClient> rest_;
};

std::int64_t monotonic_ns();

}  // namespace dlrun::bench
