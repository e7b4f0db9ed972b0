#pragma once
/// runtime/task/task_client.h: the process side of the per-task Unix socket. No CAF; linked into
/// libdlrun. One reader thread per client. Frames: u32 length (little endian) + one Cap'n Proto
/// message (wire/task.capnp), <= 16 MiB.
///
/// States: Connected -1-> Lost -2-> Connected; Lost -3-> Closed; any -4-> Closed
///   1: the agent died or was restarted. 2: same path, same token, Hello/Welcome again, with
///      backoff 20 ms .. 1 s.
///   3: reconnect_for is over, or the agent refused us. 4: the destructor.
/// What a reconnect does with what was under way:
///   - Ready and the last ReportProgress are state: they are sent again;
///   - barrier(), open_input(), commit() and feeder_files() are repeated as they were: they are
///     idempotent;
///   - feeder_lease() ends with kUnavailable: ask again with resync = true and what the consumer
///     holds;
/// Errors: kUnavailable (Closed, or lost while waiting), kDeadlineExceeded, kPermissionDenied
///   (token), kUnsupported (version), kOverloaded (send queue full), kInvalidArgument (a message
///   over 16 MiB), kFailedPrecondition (used after fork).
/// Bounds: queue_messages_max unread messages and queue_bytes_max unsent bytes; when the unread
///   queue is full the oldest is dropped and dropped() counts it.
/// Threads: every method may be called from any thread. `on_message` runs on the client's thread
/// and must not block in it.
/// Fork: a child of fork() must not use a client made by its parent: calls return
///   kFailedPrecondition, and the destructor there only closes the descriptor. The descriptor is
///   close-on-exec.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/task/msg.h"

namespace dlrun::task {

struct ClientOptions {
  std::string socket_path;
  cluster::Token token{};
  PeerKind kind = PeerKind::kUser;
  /// the first connect and Welcome, retried within it
  Duration connect_timeout = std::chrono::seconds(10);
  Duration reconnect_for = std::chrono::seconds(120);  ///< after a loss; 0 = never
  std::size_t queue_messages_max = 1024;
  std::size_t queue_bytes_max = 32u << 20;
  /// Gets every message that answers no waiting call. Unset: they queue for receive().
  std::function<void(ToClient)> on_message;
  /// Called once, on the client's thread, when the client is Closed for good other than by its
  /// destructor.
  std::function<void(Error)> on_closed;
};

/// From the values of DLRUN_SOCKET and DLRUN_TOKEN (64 hex digits). kInvalidArgument says which is
/// missing or malformed.
Result<ClientOptions> client_options(std::string_view socket_path, std::string_view token_hex,
                                     PeerKind kind);
Result<cluster::Token> parse_token(std::string_view hex);
std::string to_hex(const cluster::Token& token);

class TaskClient {
 public:
  static Result<std::unique_ptr<TaskClient>> connect(ClientOptions options);
  ~TaskClient();  ///< sends what is queued for at most 1 s, closes
  TaskClient(const TaskClient&) = delete;
  TaskClient& operator=(const TaskClient&) = delete;

  /// The latest Welcome (a restarted agent sends it again).
  Welcome welcome() const;
  /// Queues; does not block. For one-way messages: Ready, ReportProgress, FeederGone, and raw use.
  Status send(ToServer message);
  /// The next message that answers no call. StopNow comes here too.
  Result<ToClient> receive(Duration timeout);

  // Calls. Each waits for its own answer; an InputAt, FeederReply or Committed that carries an
  // error becomes that error.
  Status barrier(const std::string& name, Duration timeout);
  Result<InputAt> open_input(const std::string& input, Duration timeout);
  /// One with those of the other ranks; the number of the commit. An error is the outcome for all
  /// of them, but kDeadlineExceeded and kUnavailable: then it may have been made.
  Result<std::uint64_t> commit(std::string tag, std::vector<io::InputCursor> inputs,
                               Duration timeout);
  Result<io::InputStart> feeder_files(const TaskId& consumer, const std::string& input,
                                      std::vector<io::FileEntry> files, Duration timeout);
  /// `request.request` is set here.
  Result<io::LeaseAnswer> feeder_lease(FeederLease request, Duration timeout);

  bool stop_requested() const;    ///< StopNow was seen
  std::uint64_t dropped() const;  ///< messages that fell out of the full unread queue

 private:
  class Impl;
  explicit TaskClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::task
