#include "io/feeder/lanes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/core/batch.h"
#include "runtime/base/assert.h"

namespace dlrun::io {

Lanes::Lanes(const Of& of, SplitTable splits, std::uint32_t rank)
    : of_(of), splits_(std::move(splits)), rank_(rank) {}

Result<std::unique_ptr<Lanes>> Lanes::make(const Of& of, const std::vector<FileEntry>& files,
                                           std::uint32_t rank, const InputStart& start,
                                           const std::optional<LanePosition>& place,
                                           std::span<const LanePosition> said) {
  DLRUN_ASSIGN(SplitTable splits, SplitTable::of(of.spec, files));
  std::unique_ptr<Lanes> lanes(new Lanes(of, std::move(splits), rank));
  DLRUN_ASSIGN(LanePlan plan, LanePlan::make(of.spec, lanes->splits_, start.world));
  if (rank >= start.world)
    return fail(Errc::kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                            std::to_string(start.world) + " consumers");
  lanes->plan_ = std::make_unique<LanePlan>(std::move(plan));
  lanes->lanes_.resize(lanes->plan_->lanes_of_consumer());
  std::map<std::uint32_t, LanePosition>& begin = lanes->begin_;
  for (std::size_t i = 0; i < lanes->lanes_.size(); ++i) {
    Lane& lane = lanes->lanes_[i];
    lane.number = lanes->plan_->lane_of(rank, i);
    lane.splits = lanes->plan_->splits_of(lane.number);
    begin[lane.number] = {lane.number, 0, 0, 0, 0};
  }
  for (const LanePosition& at : start.lanes)
    if (begin.contains(at.lane)) begin[at.lane] = at;
  if (place) {  // all of its lanes are there, but those that were ahead already
    for (auto& [lane, at] : begin) {
      if (at.pass > place->pass) continue;
      if (at.pass < place->pass) at = {lane, place->pass, 0, 0, 0};
      at.step = std::max(at.step, lanes->plan_->rounds_before(lane, place->step));
      for (const LanePosition& one : said)
        if (one.lane == lane && one.pass == place->pass) {
          at.split = one.split;
          at.rows = one.rows;
        }
    }
  }
  lanes->pass_ = begin.begin()->second.pass;
  for (const auto& [lane, at] : begin) lanes->pass_ = std::min(lanes->pass_, at.pass);
  lanes->begin_pass();
  return lanes;
}

void Lanes::begin_pass() {
  step_ = first_step();
  own_ = {pass_, 0, false};
  for (Lane& lane : lanes_) {
    lane.batcher =
        std::make_unique<Batcher>(of_.spec, make_store(of_.spec, of_.shape), of_.slot_bytes);
    lane.reader.reset();
    lane.next = lane.skip = 0;
    lane.opened.clear();
    lane.over = lane.splits == 0;
    lane.gave = lane.wrapped = false;
    lane.given = plan_->rounds_before(lane.number, step_);
    lane.discard = lane.splits == 0 ? 0 : lane.given;
    const LanePosition& at = begin_.at(lane.number);
    if (at.pass > pass_) {
      lane.over = true;
      lane.discard = 0;
      lane.given = kThrough;
    }
    if (at.pass != pass_ || lane.splits == 0) continue;
    lane.given = std::max(lane.given, at.step);
    if (at.split == 0 && at.rows == 0) continue;  // nothing was taken of it
    lane.next = at.split;
    lane.skip = at.rows;
    lane.gave = true;
    lane.over = at.rows == 0 && at.split % lane.splits == 0;
    lane.discard = 0;
    // It has begun anew: what it gives from here on makes the pass no longer.
    lane.wrapped = at.split > lane.splits || (at.split == lane.splits && at.rows > 0);
    lane.total = lane.given;
  }
}

bool Lanes::all_through() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.given == kThrough; });
}

/// Its next batch can be cut.
bool Lanes::ready(const Lane& lane) const {
  if (lane.batcher->full_batch()) return true;
  return lane.over && !lane.batcher->empty() && of_.spec.ends != Ends::kDrop;
}

/// More of it is to be read, or thrown away.
bool Lanes::unread(const Lane& lane) const {
  return !settled(lane) || (lane.discard > 0 && ready(lane));
}

