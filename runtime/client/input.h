#pragma once
/// runtime/client/input.h: one input of the job: asks the agent where the feeder is, attaches to
/// its pipe. Threads: next() calls run one after the other; release() from any thread at any time.

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "io/pipe/reader.h"
#include "runtime/client/session.h"

namespace dlrun::client {

class Input {
 public:
  /// kNotFound names the inputs there are. Retries while the feeder is not up yet, within
  /// `timeout`.
  static Result<std::unique_ptr<Input>> open(std::shared_ptr<Session> session,
                                             const std::string& name, Duration timeout);

  const std::string& name() const { return name_; }
  std::uint32_t held_max() const { return reader_->slots(); }
  /// Errors of io::PipeReader::next. A mark (pass_ended) needs no release.
  Result<io::BatchView> next(Duration timeout);
  /// By BatchView::sequence. kInvalidArgument: not held.
  Status release(std::uint64_t sequence);

 private:
  Input(std::shared_ptr<Session> session, std::string name)
      : session_(std::move(session)), name_(std::move(name)) {}

  std::shared_ptr<Session> session_;
  std::string name_;
  std::unique_ptr<io::PipeReader> reader_;
  std::mutex next_mutex_;
  std::mutex held_mutex_;
  std::unordered_map<std::uint64_t, io::BatchView> held_;
};

}  // namespace dlrun::client
