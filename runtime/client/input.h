#pragma once
/// runtime/client/input.h: one input of the job: asks the agent where the feeder is, attaches to
/// its pipe.
/// Threads: next() calls run one after the other; release() from any thread at any time. A feeder
/// that dies (or whose agent restarts) is followed by another one, and next() goes on with it
/// exactly where the one before ended: no row twice, none left out; batches held stay valid.
/// Bounds: kLossesMax feeders, each within kReattachLimit, then kUnavailable.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/core/taken_splits.h"
#include "io/pipe/reader.h"
#include "runtime/client/session.h"

namespace dlrun::client {

class Input {
 public:
  static constexpr std::uint32_t kLossesMax = 16;
  static constexpr Duration kReattachLimit = std::chrono::seconds(60);

  /// kNotFound names the inputs there are. Retries while the feeder is not up yet, within
  /// `timeout`.
  static Result<std::unique_ptr<Input>> open(std::shared_ptr<Session> session,
                                             const std::string& name, Duration timeout);

  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const std::string& name() const { return name_; }
  std::uint32_t held_max() const { return slots_; }
  /// Errors of io::PipeReader::next. A mark (pass_ended) needs no release; each pass has one.
  /// `sequence` rises by one or more per batch. A step without rows (no_rows) needs no release.
  Result<io::BatchView> next(Duration timeout);
  /// A column of a table that is held. kInvalidArgument: not held, no such column.
  Result<io::ColumnView> column(std::uint64_t sequence, std::uint64_t index);
  /// By BatchView::sequence. kInvalidArgument: not held.
  Status release(std::uint64_t sequence);
  /// What next() has returned so far, for a commit.
  io::InputCursor cursor() const;

 private:
  Input(std::shared_ptr<Session> session, std::string name)
      : session_(std::move(session)), name_(std::move(name)) {}

  struct Held {
    io::BatchView view;  ///< as its reader gave it
    std::shared_ptr<io::PipeReader> reader;
    std::vector<io::SplitPiece> pieces;
  };
  /// One try to find the feeder and attach.
  Status attach(TimePoint deadline);
  Result<io::BatchView> take(io::BatchView view);

  std::shared_ptr<Session> session_;
  std::string name_;
  SystemClock clock_;
  std::shared_ptr<io::PipeReader> reader_;  ///< null while the feeder is lost
  bool registered_ = false;
  std::uint32_t slots_ = 0;
  std::uint32_t losses_ = 0;
  TimePoint lost_at_{};
  /// marks passed on: a new feeder begins with those of earlier passes
  std::uint32_t passes_ended_ = 0;
  std::uint64_t sequence_base_ = 0;  ///< added to the sequence of the reader of today
  std::uint64_t sequence_next_ = 0;
  std::mutex next_mutex_;
  mutable std::mutex held_mutex_;
  std::unordered_map<std::uint64_t, Held> held_;
  io::TakenSplits taken_;  ///< what the next feeder need not give; under held_mutex_
  // Of an input with lanes; under held_mutex_.
  bool has_lanes_ = false;
  bool begun_ = false;
  std::uint32_t pass_ = 0;
  std::uint64_t step_ = 0;
  std::map<std::uint32_t, io::LanePosition> lanes_;
};

}  // namespace dlrun::client
