#pragma once
/// runtime/logs/log_receiver.h: the coordinator's ROUTER that takes what LogShippers send into a LogStore.
/// Only agents whose CURVE public key was allowed get past the handshake; a stranger's bytes are never parsed.
/// Hostile bytes of an allowed agent: the message is dropped and counted.
/// One thread (+ ZeroMQ's). `allow` and `forbid` from any thread.

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/logs/curve.h"
#include "runtime/logs/log_store.h"

namespace dlrun::logs {

struct ReceiverOptions {
  std::string bind = "tcp://127.0.0.1:*";  ///< * = any free port
  CurveKeys keys;                          ///< the coordinator's own
};

class LogReceiver {
 public:
  /// `store` outlives the receiver.
  static Result<std::unique_ptr<LogReceiver>> start(ReceiverOptions options, LogStore& store);
  ~LogReceiver();

  std::string endpoint() const;  ///< with the real port
  const std::string& public_key() const;
  void allow(const std::string& agent_public_key);
  void forbid(const std::string& agent_public_key);
  std::uint64_t refused() const;  ///< messages dropped as malformed, and handshakes refused

 private:
  class Impl;
  explicit LogReceiver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::logs
