#include "runtime/client/session.h"

#include <unistd.h>

#include <cmath>

namespace dlrun::client {

Session::Session(std::unique_ptr<task::TaskClient> agent, bool helper)
    : pid_(::getpid()), helper_(helper), agent_(std::move(agent)), welcome_(agent_->welcome()) {}

Result<std::shared_ptr<Session>> Session::open(task::ClientOptions agent, bool helper) {
  DLRUN_ASSIGN(auto client, task::TaskClient::connect(std::move(agent)));
  return std::shared_ptr<Session>(new Session(std::move(client), helper));
}

Session::~Session() {
  if (::getpid() != pid_) {
    // The sockets and threads of the clients are the parent's: touching them here could hang. Leak
    // them in the child.
    static_cast<void>(worker_.release());
    static_cast<void>(observer_.release());
    return;
  }
  static_cast<void>(leave(std::chrono::seconds(2)));
}

Status Session::check_process() const {
  if (::getpid() == pid_) return {};
  return fail(
      Errc::kFailedPrecondition,
      "this process is a fork of the one that opened the dlrun session: open one of its own");
}

Status Session::progress(double fraction, std::string text) {
  DLRUN_TRY(check_process());
  if (!(fraction >= 0 && fraction <= 1)) {
    return fail(Errc::kInvalidArgument,
                "progress must be in [0, 1], not " + std::to_string(fraction));
  }
  return agent_->send(task::ReportProgress{fraction, std::move(text)});
}

Status Session::ready() {
  DLRUN_TRY(check_process());
  return agent_->send(task::Ready{});
}

Status Session::barrier(const std::string& name, Duration timeout) {
  DLRUN_TRY(check_process());
  if (name.empty()) return fail(Errc::kInvalidArgument, "a barrier needs a name");
  return agent_->barrier(name, timeout);
}

void Session::opened(const std::string& input, std::function<io::InputCursor()> cursor) {
  std::scoped_lock lock(cursors_mutex_);
  cursors_[input] = std::move(cursor);
}

void Session::closed(const std::string& input, io::InputCursor last) {
  std::scoped_lock lock(cursors_mutex_);
  cursors_[input] = [last = std::move(last)] { return last; };
}

Result<std::uint64_t> Session::commit(const std::string& tag, Duration timeout) {
  DLRUN_TRY(check_process());
  if (tag.size() > io::kCommitTagMax)
    return fail(Errc::kInvalidArgument, "a tag of " + std::to_string(tag.size()) +
                                            " bytes; at most " + std::to_string(io::kCommitTagMax));
  std::scoped_lock one(commit_mutex_);
  std::vector<io::InputCursor> inputs;
  {
    std::scoped_lock lock(cursors_mutex_);
    for (const auto& [name, cursor] : cursors_) inputs.push_back(cursor());
  }
  return agent_->commit(tag, std::move(inputs), timeout);
}

Result<std::unique_ptr<ps::Client>> Session::connect(ps::WorkerId worker) {
  const task::Welcome now = agent_->welcome();
  if (now.ps.shards.empty()) {
    return fail(Errc::kFailedPrecondition,
                "job " + to_string(welcome_.task.job) +
                    " has no parameter shards: start it with --ps 1 or more");
  }
  ps::ClientOptions options;
  options.worker = worker;
  options.refresh = [agent = agent_.get()]() -> Result<ps::PsView> { return agent->welcome().ps; };
  return ps::Client::connect(now.ps, std::move(options));
}

Result<ps::Client*> Session::worker() {
  DLRUN_TRY(check_process());
  if (left_)
    return fail(Errc::kFailedPrecondition,
                "this worker has left the tables: it can pull, but not push or clock");
  std::scoped_lock lock(mutex_);
  if (!worker_) {
    DLRUN_ASSIGN(worker_, connect(helper_ ? ps::kNoWorker : ps::worker_id(welcome_.task)));
  }
  return worker_.get();
}

Result<ps::Client*> Session::observer() {
  DLRUN_TRY(check_process());
  std::scoped_lock lock(mutex_);
  if (!observer_) {
    DLRUN_ASSIGN(observer_, connect(ps::kNoWorker));
  }
  return observer_.get();
}

Status Session::leave(Duration timeout) {
  DLRUN_TRY(check_process());
  if (left_ || welcome_.ps.shards.empty()) return {};
  if (helper_) {
    const std::scoped_lock lock(mutex_);
    if (!worker_) left_ = true;
    if (left_) return {};
  }
  // A worker that never touched a table is in the clock sets all the same: it leaves them too.
  DLRUN_ASSIGN(auto* client, worker());
  DLRUN_TRY(client->leave(timeout));
  left_ = true;
  return {};
}

}  // namespace dlrun::client
