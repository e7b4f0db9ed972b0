#include "runtime/client/input.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "io/pipe/protocol.h"

namespace dlrun::client {
namespace {

constexpr Duration kPauseFirst = std::chrono::milliseconds(2);
constexpr Duration kPauseMax = std::chrono::milliseconds(200);

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
  const auto spec = std::find_if(inputs.begin(), inputs.end(),
                                 [&](const auto& input) { return input.name == name; });
  if (spec == inputs.end()) {
    return fail(Errc::kNotFound,
                "the job has no input \"" + name + "\"; its inputs: " + names_of(inputs));
  }
  const bool has_lanes = io::has_lanes(spec->mode);  // `inputs` are the session's
  std::unique_ptr<Input> input(new Input(std::move(session), name));
  input->has_lanes_ = has_lanes;
  const TimePoint deadline = input->clock_.now() + timeout;
  Duration pause = kPauseFirst;
  while (true) {
    const Status attached = input->attach(deadline);
    if (attached) {
      input->registered_ = true;
      input->session_->opened(name, [raw = input.get()] { return raw->cursor(); });
      return input;
    }
    if (attached.error().code != Errc::kUnavailable || input->clock_.now() + pause >= deadline)
      return fail_as("input \"" + name + "\"", attached);
    std::this_thread::sleep_for(pause);  // the feeder is starting: its socket is not there yet
    pause = std::min(pause * 2, kPauseMax);
  }
}

/// A commit of later counts what it gave. In a forked child the session is the parent's.
Input::~Input() {
  if (registered_ && session_->check_process()) session_->closed(name_, cursor());
}

Status Input::attach(TimePoint deadline) {
  const auto left = [&] {
    return std::max(deadline - clock_.now(), Duration(std::chrono::milliseconds(1)));
  };
  DLRUN_ASSIGN(const auto at, session_->agent().open_input(name_, left()));
  std::vector<io::SplitProgress> progress;
  std::vector<io::LanePosition> lanes;
  {
    std::scoped_lock lock(held_mutex_);
    progress = taken_.progress();
    if (begun_) lanes.push_back({io::pipe::kNoLane, pass_, step_, 0, 0});
    for (const auto& [lane, position] : lanes_) lanes.push_back(position);
  }
  DLRUN_ASSIGN(auto reader, io::PipeReader::attach(at.feeder_socket, at.consumer_token, left(),
                                                   progress, lanes));
  reader_ = std::move(reader);
  slots_ = reader_->slots();
  sequence_base_ = sequence_next_;
  return {};
}

Result<io::BatchView> Input::take(io::BatchView view) {
  std::scoped_lock lock(held_mutex_);
  Held held{view, reader_, {view.pieces.begin(), view.pieces.end()}};
  if (view.lane) {  // nothing is leased: its pieces are of no interest
    lanes_[view.lane->lane] = *view.lane;
    begun_ = true;
    pass_ = view.lane->pass;
    step_ = view.lane->step;
    held.pieces.clear();
  }
  taken_.take(held.pieces);
  view.sequence += sequence_base_;
  sequence_next_ = view.sequence + 1;
  held_.emplace(view.sequence, std::move(held));
  return view;
}

Result<io::BatchView> Input::next(Duration timeout) {
  std::scoped_lock lock(next_mutex_);
  DLRUN_TRY(session_->check_process());
  const TimePoint deadline = clock_.now() + timeout;
  Duration pause = kPauseFirst;
  while (true) {
    if (reader_) {
      auto view = reader_->next(std::max(deadline - clock_.now(), Duration(0)));
      if (view && view->no_rows) {
        std::scoped_lock lock2(held_mutex_);
        begun_ = true;
        pass_ = view->lane->pass;
        step_ = view->lane->step;
        return view;
      }
      if (view && !view->pass_ended) return take(*view);
      if (view && view->pass < passes_ended_) continue;  // a mark that the feeder before gave
      if (view) {
        passes_ended_ = view->pass + 1;
        std::scoped_lock lock2(held_mutex_);
        if (has_lanes_) {
          begun_ = true;
          pass_ = passes_ended_;
          step_ = 0;  // lanes_ stay: others may stand in the pass yet
        }
        return view;
      }
      // these two are conditions of the caller, not of the data
      if (view.error().code == Errc::kDeadlineExceeded || view.error().code == Errc::kEndOfData)
        return view;
      if (view.error().code != Errc::kUnavailable || ++losses_ > kLossesMax)
        return fail_as("input \"" + name_ + "\"", view);
      reader_.reset();  // batches held keep it alive
      lost_at_ = clock_.now();
    }
    const Status attached = attach(std::min(deadline, lost_at_ + kReattachLimit));
    if (attached) continue;
    // kAlreadyExists: an attach that we gave up is not seen off yet
    const Errc code = attached.error().code;
    const bool transient = code == Errc::kUnavailable || code == Errc::kDeadlineExceeded ||
                           code == Errc::kAlreadyExists;
    if (!transient || clock_.now() >= lost_at_ + kReattachLimit)
      return fail_as("input \"" + name_ + "\": its feeder is gone", attached);
    if (clock_.now() + pause >= deadline)
      return fail(Errc::kDeadlineExceeded,
                  "input \"" + name_ + "\": its feeder is gone, waiting for the next one");
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kPauseMax);
  }
}

Result<io::ColumnView> Input::column(std::uint64_t sequence, std::uint64_t index) {
  std::scoped_lock lock(held_mutex_);
  const auto at = held_.find(sequence);
  if (at == held_.end())
    return fail(Errc::kInvalidArgument, "this batch is not held, or was released before");
  const auto& columns = at->second.view.columns;
  if (index >= columns.size())
    return fail(Errc::kInvalidArgument,
                "the batch has " + std::to_string(columns.size()) + " columns");
  return columns[static_cast<std::size_t>(index)];
}

io::InputCursor Input::cursor() const {
  std::scoped_lock lock(held_mutex_);
  io::InputCursor cursor;
  cursor.input = name_;
  cursor.splits = taken_.progress();
  cursor.begun = begun_;
  cursor.pass = pass_;
  cursor.step = step_;
  for (const auto& [lane, position] : lanes_) cursor.lanes.push_back(position);
  return cursor;
}

Status Input::release(std::uint64_t sequence) {
  DLRUN_TRY(session_->check_process());
  std::scoped_lock lock(held_mutex_);
  const auto at = held_.find(sequence);
  if (at == held_.end())
    return fail(Errc::kInvalidArgument, "this batch is not held, or was released before");
  taken_.release(at->second.pieces);
  at->second.reader->release(at->second.view);
  held_.erase(at);
  return {};
}

}  // namespace dlrun::client
