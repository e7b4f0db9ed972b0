#pragma once
/// runtime/logs/log_shipper.h: the agent's side: tails the shims' log files and ships them to the
/// coordinator's LogReceiver.
/// Data plane: ZeroMQ DEALER -> ROUTER with CURVE; header frame (wire/logs.capnp) + raw frame of <=
/// chunk_bytes. One thread; woken by inotify, by acks and by calls: no polling while nothing
/// happens. Bytes are exact; chunk edges mean nothing. The store is asked where each stream ends
/// before anything is sent (after start, a reconnect or a lost answer): nothing is kept on the
/// agent's disk but the log files themselves.
/// Bounds: in_flight_bytes unacknowledged in all; streams take turns.
/// Threads: methods from any thread, none blocks. Callbacks on the shipper's thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/logs/curve.h"

namespace dlrun::logs {

struct ShipperOptions {
  CurveKeys keys;  ///< the agent's own
  std::size_t chunk_bytes = 256u << 10;
  std::size_t in_flight_bytes = 2u << 20;
  std::uint64_t bytes_per_second_max = 0;             ///< 0 = not limited
  Duration answer_timeout = std::chrono::seconds(2);  ///< then the stream's end is asked again
  std::function<void(const std::string& line)> log;   ///< on the shipper's thread
};

/// Shows the receiver that this node was given the task.
struct ShipPass {
  Epoch epoch;
  std::string proof;
};

class LogShipper {
 public:
  static Result<std::unique_ptr<LogShipper>> start(ShipperOptions options);
  ~LogShipper();

  /// Where to ship: tcp://host:port and the receiver's public key. May be called again (the
  /// coordinator moved or restarted).
  void connect(const std::string& endpoint, const std::string& server_public_key);
  /// Ships TASKDIR/logs of a task from now on. Known already: nothing.
  void add(const TaskId& task, const std::string& logs_dir, ShipPass pass);
  /// The task ended: ships the rest, tells the store that both streams are finished, then calls
  /// `done` (once, with true) and forgets the task. After `give_up` without success: `done(false)`.
  void finish(const TaskId& task, Duration give_up, std::function<void(bool)> done);
  /// Forgets the task; what was not shipped is not shipped.
  void remove(const TaskId& task);

 private:
  class Impl;
  explicit LogShipper(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::logs
