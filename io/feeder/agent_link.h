#pragma once
/// io/feeder/agent_link.h: what a feeder asks of its agent, and what the agent tells it. The seam
/// for tests.
/// Threads: AgentLink from any thread. FeederEvents are called on a thread of the link and do not
/// block.

#include <string>
#include <vector>

#include "io/core/msg.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/task/msg.h"

namespace dlrun::io {

class AgentLink {
 public:
  virtual ~AgentLink() = default;
  /// The feeder listens at `socket_path`. Remembered and told again to an agent that comes back.
  virtual Status ready(const std::string& socket_path) = 0;
  /// Fixes the file table of an input; where the consumer begins. Blocks; may be repeated. Errors
  /// of Ledger::set_files, kUnavailable, kDeadlineExceeded.
  virtual Result<InputStart> files(const TaskId& consumer, const std::string& input,
                                   const std::vector<FileEntry>& files, Duration timeout) = 0;
  /// Blocks. kUnavailable, kDeadlineExceeded, kOverloaded: the answer may be lost; ask again with
  /// `resync`.
  virtual Result<LeaseAnswer> lease(const task::FeederLease& request, Duration timeout) = 0;
  /// Queues: the consumer was dropped and everything it did has been told.
  virtual Status gone(const TaskId& consumer) = 0;
};

class FeederEvents {
 public:
  virtual ~FeederEvents() = default;
  virtual void admit(const task::AdmitConsumer& admit) = 0;
  virtual void drop(const TaskId& consumer) = 0;
  virtual void stop() = 0;
};

}  // namespace dlrun::io
