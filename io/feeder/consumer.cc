#include "io/feeder/consumer.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>

#include "io/feeder/row_reader.h"
#include "io/feeder/shape.h"
#include "io/pipe/protocol.h"

namespace dlrun::io {

namespace {
constexpr Duration kWaitMin = std::chrono::milliseconds(20);
constexpr Duration kWaitMax = std::chrono::milliseconds(500);
constexpr Duration kSleepMax = std::chrono::seconds(1);
constexpr Duration kAskEvery = std::chrono::milliseconds(500);  ///< a lease should last this long,
constexpr Duration kAskSeldom = std::chrono::seconds(4);        ///< and not longer
constexpr Duration kDoneWithin = std::chrono::milliseconds(500);
constexpr Duration kEndHeldMax = std::chrono::seconds(2);  ///< one that never sleeps, with batches
constexpr Duration kLookAgain = std::chrono::milliseconds(10);
constexpr Duration kTellRestWithin = std::chrono::seconds(2);
constexpr Duration kNewsMax = std::chrono::milliseconds(100);  ///< of steps: no record is written
constexpr Duration kSayAgain = std::chrono::seconds(2);        ///< its steps, when all is known

bool answer_may_be_lost(Errc code) {
  return code == Errc::kUnavailable || code == Errc::kDeadlineExceeded || code == Errc::kOverloaded;
}
}  // namespace

Consumer::Consumer(task::AdmitConsumer admit, std::vector<SplitProgress> progress,
                   std::vector<LanePosition> lanes, pipe::Fd socket, ConsumerLimits limits,
                   Source& source, AgentLink& link, LeasePump& pump,
                   std::function<void()> on_finished)
    : admit_(std::move(admit)),
      progress_(std::move(progress)),
      lane_progress_(std::move(lanes)),
      spec_(admit_.input),
      limits_(limits),
      source_(source),
      link_(link),
      pump_(pump),
      socket_(std::move(socket)),
      mailbox_(std::make_shared<Mailbox>()),
      lease_ahead_(limits.lease_ahead),
      on_finished_(std::move(on_finished)),
      thread_([this] {
        if (const Status attached = attach(); attached)
          loop();
        else
          PipeWriter::refuse(socket_.get(), attached.error());
        tell_rest();
        writer_.reset();
        socket_.reset();
        finished_ = true;
        if (on_finished_) on_finished_();
      }) {}

Consumer::~Consumer() {
  stop();
  thread_.join();
}

void Consumer::stop() {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->stop = true;
  mailbox_->full = true;
  if (mailbox_->event) pipe::ring_eventfd(mailbox_->event.get());
}

Status Consumer::attach() {
  {
    const std::lock_guard lock(mailbox_->mutex);
    DLRUN_ASSIGN(mailbox_->event, pipe::make_eventfd());
  }
  DLRUN_ASSIGN(const auto files, list());
  DLRUN_ASSIGN(start_, tell_files(files));
  DLRUN_ASSIGN(shape_, look_at(source_, files, spec_));
  DLRUN_TRY(open_quarantine());
  const PipeGeometry geometry = geometry_for(spec_, shape_, limits_.slot_bytes_max);
  DLRUN_ASSIGN(writer_, PipeWriter::create(std::move(socket_), spec_.name, geometry));
  if (has_lanes(spec_.mode)) return begin_lanes(files);
  batcher_.emplace(spec_, make_store(spec_, shape_), writer_->slot_bytes());
  DLRUN_ASSIGN(const SplitTable splits, SplitTable::of(spec_, files));
  resume(splits);
  return {};
}

/// Whoever is to answer may be away (the agent, the coordinator): for as long as the consumer
/// waits.
Result<InputStart> Consumer::tell_files(const std::vector<FileEntry>& files) {
  for (;;) {
    auto told = link_.files(admit_.consumer, spec_.name, files, limits_.request_timeout);
    if (told || !answer_may_be_lost(told.error().code)) return told;
    pipe::PollItem items[] = {{socket_.get()}, {mailbox_->event.get()}};
    DLRUN_TRY(pipe::poll_until(items, pipe::now() + kWaitMax));
    if (items[0].ready) return fail(Errc::kCancelled, "the consumer went");
    const std::lock_guard lock(mailbox_->mutex);
    if (mailbox_->stop) return fail(Errc::kCancelled, "the feeder stops");
  }
}

/// With weights every URI is a source of its own.
Result<std::vector<FileEntry>> Consumer::list() {
  if (spec_.weights.empty()) return source_.list(spec_.uris, limits_.files_max);
  std::vector<FileEntry> all;
  for (std::uint32_t i = 0; i < spec_.uris.size(); ++i) {
    DLRUN_ASSIGN(auto files, source_.list({spec_.uris[i]}, limits_.files_max - all.size()));
    for (FileEntry& file : files) {
      file.source = i;
      all.push_back(std::move(file));
    }
  }
  return all;
}

/// Where the consumer says that it is, else where the job says.
Status Consumer::begin_lanes(const std::vector<FileEntry>& files) {
  std::optional<LanePosition> place;
  if (!lane_progress_.empty()) {
    place = lane_progress_.front();
    if (place->lane != pipe::kNoLane)
      return fail(Errc::kInvalidArgument, "progress in lanes without its place");
  }
  const auto said = std::span(lane_progress_).subspan(place ? 1 : 0);
  const Lanes::Of of{
      spec_, shape_, source_, *bad_records_, writer_->slot_bytes(), limits_.window_bytes_max};
  DLRUN_ASSIGN(lanes_, Lanes::make(of, files, admit_.consumer.rank, start_, place, said));
  resync_ = false;
  return {};
}

Status Consumer::open_quarantine() {
  std::unique_ptr<Quarantine> quarantine;
  if (spec_.on_bad_record == OnBadRecord::kQuarantine) {
    DLRUN_ASSIGN(quarantine, Quarantine::open(spec_.quarantine, limits_.quarantine_bytes_max));
  }
  bad_records_.emplace(spec_.on_bad_record, spec_.bad_records_max, std::move(quarantine),
                       [this](const std::string& place) {
                         std::fprintf(stderr, "dlrun feeder: input %s: skipped %s\n",
                                      spec_.name.c_str(), place.c_str());
                       });
  return {};
}

/// Where the feeder before stopped: whole splits are done, begun ones go on behind the rows taken.
void Consumer::resume(const SplitTable& splits) {
  for (const SplitProgress& at : progress_) {
    if (at.split_id >= splits.count() || (spec_.passes != 0 && at.pass >= spec_.passes)) continue;
    const SplitKey key{at.split_id, at.pass};
    if (at.whole != 0) {
      done_.push_back(key);
      continue;
    }
    const auto committed =
        std::find_if(start_.begun.begin(), start_.begun.end(), [&](const SplitProgress& begun) {
          return begun.split_id == at.split_id && begun.pass == at.pass;
        });
    leased_.push_back(
        {splits.split(key), at.rows + (committed == start_.begun.end() ? 0 : committed->rows)});
  }
  std::sort(leased_.begin(), leased_.end(), [](const Leased& a, const Leased& b) {
    return std::pair(a.split.pass, a.split.id) < std::pair(b.split.pass, b.split.id);
  });
}

/// The last news, on this thread: nobody waits for it but the end of the task.
void Consumer::tell_rest() {
  const TimePoint until = pipe::now() + kTellRestWithin;
  pipe::PollItem item{mailbox_->event.get()};
  while (asking_ && pipe::now() < until) {  // one request at a time
    if (!pipe::poll_until({&item, 1}, until)) break;
    const std::lock_guard lock(mailbox_->mutex);
    pipe::drain_eventfd(mailbox_->event.get());
    if (mailbox_->answer) take_answer(*std::exchange(mailbox_->answer, std::nullopt));
  }
  task::FeederLease request;
  if (lanes_) request.steps = lanes_->reports();
  if ((done_.empty() && request.steps == told_) || refused_) return;
  request.consumer = admit_.consumer;
  request.input = spec_.name;
  request.splits_max = 0;
  request.done.assign(done_.begin(), done_.end());
  (void)link_.lease(request, kTellRestWithin);
}

void Consumer::loop() {
  for (;;) {
    if (!take_in()) return;
    ask_for_splits();
    const Step did = step();
    if (did == Step::kProgress) continue;
    auto what = PipeWriter::WaitFor::kRelease;
    if (did == Step::kNeedsSlot) what = PipeWriter::WaitFor::kSlot;
    if (did == Step::kNeedsEntry) what = PipeWriter::WaitFor::kEntry;
    TimePoint until = pipe::now() + kSleepMax;
    const bool untold = lanes_ && !failure_ && lanes_->reports() != told_;
    if ((did == Step::kIdle || untold) && !asking_ && !refused_ && !end_of_input_)
      until = std::min(until, std::max(ask_at_, pipe::now()));
    if (did == Step::kIdle && end_held_since_ != TimePoint{})
      until = std::min(until, pipe::now() + kLookAgain);
    if (!asking_ && !refused_ && !done_.empty())
      until = std::min(until, std::max(done_at_ + kDoneWithin, resync_ ? ask_at_ : pipe::now()));
    if (!writer_->wait(what, mailbox_->event.get(), until)) {
      (void)take_in();  // what it released before it went
      return;
    }
  }
}

/// What the consumer released and what the mailbox holds; an error = the consumer or the feeder is
/// to end.
Status Consumer::take_in() {
  std::vector<std::uint64_t> released;
  DLRUN_TRY(writer_->collect(released));
  if (batcher_)
    for (const std::uint64_t sequence : released) batcher_->released(sequence);
  for (const SplitKey split : batcher_ ? batcher_->take_done() : std::vector<SplitKey>()) {
    if (done_.size() == asked_done_) done_at_ = pipe::now();
    done_.push_back(split);
    if (wait_said_) ask_at_ = std::min(ask_at_, pipe::now());  // it made room for another lease
  }
  std::optional<Result<LeaseAnswer>> answer;
  bool stop = false;
  if (mailbox_->full) {
    const std::lock_guard lock(mailbox_->mutex);
    mailbox_->full = false;
    pipe::drain_eventfd(mailbox_->event.get());
    answer.swap(mailbox_->answer);
    stop = mailbox_->stop;
  }
  if (answer) take_answer(*answer);
  if (stop) return fail(Errc::kCancelled, "the feeder stops");
  return {};
}

void Consumer::take_answer(const Result<LeaseAnswer>& answer) {
  asking_ = false;
  const TimePoint now = pipe::now();
  if (!answer) {
    asked_done_ = 0;
    if (!answer_may_be_lost(answer.error().code)) {
      refused_ = true;
      return fail_input(answer.error());
    }
    resync_ = !lanes_;
    told_.clear();
    backoff_ = std::clamp(2 * backoff_, kWaitMin, kWaitMax);
    ask_at_ = now + backoff_;
    return;
  }
  resync_ = false;
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(asked_done_));
  asked_done_ = 0;
  done_at_ = now;
  if (lanes_) {
    // The same again: nobody else got any further.
    backoff_ = answer->steps == news_ ? std::clamp(2 * backoff_, kWaitMin, kNewsMax) : kWaitMin;
    ask_at_ = now + (ended_ ? kSayAgain : backoff_);
    news_ = answer->steps;
    return;
  }
  if (asked_splits_ == 0) return;  // it only told
  for (const Split& split : answer->splits) leased_.push_back({split, split.skip_rows});
  wait_said_ = answer->state == LeaseState::kWait;
  end_of_input_ = answer->state == LeaseState::kEndOfInput;
  backoff_ = wait_said_ ? std::clamp(2 * backoff_, kWaitMin, kWaitMax) : Duration{0};
  ask_at_ = now + backoff_;
}

