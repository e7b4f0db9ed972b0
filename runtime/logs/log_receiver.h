#pragma once
/// runtime/logs/log_receiver.h: the coordinator's ROUTER that takes what LogShippers send into a
/// LogStore. Only agents whose CURVE public key was allowed get past the handshake; a stranger's
/// bytes are never parsed. An agent ships for the tasks that its node was given, for no others
/// (`may_ship`): kPermissionDenied is the answer, and it is counted. A key that is forbidden later
/// loses its open connections too. Hostile bytes of an allowed agent: the message is dropped and
/// counted. One thread (+ ZeroMQ's). `allow` and `forbid` from any thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/ids.h"
#include "runtime/base/result.h"
#include "runtime/logs/curve.h"
#include "runtime/logs/log_store.h"

namespace dlrun::logs {

struct ReceiverOptions {
  std::string bind = "tcp://127.0.0.1:*";  ///< * = any free port
  CurveKeys keys;                          ///< the coordinator's own
  /// Whether `node` was given `task` under `epoch`, as `proof` shows. On the receiver's thread;
  /// must not block.
  std::function<bool(const NodeId& node, const TaskId& task, Epoch epoch, std::string_view proof)>
      may_ship;
  /// The receiver's thread ends: nothing is taken any more, so the process should not go on as if.
  /// On that thread, once.
  std::function<void(const Error&)> on_failure;
};

class LogReceiver {
 public:
  /// `store` outlives the receiver. kInvalidArgument: no `may_ship`.
  static Result<std::unique_ptr<LogReceiver>> start(ReceiverOptions options, LogStore& store);
  ~LogReceiver();

  std::string endpoint() const;  ///< with the real port
  const std::string& public_key() const;
  void allow(const std::string& agent_public_key, const NodeId& node);
  void forbid(const std::string& agent_public_key);
  void forbid(const NodeId& node);  ///< every key of it
  std::uint64_t refused() const;    ///< messages and handshakes refused, or dropped as malformed

 private:
  class Impl;
  explicit LogReceiver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::logs
