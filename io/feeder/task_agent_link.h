#pragma once
/// io/feeder/task_agent_link.h: AgentLink over the per-task socket (task::TaskClient).

#include <future>
#include <memory>

#include "io/feeder/agent_link.h"
#include "runtime/task/task_client.h"

namespace dlrun::io {

class TaskAgentLink final : public AgentLink {
 public:
  TaskAgentLink();
  ~TaskAgentLink() override;
  /// `events` gets what the agent says; stop() too when the agent is gone for good. Call once; the
  /// other calls wait for it.
  Status connect(task::ClientOptions options, FeederEvents& events);
  /// No event comes after it, and nobody may be in a call.
  void disconnect();

  Status ready(const std::string& socket_path) override;
  Result<InputStart> files(const TaskId& consumer, const std::string& input,
                           const std::vector<FileEntry>& files, Duration timeout) override;
  Result<LeaseAnswer> lease(const task::FeederLease& request, Duration timeout) override;
  Status gone(const TaskId& consumer) override;

 private:
  Result<task::TaskClient*> client();

  std::unique_ptr<task::TaskClient> client_;
  std::promise<task::TaskClient*> promise_;  ///< null = could not connect
  std::shared_future<task::TaskClient*> connected_;
};

}  // namespace dlrun::io