void Consumer::send(task::FeederLease request) {
  asking_ = true;
  pump_.ask(std::move(request), [mailbox = mailbox_](Result<LeaseAnswer> answer) {
    const std::lock_guard lock(mailbox->mutex);
    mailbox->answer = std::move(answer);
    mailbox->full = true;
    pipe::ring_eventfd(mailbox->event.get());
  });
}

/// What it has read is told, and the news of the others heard, while they matter.
void Consumer::ask_for_steps() {
  if (asking_ || refused_ || failure_ || pipe::now() < ask_at_) return;
  task::FeederLease request;
  request.steps = lanes_->reports();
  if (request.steps.empty()) return;
  // All is known: it is said again now and then, for a job that forgot it, and others who wait.
  if (request.steps == told_ && news_.final && pipe::now() < told_at_ + kSayAgain) return;
  told_ = request.steps;
  told_at_ = pipe::now();
  request.consumer = admit_.consumer;
  request.input = spec_.name;
  request.splits_max = asked_splits_ = 0;
  send(std::move(request));
}

void Consumer::ask_for_splits() {
  if (lanes_) return ask_for_steps();
  const TimePoint now = pipe::now();
  if (asking_ || refused_ || (resync_ && now < ask_at_)) return;
  const bool low = leased_.size() <= lease_ahead_ / 2 && now >= ask_at_;
  const bool want = low && !end_of_input_ && !ended_ && !failure_;
  const bool last = end_of_input_ && leased_.empty() && !reader_ && batcher_->empty();
  const bool told_enough = done_.empty() || (now < done_at_ + kDoneWithin && !last);
  if (!want && told_enough) return;
  asked_splits_ = 0;
  if (want) {
    if (now < leased_at_ + kAskEvery)
      lease_ahead_ =
          std::min(2 * lease_ahead_, std::max(limits_.lease_ahead, limits_.lease_ahead_max));
    else if (now > leased_at_ + kAskSeldom)
      lease_ahead_ = std::max(lease_ahead_ / 2, limits_.lease_ahead);
    leased_at_ = now;
    asked_splits_ = std::max(
        1u, lease_ahead_ - std::min(lease_ahead_, static_cast<std::uint32_t>(leased_.size())));
  }
  task::FeederLease request;
  request.consumer = admit_.consumer;
  request.input = spec_.name;
  request.splits_max = asked_splits_;
  request.resync = resync_;
  request.done.assign(done_.begin(), done_.end());
  asked_done_ = done_.size();
  if (resync_) {
    request.held = batcher_->open_splits();
    for (const Leased& leased : leased_)
      request.held.push_back({leased.split.id, leased.split.pass});
  }
  send(std::move(request));
}

