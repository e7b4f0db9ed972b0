#pragma once
/// io/feeder/lanes.h: the batches of one consumer of an input with lanes (deterministic, static):
/// reads its lanes side by side and cuts their batches, step by step in the order of LanePlan.
///
/// A step:  next() says what is to be done for it
///   kRead   read(), and ask again
///   kBatch  write(): the step's batch
///   kPad    pad(): no rows are left here, others have some (Ends::kPad; kWrap of no rows at all)
///   kWait   the news of the other consumers decide
///   kPassEnd end_pass()
///   kEnd    all passes are over
/// Steps before skip_batches are read and thrown away, those behind take_batches are not read.
/// Bounds: of each lane one split of rows, and what is left of the one before (about two windows).
/// Errors: of open_rows and RowReader. Threads: one owner.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/core/lane_plan.h"
#include "io/core/step_gate.h"
#include "io/feeder/batcher.h"
#include "io/feeder/row_reader.h"

namespace dlrun::io {

class Lanes {
 public:
  /// Everything by reference outlives it.
  struct Of {
    const InputSpec& spec;
    const InputShape& shape;
    Source& source;
    BadRecordPolicy& policy;
    std::uint64_t slot_bytes = 0;
    std::uint64_t window_bytes_max = 0;
  };
  /// `start`: where the generation begins. `place`: pass and step of a consumer that has begun, and
  /// `said` the lanes where it took something.
  static Result<std::unique_ptr<Lanes>> make(const Of& of, const std::vector<FileEntry>& files,
                                             std::uint32_t rank, const InputStart& start,
                                             const std::optional<LanePosition>& place = {},
                                             std::span<const LanePosition> said = {});

  enum class Next { kRead, kBatch, kPad, kWait, kPassEnd, kEnd };
  Next next(const StepNews& news);
  Status read();
  /// The slot holds it: of at least Of::slot_bytes. The bytes written.
  std::uint64_t write(std::span<std::byte> slot);
  std::uint64_t pad();  ///< the step, counted from 1
  void end_pass();
  std::uint32_t pass() const { return pass_; }

  /// The pass before and this one: what to tell the job, in steps behind those that are skipped.
  /// Empty where nobody has to hear of it.
  std::vector<StepReport> reports() const;

 private:
  struct Opened {
    SplitKey key;
    std::uint64_t index = 0;
    std::uint64_t rows = 0;  ///< out
  };
  /// `given` of a lane that has been through the pass.
  static constexpr std::uint64_t kThrough = std::uint64_t{1} << 62;
  struct Lane {
    std::uint32_t number = 0;
    std::uint64_t splits = 0;
    std::unique_ptr<Batcher> batcher;
    std::unique_ptr<RowReader> reader;
    std::uint64_t next = 0;  ///< index of the split to open
    std::uint64_t skip = 0;  ///< rows of it that are out
    std::deque<Opened> opened;
    bool over = false;          ///< every split of the pass is read
    std::uint64_t given = 0;    ///< its batches before this one, in the pass
    std::uint64_t discard = 0;  ///< so many to throw away
    bool gave = false;          ///< a row, in this pass
    bool wrapped = false;       ///< began anew; then `total` is what it had, or gave until then
    std::uint64_t total = 0;
  };
  Lanes(const Of& of, SplitTable splits, std::uint32_t rank);
  void begin_pass();
  std::uint64_t first_step() const { return plan_->step_from(rank_, of_.spec.skip_batches); }
  bool ready(const Lane& lane) const;
  bool unread(const Lane& lane) const;
  bool settled(const Lane& lane) const { return lane.over || lane.batcher->full_batch(); }
  std::uint64_t known(const Lane& lane) const;
  bool exact(const Lane& lane) const;
  StepReport report() const;
  bool all_through() const;
  StepVerdict verdict(const StepNews& news) const;
  Next fill(Lane& lane);
  LanePosition advance(Lane& lane);
  void throw_away(Lane& lane);
  Lane& current() { return lanes_[static_cast<std::size_t>(step_ % lanes_.size())]; }

  const Of of_;
  const SplitTable splits_;
  const std::uint32_t rank_;
  std::unique_ptr<LanePlan> plan_;
  std::vector<Lane> lanes_;
  std::uint32_t pass_ = 0;
  std::uint64_t step_ = 0;
  /// Where lanes stand at first; of passes to come, too: a lane may be ahead of others.
  std::map<std::uint32_t, LanePosition> begin_;
  std::size_t reading_ = 0;  ///< the lane that read() goes on with
  StepReport own_;           ///< once it has ended the pass it stays
  std::vector<StepReport> before_;
  std::vector<std::byte> scratch_;
};

}  // namespace dlrun::io
