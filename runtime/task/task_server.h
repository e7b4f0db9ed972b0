#pragma once
/// runtime/task/task_server.h: the agent's side: one Unix socket per task, one epoll thread for all
/// of them. No CAF. A task's socket serves any number of its processes (up to
/// connections_per_task_max), each with the task's token. The socket's path is a function of
/// (socket_dir, task): a restarted agent that opens the task again gets the same path, so that
/// clients find it (DLRUN_SOCKET never changes). Keep socket_dir short: path <= 107 bytes, else
/// kInvalidArgument.
///
/// Connection: Accepted -1-> Open -2-> Gone; Accepted -3-> Gone
///   1: Hello with the right token (compared in constant time) within hello_timeout; answered with
///      Welcome.
///   2: the peer closed, broke the framing, or let out_bytes_max pile up. 3: anything else:
///      Refused, closed.
/// Answers with a request number (InputAt, FeederReply) go to the connection that asked; everything
/// else to all connections of the task (of a kind, where `send` names one).
/// Hostile bytes: a frame over 16 MiB, no message, an unknown message, an unsolicited Hello: that
/// connection is closed (an unknown kind of message of a newer peer is skipped), `on_log` gets a
/// line; nothing else happens.
/// Out of descriptors: who connects waits in the socket's queue and is accepted once there are some
/// again, `on_log` gets a line.
/// Bounds: the constants of ServerOptions.
/// Threads: methods from any thread; callbacks on the server's thread, one at a time; they must not
/// block, and may call send().

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/task/msg.h"

namespace dlrun::task {

struct ServerOptions {
  std::string socket_dir;  ///< exists, private to the agent (0700)
  std::size_t connections_per_task_max = 128;
  std::size_t connections_max = 4096;
  std::size_t out_bytes_max = 32u << 20;  ///< unsent, per connection
  std::size_t requests_max = 4096;  ///< unanswered, per connection; above: the connection is closed
  Duration hello_timeout = std::chrono::seconds(5);
};

struct ServerCallbacks {
  /// Hello included (after the token was checked), so that the agent learns kind and pid. `kind` is
  /// the sender's.
  std::function<void(const TaskId&, PeerKind kind, ToServer)> on_message;
  /// A connection of the task closed; `left` = how many of that kind are still open.
  std::function<void(const TaskId&, PeerKind kind, std::size_t left)> on_gone;
  /// One line for the agent's log: refused and broken peers, with pid and uid by SO_PEERCRED.
  std::function<void(const std::string&)> on_log;
};

class TaskServer {
 public:
  static Result<std::unique_ptr<TaskServer>> start(ServerOptions options,
                                                   ServerCallbacks callbacks);
  ~TaskServer();  ///< closes all; removes no socket files (a restarted agent
                  ///< replaces or sweeps them)

  /// The path that open(task) will listen on.
  std::string socket_path(const TaskId& task) const;
  /// Listens for the task and returns the path. `welcome.version` is set per peer. kAlreadyExists
  /// when open.
  Result<std::string> open(const TaskId& task, const cluster::Token& token, Welcome welcome);
  /// Sends what is queued for at most 1 s, closes the connections, unlinks the socket. Unknown
  /// task: nothing.
  void close(const TaskId& task);

  /// Removes the sockets in socket_dir that no open task has: an earlier server left them, of tasks
  /// that ended meanwhile.
  void sweep();

  /// kNotFound (not open), kUnavailable (no connection: nothing is kept), kOverloaded.
  Status send(const TaskId& task, ToClient message);
  Status send(const TaskId& task, PeerKind only, ToClient message);

 private:
  class Impl;
  explicit TaskServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::task