Consumer::Step Consumer::step_lanes() {
  switch (lanes_->next(news_)) {
    case Lanes::Next::kRead:
      if (const Status status = lanes_->read(); !status) fail_input(status.error());
      return Step::kProgress;
    case Lanes::Next::kBatch: {
      if (lanes_->pass() > passes_marked_) return put_marks(lanes_->pass());
      const auto slot = writer_->acquire();
      if (!slot) return Step::kNeedsSlot;
      const std::uint64_t bytes = lanes_->write(*slot);
      writer_->publish(bytes, lanes_->pass());
      return Step::kProgress;
    }
    case Lanes::Next::kPad:
      if (lanes_->pass() > passes_marked_) return put_marks(lanes_->pass());
      if (!writer_->entry_free()) return Step::kNeedsEntry;
      writer_->publish_no_rows(lanes_->pass(), lanes_->pad());
      return Step::kProgress;
    case Lanes::Next::kWait:
      return Step::kIdle;
    case Lanes::Next::kPassEnd:
      if (put_marks(lanes_->pass() + 1) == Step::kNeedsEntry) return Step::kNeedsEntry;
      lanes_->end_pass();
      return Step::kProgress;
    case Lanes::Next::kEnd:
      if (spec_.passes > passes_marked_) return put_marks(spec_.passes);
      // Once it may exit: the others must not wait for what it knew, or go further than it.
      if (!refused_ && (asking_ || lanes_->reports() != told_)) return Step::kIdle;
      if (!writer_->publish_end_of_data()) return Step::kNeedsEntry;
      ended_ = true;
      return Step::kProgress;
  }
  return Step::kOver;
}