/// So many batches of the pass it has for certain, those before this one included.
std::uint64_t Lanes::known(const Lane& lane) const {
  if (lane.wrapped) return lane.total;
  if (lane.discard > 0) return lane.given;
  const std::uint64_t rows = lane.batcher->waiting(), batch = std::max(1u, of_.spec.batch_rows);
  const bool part = lane.over && of_.spec.ends != Ends::kDrop && rows % batch != 0;
  const std::uint64_t least = lane.batcher->full_batch() ? 1 : 0;  // a slot may cut it short
  return lane.given + std::max(least, rows / batch + (part ? 1 : 0));
}

/// known() is all that it has. Batches that a slot cuts short are counted when they are cut.
bool Lanes::exact(const Lane& lane) const {
  if (lane.wrapped) return true;
  if (!lane.over || lane.discard > 0) return false;
  if (lane.batcher->empty()) return true;
  if (of_.spec.ends == Ends::kDrop) return !lane.batcher->full_batch();
  return lane.batcher->exact_batch();
}

StepReport Lanes::report() const {
  if (own_.ended) return own_;
  StepReport report{pass_, 0, true};
  const std::uint64_t n = lanes_.size();
  if (of_.spec.ends == Ends::kDrop) {  // up to the first step without a batch
    report.steps = ~std::uint64_t{0};
    for (std::uint64_t i = 0; i < n; ++i) {
      const Lane& lane = lanes_[static_cast<std::size_t>(i)];
      if (lane.given == kThrough) continue;
      const std::uint64_t first = known(lane) * n + i;
      if (first < report.steps) report = {pass_, first, exact(lane)};
    }
  } else {  // up to the last step with one
    for (std::uint64_t i = 0; i < n; ++i) {
      const Lane& lane = lanes_[static_cast<std::size_t>(i)];
      if (lane.given == kThrough) continue;
      if (const std::uint64_t batches = known(lane); batches > 0)
        report.steps = std::max(report.steps, (batches - 1) * n + i + 1);
      report.ended = report.ended && exact(lane);
    }
  }
  if (of_.spec.take_batches != 0) {
    const std::uint64_t most =
        plan_->step_from(rank_, of_.spec.skip_batches + of_.spec.take_batches);
    if (report.steps >= most) report = {pass_, most, true};
  }
  report.steps -= std::min(report.steps, first_step());
  return report;
}

std::vector<StepReport> Lanes::reports() const {
  if (of_.spec.ends == Ends::kUneven || plan_->world() == 1) return {};
  std::vector<StepReport> reports = before_;
  if (of_.spec.passes == 0 || pass_ < of_.spec.passes) reports.push_back(report());
  return reports;
}

Lanes::Next Lanes::next(const StepNews& news) {
  if (of_.spec.passes != 0 && pass_ >= of_.spec.passes) return Next::kEnd;
  if (splits_.count() == 0) return Next::kEnd;
  const Ends ends = of_.spec.ends;
  for (;;) {
    const bool taken =
        of_.spec.take_batches != 0 &&
        plan_->batch_of(rank_, step_) >= of_.spec.skip_batches + of_.spec.take_batches;
    if (taken && ends == Ends::kUneven) return Next::kPassEnd;
    if (taken) {
      own_ = report();
      switch (verdict(news)) {
        case StepVerdict::kFill:
          return Next::kPad;
        case StepVerdict::kEnd:
          return Next::kPassEnd;
        default:
          return Next::kWait;
      }
    }
    Lane& lane = current();
    if (step_ / lanes_.size() < lane.given) {  // behind the commit
      if (all_through()) return Next::kPassEnd;
      ++step_;
      continue;
    }
    for (Lane& one : lanes_)
      if (settled(one) && !ready(one)) one.discard = 0;  // there is no more to throw away
    reading_ = static_cast<std::size_t>(step_ % lanes_.size());
    if (unread(lane)) return Next::kRead;
    const bool has = ready(lane);
    if (ends == Ends::kUneven) {
      if (has) return Next::kBatch;
      if (std::all_of(lanes_.begin(), lanes_.end(),
                      [&](const Lane& one) { return one.over && !ready(one); }))
        return Next::kPassEnd;
      ++step_;  // a lane that has ended
      continue;
    }
    own_ = report();
    switch (verdict(news)) {
      case StepVerdict::kGive:
        return has ? Next::kBatch : fill(lane);
      case StepVerdict::kFill:
        return fill(lane);
      case StepVerdict::kEnd:
        return Next::kPassEnd;
      case StepVerdict::kWait:
        for (std::size_t i = 0; i < lanes_.size(); ++i)  // what is read may end it
          if (unread(lanes_[i])) {
            reading_ = i;
            return Next::kRead;
          }
        return Next::kWait;
    }
  }
}

