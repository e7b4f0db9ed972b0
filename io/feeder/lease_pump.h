#pragma once
/// io/feeder/lease_pump.h: one thread that asks the agent for leases, so that no consumer's thread
/// waits for the coordinator.
/// Bounds: one request of each consumer at a time.
/// Threads: any; `answer` runs on the pump's thread.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "io/feeder/agent_link.h"

namespace dlrun::io {

class LeasePump {
 public:
  using Answer = std::function<void(Result<LeaseAnswer>)>;
  LeasePump(AgentLink& link, Duration timeout);
  ~LeasePump();  ///< ends after the call that is under way; what waits is answered kCancelled
  void ask(task::FeederLease request, Answer answer);

 private:
  void run();

  AgentLink& link_;
  Duration timeout_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::pair<task::FeederLease, Answer>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dlrun::io