Consumer::Step Consumer::step() {
  if (ended_) return Step::kOver;
  if (failure_) {
    if (!writer_->acquire()) return Step::kNeedsSlot;
    writer_->publish_error(*failure_);
    ended_ = true;
    return Step::kProgress;
  }
  if (lanes_) return step_lanes();
  if (batcher_->full_batch() && !(reader_ && batcher_->exact_batch())) return put_batch();
  if (reader_) return read_some();
  const bool flush =
      !batcher_->empty() && (leased_.empty() ? (wait_said_ || end_of_input_)
                                             : leased_.front().split.pass != batcher_->pass());
  if (flush) return put_batch();
  if (!leased_.empty()) {
    const std::uint32_t pass = leased_.front().split.pass;
    if (pass > passes_marked_) return put_marks(pass);
    current_ = std::move(leased_.front().split);
    const std::uint64_t skip = leased_.front().skip;
    leased_.pop_front();
    batcher_->begin_split({current_->id, current_->pass}, skip);
    auto reader = open_rows(source_, *current_, spec_, shape_, batcher_->store(), *bad_records_);
    if (!reader) {
      fail_input(reader.error());
      return Step::kProgress;
    }
    reader_ = std::move(*reader);
    return Step::kProgress;
  }
  if (!end_of_input_) return Step::kIdle;
  if (passes_marked_ < spec_.passes) return put_marks(spec_.passes);
  // It hears of the end when it has released everything and that is on record: if anything dies
  // after that, itself included, nobody reads it again. Batches that it keeps while it waits are
  // its own.
  if (!done_.empty()) return Step::kIdle;
  if (batcher_->unreleased() > 0) {
    if (end_held_since_ == TimePoint{}) end_held_since_ = pipe::now();
    if (!writer_->consumer_asleep() && pipe::now() < end_held_since_ + kEndHeldMax)
      return Step::kIdle;
  }
  if (!writer_->publish_end_of_data()) return Step::kNeedsEntry;
  ended_ = true;
  return Step::kProgress;
}

Consumer::Step Consumer::put_batch() {
  const auto slot = writer_->acquire();
  if (!slot) return Step::kNeedsSlot;
  const std::uint64_t bytes = batcher_->write(*slot);
  batcher_->sent(writer_->publish(bytes, batcher_->pass()));
  return Step::kProgress;
}

/// Marks up to `passes` passes as ended.
Consumer::Step Consumer::put_marks(std::uint32_t passes) {
  while (passes_marked_ < passes) {
    if (!writer_->publish_pass_end(passes_marked_)) return Step::kNeedsEntry;
    ++passes_marked_;
  }
  return Step::kProgress;
}

Consumer::Step Consumer::read_some() {
  const auto more = reader_->read();
  if (!more) {
    fail_input(more.error());
    return Step::kProgress;
  }
  if (!*more) {
    batcher_->close_window();
    batcher_->end_split();
    reader_.reset();
    return Step::kProgress;
  }
  if (!spec_.shuffle || batcher_->window_bytes() >= limits_.window_bytes_max)
    batcher_->close_window();
  return Step::kProgress;
}

void Consumer::fail_input(Error error) {
  if (!failure_) failure_ = std::move(error);
}

}  // namespace dlrun::io