/// Of the step, after report(); alone a consumer is all the news that there is.
StepVerdict Lanes::verdict(const StepNews& news) const {
  const StepNews alone{
      pass_, own_.steps, own_.steps, own_.ended ? own_.steps : ~std::uint64_t{0}, own_.ended, true};
  return step_verdict(of_.spec.ends, step_ - first_step(), own_,
                      plan_->world() == 1 ? alone : news);
}

/// The step of a lane that has no batch left.
Lanes::Next Lanes::fill(Lane& lane) {
  if (of_.spec.ends != Ends::kWrap || lane.splits == 0) return Next::kPad;
  if (ready(lane)) return Next::kBatch;
  if (!lane.gave) return Next::kPad;  // no split of it has a row
  if (!lane.wrapped) lane.total = known(lane);
  lane.wrapped = true;
  lane.over = false;
  lane.opened.clear();
  return Next::kRead;
}

Status Lanes::read() {
  Lane& lane = lanes_[reading_];
  if (lane.discard > 0 && ready(lane)) {
    throw_away(lane);
    return {};
  }
  if (!lane.reader) {
    const SplitKey key = plan_->split(lane.number, pass_, lane.next);
    const Split split = splits_.split(key);
    lane.batcher->begin_split(key, lane.skip);
    lane.opened.push_back({key, lane.next, std::exchange(lane.skip, 0)});
    ++lane.next;
    DLRUN_ASSIGN(lane.reader, open_rows(of_.source, split, of_.spec, of_.shape,
                                        lane.batcher->store(), of_.policy));
    return {};
  }
  DLRUN_ASSIGN(const bool more, lane.reader->read());
  if (!more) {
    lane.batcher->close_window();
    lane.batcher->end_split();
    lane.reader.reset();
    lane.over = lane.next % lane.splits == 0;
  } else if (!of_.spec.shuffle || lane.batcher->window_bytes() >= of_.window_bytes_max) {
    lane.batcher->close_window();
  }
  return {};
}

LanePosition Lanes::advance(Lane& lane) {
  LanePosition at{lane.number, pass_, 0, 0, 0};
  for (const SplitPiece& piece : lane.batcher->pieces()) {
    while (lane.opened.front().key != SplitKey{piece.split_id, piece.pass}) lane.opened.pop_front();
    Opened& split = lane.opened.front();
    split.rows += piece.rows;
    at.split = split.index + (piece.last != 0 ? 1 : 0);
    at.rows = piece.last != 0 ? 0 : split.rows;
  }
  lane.gave = true;
  lane.batcher->sent(0);
  lane.batcher->released(0);  // nobody leases: nothing has to be told done
  (void)lane.batcher->take_done();
  return at;
}

void Lanes::throw_away(Lane& lane) {
  scratch_.resize(static_cast<std::size_t>(of_.slot_bytes) + kColumnAlign);
  const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
  const std::size_t to = (kColumnAlign - address % kColumnAlign) % kColumnAlign;
  (void)lane.batcher->write(
      std::span(scratch_).subspan(to, static_cast<std::size_t>(of_.slot_bytes)));
  (void)advance(lane);
  --lane.discard;
}

std::uint64_t Lanes::write(std::span<std::byte> slot) {
  Lane& lane = current();
  const std::uint64_t bytes = lane.batcher->write(slot);
  BatchHeader header;
  std::memcpy(&header, slot.data(), sizeof header);
  header.has_lane = 1;
  header.lane = advance(lane);
  header.lane.step = ++step_;
  ++lane.given;
  std::memcpy(slot.data(), &header, sizeof header);
  return bytes;
}

std::uint64_t Lanes::pad() {
  ++current().given;
  return ++step_;
}

void Lanes::end_pass() {
  before_ = {report()};
  ++pass_;
  begin_pass();
}

}  // namespace dlrun::io
