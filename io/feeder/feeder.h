#pragma once
/// io/feeder/feeder.h: the feeder without its process: listens for consumers, lets in whom the
/// agent admitted, runs a Consumer for each.
///
///   agent --admit(token, consumer, input)--> Feeder <--hello(token)-- consumer
///                                              |--files, lease, done--> agent
///                                              '--segments (SCM_RIGHTS), batches--> consumer
///
/// A token may come before its admission (two sockets, no order): such a hello waits up to
/// admit_wait. One attach of a token at a time; when it is over the token may attach again until
/// the consumer is dropped: what it had not released comes again.
/// Out of descriptors: who connects waits until there are some again, `log` gets a line. When it
/// cannot accept for ever, it stops by itself: failure().
/// Threads: one for accepting, one for leases, one per attached consumer; admit, drop and stop from
/// any.
/// Bounds: consumers_max attached; kPendingMax unannounced connections; ConsumerLimits each.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/feeder/agent_link.h"
#include "io/feeder/consumer.h"
#include "io/feeder/lease_pump.h"
#include "io/pipe/segment.h"
#include "runtime/base/seldom.h"

namespace dlrun::io {

struct FeederOptions {
  std::string socket_path;
  std::size_t consumers_max = 64;
  Duration admit_wait = std::chrono::seconds(2);
  Duration lease_timeout = std::chrono::seconds(2);
  ConsumerLimits limits;
  std::function<void(const std::string& line)> log;  ///< from any thread
};

class Feeder final : public FeederEvents {
 public:
  Feeder(FeederOptions options, Source& source, AgentLink& link);
  ~Feeder() override;  ///< shutdown()
  /// Listens and starts the threads. Then tell the agent: AgentLink::ready().
  Status start();
  /// Stops, joins every thread, removes the socket file. Uses the link no more; events may still
  /// come and do nothing.
  void shutdown();

  void admit(const task::AdmitConsumer& admit) override;
  void drop(const TaskId& consumer) override;
  void stop() override;
  /// Readable once stop() was called, or the feeder stopped by itself.
  int stopped_fd() const { return stopped_.get(); }
  Status failure() const;        ///< why it stopped by itself
  std::size_t attached() const;  ///< consumers whose thread runs

 private:
  static constexpr std::size_t kPendingMax = 32;
  struct Entry {
    task::AdmitConsumer admit;
    std::unique_ptr<Consumer> live;
    std::optional<TaskId> dropped;  ///< whom to report gone once `live` has ended
  };
  struct Pending {
    pipe::Fd socket;
    TimePoint deadline;
    bool said_hello = false;
    cluster::Token token{};
    std::vector<SplitProgress> progress;
    std::vector<LanePosition> lanes;
  };
  void accept_loop();
  void accept_one(std::vector<Pending>& pending);
  void log(const std::string& line) const;
  bool advance(Pending& pending, bool readable);
  bool try_attach(Pending& pending);
  void forget_ended();

  const FeederOptions options_;
  Source& source_;
  AgentLink& link_;
  pipe::Fd listener_;
  pipe::Fd stopped_;
  pipe::Fd admitted_;  ///< wakes the accepting thread
  std::unique_ptr<LeasePump> pump_;
  mutable std::mutex mutex_;
  std::map<cluster::Token, Entry> entries_;
  Status failure_;  ///< under mutex_
  // Of the accepting thread.
  TimePoint accept_again_{};
  Seldom accept_failures_;
  std::thread thread_;
};

}  // namespace dlrun::io
