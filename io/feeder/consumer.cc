#include "io/feeder/consumer.h"

#include <algorithm>
#include <cstdio>

#include "io/feeder/shape.h"

namespace dlrun::io {

namespace {
constexpr Duration kWaitMin = std::chrono::milliseconds(20);
constexpr Duration kWaitMax = std::chrono::milliseconds(500);
constexpr Duration kSleepMax = std::chrono::seconds(1);
constexpr std::uint64_t kBadRecordsShown = 10;
constexpr std::size_t kDoneKept = 256;

bool answer_may_be_lost(Errc code) {
  return code == Errc::kUnavailable || code == Errc::kDeadlineExceeded || code == Errc::kOverloaded;
}
}  // namespace

Consumer::Consumer(task::AdmitConsumer admit, pipe::Fd socket, ConsumerLimits limits,
                   Source& source, AgentLink& link, LeasePump& pump)
    : admit_(std::move(admit)),
      spec_(admit_.input),
      limits_(limits),
      source_(source),
      link_(link),
      pump_(pump),
      socket_(std::move(socket)),
      mailbox_(std::make_shared<Mailbox>()),
      parser_(admit_.input),
      thread_([this] {
        if (const Status attached = attach(); attached)
          loop();
        else
          PipeWriter::refuse(socket_.get(), attached.error());
        writer_.reset();
        socket_.reset();
        finished_ = true;
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
  DLRUN_ASSIGN(const auto files, source_.list(spec_.uris, limits_.files_max));
  DLRUN_TRY(link_.files(admit_.consumer, spec_.name, files, limits_.request_timeout));
  DLRUN_ASSIGN(const InputShape shape, look_at(source_, files, spec_));
  const PipeGeometry geometry = geometry_for(spec_, shape, limits_.slot_bytes_max);
  DLRUN_ASSIGN(writer_, PipeWriter::create(std::move(socket_), spec_.name, geometry));
  batcher_.emplace(spec_, parser_, shape.cols, writer_->slot_bytes());
  return {};
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
    if (did == Step::kIdle && !asking_) until = std::min(until, ask_at_);
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
  for (const std::uint64_t sequence : released) batcher_->released(sequence);
  for (const SplitKey split : batcher_->take_done()) {
    const task::FeederDone done{admit_.consumer, spec_.name, split.split_id, split.pass};
    told_done_.push_back(done);
    if (told_done_.size() > kDoneKept) told_done_.pop_front();
    (void)link_.done(done);  // lost with the agent: then repeated before the resync
    ask_at_ = std::min(ask_at_, pipe::now());
  }
  std::optional<Result<LeaseAnswer>> answer;
  if (mailbox_->full) {
    const std::lock_guard lock(mailbox_->mutex);
    mailbox_->full = false;
    pipe::drain_eventfd(mailbox_->event.get());
    answer.swap(mailbox_->answer);
    if (mailbox_->stop) return fail(Errc::kCancelled, "the feeder stops");
  }
  if (answer) take_answer(*answer);
  return {};
}

void Consumer::take_answer(const Result<LeaseAnswer>& answer) {
  asking_ = false;
  const TimePoint now = pipe::now();
  if (!answer) {
    if (!answer_may_be_lost(answer.error().code)) return fail_input(answer.error());
    resync_ = true;
    backoff_ = std::clamp(2 * backoff_, kWaitMin, kWaitMax);
    ask_at_ = now + backoff_;
    return;
  }
  resync_ = false;
  leased_.insert(leased_.end(), answer->splits.begin(), answer->splits.end());
  wait_said_ = answer->state == LeaseState::kWait;
  end_of_input_ = answer->state == LeaseState::kEndOfInput;
  backoff_ = wait_said_ ? std::clamp(2 * backoff_, kWaitMin, kWaitMax) : Duration{0};
  ask_at_ = now + backoff_;
}

void Consumer::ask_for_splits() {
  if (asking_ || end_of_input_ || ended_ || failure_ || leased_.size() >= limits_.lease_ahead ||
      pipe::now() < ask_at_)
    return;
  task::FeederLease request;
  request.consumer = admit_.consumer;
  request.input = spec_.name;
  request.splits_max = limits_.lease_ahead - static_cast<std::uint32_t>(leased_.size());
  request.resync = resync_;
  if (resync_) {
    request.held = batcher_->open_splits();
    // Told again, and held until the job has heard it: else the resync would give it back.
    for (const task::FeederDone& done : told_done_) {
      (void)link_.done(done);
      request.held.push_back({done.split_id, done.pass});
    }
    for (const Split& split : leased_) request.held.push_back({split.id, split.pass});
  }
  asking_ = true;
  pump_.ask(std::move(request), [mailbox = mailbox_](Result<LeaseAnswer> answer) {
    const std::lock_guard lock(mailbox->mutex);
    mailbox->answer = std::move(answer);
    mailbox->full = true;
    pipe::ring_eventfd(mailbox->event.get());
  });
}

Consumer::Step Consumer::step() {
  if (ended_) return Step::kOver;
  if (failure_) {
    if (!writer_->acquire()) return Step::kNeedsSlot;
    writer_->publish_error(*failure_);
    ended_ = true;
    return Step::kProgress;
  }
  if (batcher_->full_batch()) return put_batch();
  if (reader_) return read_some();
  const bool flush =
      !batcher_->empty() &&
      (leased_.empty() ? (wait_said_ || end_of_input_) : leased_.front().pass != batcher_->pass());
  if (flush) return put_batch();
  if (!leased_.empty()) {
    const std::uint32_t pass = leased_.front().pass;
    if (pass > passes_marked_) return put_marks(pass);
    current_ = std::move(leased_.front());
    leased_.pop_front();
    auto reader = SplitReader::open(source_, *current_, {});
    if (!reader) {
      fail_input(reader.error());
      return Step::kProgress;
    }
    reader_ = std::move(*reader);
    batcher_->begin_split({current_->id, current_->pass});
    return Step::kProgress;
  }
  if (!end_of_input_) return Step::kIdle;
  if (passes_marked_ < spec_.passes) return put_marks(spec_.passes);
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
  auto chunk = reader_->next();
  if (!chunk) {
    fail_input(chunk.error());
    return Step::kProgress;
  }
  if (!*chunk) {
    batcher_->close_window();
    batcher_->end_split();
    reader_.reset();
    return Step::kProgress;
  }
  if ((*chunk)->skipped_bytes != 0)
    bad_record(current_->uri, *reader_,
               {(*chunk)->offset, 1,
                "record of " + std::to_string((*chunk)->skipped_bytes) + " bytes; at most " +
                    std::to_string(kRecordBytesMax)});
  std::string_view text = (*chunk)->text;
  std::uint64_t offset = (*chunk)->offset;
  while (!text.empty() && !failure_) {
    const ParseProgress progress = parser_.parse(text, offset, batcher_->block());
    text.remove_prefix(progress.consumed);
    offset += progress.consumed;
    if (progress.bad) bad_record(current_->uri, *reader_, *progress.bad);
  }
  if (!spec_.shuffle || batcher_->window_bytes() >= limits_.window_bytes_max)
    batcher_->close_window();
  return Step::kProgress;
}

void Consumer::bad_record(const std::string& uri, SplitReader& reader, const BadRecord& bad) {
  ++bad_records_;
  const bool skip =
      spec_.on_bad_record == OnBadRecord::kSkip && bad_records_ <= spec_.bad_records_max;
  if (skip && bad_records_ > kBadRecordsShown) return;
  const auto line = reader.line_of(bad.offset);
  const std::string place = describe(uri, line ? *line : 0, bad);
  if (skip) {
    std::fprintf(stderr, "dlrun feeder: input %s: skipped %s\n", spec_.name.c_str(), place.c_str());
    return;
  }
  fail_input({Errc::kInvalidArgument, spec_.on_bad_record == OnBadRecord::kSkip
                                          ? place + " (more than " +
                                                std::to_string(spec_.bad_records_max) +
                                                " bad records, which the job allows)"
                                          : place});
}

void Consumer::fail_input(Error error) {
  if (!failure_) failure_ = std::move(error);
}

}  // namespace dlrun::io
