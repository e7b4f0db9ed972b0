#pragma once
/// runtime/client/session.h: a task's program inside its job: what the C ABI and the training-loop
/// actor stand on.
/// Errors: Result; never throws. The environment is not read here: dlrun_session_open does that.
/// Threads: every method from any thread.
/// Ownership: tables and inputs hold their session.
/// Fork: in a child of fork() every call is kFailedPrecondition; what has sockets and threads of
/// the parent is leaked there, not torn down.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ps/client/client.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/task/task_client.h"

namespace dlrun::client {

class Session {
 public:
  /// `agent.kind` must be kUser. `helper`: another process of the task is its worker; this one has
  /// no clock, and leaving takes nobody out of the clock sets. Errors of TaskClient::connect.
  static Result<std::shared_ptr<Session>> open(task::ClientOptions agent, bool helper = false);
  ~Session();  ///< leaves the clock sets (best effort, 2 s), disconnects
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const task::Welcome& welcome() const { return welcome_; }  ///< as it was at open
  task::TaskClient& agent() { return *agent_; }

  Status check_process() const;  ///< kFailedPrecondition in a forked child
  /// kInvalidArgument: fraction not in [0, 1].
  Status progress(double fraction, std::string text);
  Status ready();
  Status barrier(const std::string& name, Duration timeout);

  /// The client that counts as this worker (a helper's: as none). kFailedPrecondition: the job has
  /// no shards, or left().
  Result<ps::Client*> worker();
  /// A client that no clock knows, to read with after leave().
  Result<ps::Client*> observer();
  bool left() const { return left_; }
  /// All that the inputs of this session have given so far, as one with the other ranks of the role
  /// (docs/io.md); the number of the commit. An input that was closed counts with what it gave.
  /// kInvalidArgument: a tag over io::kCommitTagMax; else as TaskClient::commit.
  Result<std::uint64_t> commit(const std::string& tag, Duration timeout);
  /// `input` is open from now on; its cursor is read at a commit. Its destructor calls closed().
  void opened(const std::string& input, std::function<io::InputCursor()> cursor);
  void closed(const std::string& input, io::InputCursor last);

  /// Nobody waits for this worker's clocks any more. Idempotent.
  Status leave(Duration timeout);

 private:
  Session(std::unique_ptr<task::TaskClient> agent, bool helper);
  Result<std::unique_ptr<ps::Client>> connect(ps::WorkerId worker);

  const int pid_;
  const bool helper_;
  std::unique_ptr<task::TaskClient> agent_;
  task::Welcome welcome_;
  std::mutex mutex_;  ///< the making of the two clients
  std::unique_ptr<ps::Client> worker_;
  std::unique_ptr<ps::Client> observer_;
  std::atomic<bool> left_{false};
  std::mutex commit_mutex_;  ///< one commit at a time
  std::mutex cursors_mutex_;
  std::map<std::string, std::function<io::InputCursor()>> cursors_;
};

}  // namespace dlrun::client
