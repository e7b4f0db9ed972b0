#include "runtime/client/input.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace dlrun::client {
namespace {

std::string names_of(const std::vector<io::InputSpec>& inputs) {
  std::string names;
  for (const auto& input : inputs) names += (names.empty() ? "" : ", ") + input.name;
  return names.empty() ? "none" : names;
}

}  // namespace

Result<std::unique_ptr<Input>> Input::open(std::shared_ptr<Session> session,
                                           const std::string& name, Duration timeout) {
  DLRUN_TRY(session->check_process());
  const auto& inputs = session->welcome().inputs;
  if (std::none_of(inputs.begin(), inputs.end(),
                   [&](const auto& input) { return input.name == name; })) {
    return fail(Errc::kNotFound,
                "the job has no input \"" + name + "\"; its inputs: " + names_of(inputs));
  }
  std::unique_ptr<Input> input(new Input(std::move(session), name));
  const SystemClock clock;
  const TimePoint deadline = clock.now() + timeout;
  Duration pause = std::chrono::milliseconds(2);
  while (true) {
    const Duration left = std::max(deadline - clock.now(), Duration(std::chrono::milliseconds(1)));
    DLRUN_ASSIGN(const auto at, input->session_->agent().open_input(name, left));
    auto reader = io::PipeReader::attach(
        at.feeder_socket, at.consumer_token,
        std::max(deadline - clock.now(), Duration(std::chrono::milliseconds(1))));
    if (reader) {
      input->reader_ = std::move(*reader);
      return input;
    }
    if (reader.error().code != Errc::kUnavailable || clock.now() + pause >= deadline) {
      return fail_as("input \"" + name + "\"", reader);
    }
    std::this_thread::sleep_for(pause);  // the feeder is starting: its socket is not there yet
    pause = std::min(pause * 2, Duration(std::chrono::milliseconds(200)));
  }
}

Result<io::BatchView> Input::next(Duration timeout) {
  std::scoped_lock lock(next_mutex_);
  DLRUN_TRY(session_->check_process());
  auto view = reader_->next(timeout);
  if (!view) {
    // these two are conditions of the caller, not of the data
    if (view.error().code == Errc::kDeadlineExceeded || view.error().code == Errc::kEndOfData)
      return view;
    return fail_as("input \"" + name_ + "\"", view);
  }
  if (!view->pass_ended) {
    std::scoped_lock held(held_mutex_);
    held_.emplace(view->sequence, *view);
  }
  return view;
}

Status Input::release(std::uint64_t sequence) {
  DLRUN_TRY(session_->check_process());
  std::scoped_lock lock(held_mutex_);
  const auto at = held_.find(sequence);
  if (at == held_.end())
    return fail(Errc::kInvalidArgument, "this batch is not held, or was released before");
  reader_->release(at->second);
  held_.erase(at);
  return {};
}

}  // namespace dlrun::client
