#pragma once
/// tests/client/local_cluster.h: a job without a control plane: plays agent and job actor for one
/// gang of workers, real shard hosts and a real feeder, on loopback. What a worker meets (socket,
/// Welcome, barrier, leases, input, shards) is the real code; who is told what, and when, is
/// decided here in the simplest way.
/// Threads: methods from one thread; callbacks of the TaskServer on its own; state under one mutex.
/// Leaves nothing: every process is ended by pid and reaped in the destructor, the folder is
/// removed.

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "io/core/ledger_core.h"
#include "runtime/base/result.h"
#include "runtime/task/task_server.h"

namespace dlrun::test {

struct LocalJob {
  std::uint32_t workers = 1;
  std::uint32_t shards = 0;
  std::vector<io::InputSpec> inputs;
  /// Program that runs `HOST shard-host` and `HOST feeder` (tests/client/client_host.cc).
  std::string host_program;
  /// The generation begins from this commit.
  std::string committed_tag;
  std::vector<io::LedgerState> committed;
};

/// How a process ended: its exit code, or 128 + signal.
struct Ended {
  pid_t pid = -1;
  int code = -1;
};

class LocalCluster {
 public:
  /// Starts shards and feeder, and returns when they are ready.
  static Result<std::unique_ptr<LocalCluster>> start(LocalJob job);
  ~LocalCluster();

  /// DLRUN_SOCKET and DLRUN_TOKEN of a worker.
  std::pair<std::string, std::string> door(std::uint32_t rank) const;
  /// Runs `argv` as worker `rank`, with `env` over the caller's environment.
  Result<pid_t> spawn(std::uint32_t rank, const std::vector<std::string>& argv,
                      const std::vector<std::pair<std::string, std::string>>& env = {},
                      const std::string& stdout_to = {});
  /// Waits for all workers; a failure stops the rest (TERM, then KILL). kDeadlineExceeded kills all
  /// of them.
  Result<std::vector<int>> wait(Duration timeout);
  /// To every worker: end in good order.
  void stop_workers();

  struct Progress {
    double fraction = -1;
    std::string text;
    std::uint32_t reports = 0;
  };
  Progress progress(std::uint32_t rank) const;
  const std::string& folder() const { return folder_; }
  /// The last commit: its tag, and where each input goes on.
  std::pair<std::string, std::vector<io::LedgerState>> committed() const;

 private:
  explicit LocalCluster(LocalJob job);
  Status start_native(const TaskId& task, const std::string& command);
  void on_message(const TaskId& from, task::PeerKind kind, task::ToServer message);
  void on_gone(const TaskId& from, task::PeerKind kind, std::size_t left);
  void worker_left(const TaskId& worker);
  TaskId worker_id(std::uint32_t rank) const;
  task::Welcome welcome(const TaskId& task) const;
  cluster::Token token_of(const TaskId& task) const;

  LocalJob job_;
  std::string folder_;
  std::unique_ptr<io::LedgerCore> ledger_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, ps::ShardEndpoint> shards_;
  std::string feeder_socket_;
  /// name, round
  std::map<std::pair<std::string, std::uint64_t>, std::set<std::uint32_t>> barriers_;
  std::map<TaskId, Progress> progress_;
  std::set<TaskId> gone_;
  std::uint64_t tokens_given_ = 0;
  std::map<std::uint32_t, task::CommitInputs> committing_;  ///< by rank
  std::uint64_t commits_ = 0;
  std::string committed_tag_;
  std::vector<io::LedgerState> committed_;
  std::set<std::string> begun_;  ///< inputs whose files are known
  std::vector<pid_t> natives_;
  std::map<pid_t, std::uint32_t> workers_;
  std::unique_ptr<task::TaskServer> server_;  ///< last: its callbacks use what is above
};

}  // namespace dlrun::test
