#pragma once
/// runtime/cluster/actor/agent_host.h: performs what AgentCore decides: directories, shims,
/// sockets, logs, feeders. No CAF: `emit` carries what happened back to the agent actor. Its state
/// has one owner, a worker thread, to which callbacks of ShimClient, TaskServer and LogShipper are
/// posted; two more do what takes long and touches no state: outputs that take their places, and
/// removal of what tasks left. Errors of one task become its end (kStartFailed with the reason).
/// Threads: perform() and emit from any.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cluster/actor/host_event.h"
#include "runtime/cluster/core/agent_core.h"

namespace dlrun::cluster {

struct AgentHostOptions {
  NodeId node;
  std::string data_dir;                        ///< absolute; tasks/ is made in it
  std::string run_dir;                         ///< absolute, short, 0700: sockets and feeders
  std::string shim_program;                    ///< path of dlrun-shim
  std::string self_program;                    ///< path of dlrun: shard-host, feeder
  EnvList default_env;                         ///< where a job says nothing of these variables
  EnvList client_env;                          ///< DLRUN_LIB and the like
  std::string python_dir;                      ///< in front of PYTHONPATH; "" = none
  std::string coordinator_host;                ///< stands for '*' in the log endpoint
  std::string log_public_key, log_secret_key;  ///< CURVE pair of the shipper
  Duration ship_give_up{std::chrono::minutes(10)};
  Duration feeder_linger{std::chrono::seconds(5)};
  std::function<void(const std::string&)> log;  ///< one line for the agent's log
};

class AgentHost {
 public:
  /// Starts threads; finds the tasks of an earlier agent.
  static Result<std::unique_ptr<AgentHost>> start(AgentHostOptions options);
  /// Lets shims and their tasks run on; ends feeders that feed nobody.
  ~AgentHost();

  /// For AgentCore::recover, before it starts.
  std::vector<FoundTask> found() const;
  /// From now on `emit` is called, on the worker thread. Takes up the shims of found tasks: their
  /// states come as events.
  void begin(std::function<void(HostEvent)> emit);
  void perform(AgentEffect effect);

 private:
  class Impl;
  explicit AgentHost(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::cluster
