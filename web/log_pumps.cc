#include "web/log_pumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/jobspec/json.h"

namespace dlrun::web {
namespace {

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::size_t kStreamsMax = 8192;
// A stream that the store has never heard of when the job is over: its shipper had nothing to send.
constexpr Duration kUnknownGrace = std::chrono::seconds(1);

const char* name(LogStream stream) { return stream == LogStream::kStdout ? "stdout" : "stderr"; }

}  // namespace

void LogBodyPump::start(Sink& sink) {
  sink_ = &sink;
  on_writable();
}

void LogBodyPump::on_writable() {
  while (sink_ != nullptr && at_ < end_ && sink_->writable()) {
    const auto slice = context_.logs.read(ref_.task, ref_.stream, at_,
                                          std::min<std::uint64_t>(kReadBytes, end_ - at_));
    if (!slice || slice->bytes.empty() || slice->offset != at_) return sink_->abort();
    std::string bytes = slice->bytes.substr(0, end_ - at_);
    at_ += bytes.size();
    sink_->send(std::move(bytes));
  }
  if (sink_ != nullptr && at_ >= end_) sink_->finish();
}

LogFollowPump::LogFollowPump(const Context& context, cluster::JobView view, LogFilter filter)
    : context_(context), job_(view.id), filter_(std::move(filter)) {
  take_view(view);
}

bool LogFollowPump::wanted(const LogRef& ref) const {
  return (filter_.role.empty() || filter_.role == ref.task.role) &&
         (!filter_.rank || *filter_.rank == ref.task.rank) &&
         (!filter_.stream || *filter_.stream == ref.stream) &&
         (!filter_.generation || *filter_.generation == ref.task.generation.value);
}

void LogFollowPump::add(const LogRef& ref, bool never_started) {
  if (!wanted(ref)) return;
  if (const auto known = index_.find(ref); known != index_.end()) {
    streams_[known->second]->never_started |= never_started;
    return;
  }
  if (streams_.size() >= kStreamsMax) return;
  index_.emplace(ref, streams_.size());
  auto stream = std::make_unique<Stream>();
  stream->ref = ref;
  stream->never_started = never_started;
  stream->dirty = std::make_shared<std::atomic<bool>>(true);
  if (const auto from = filter_.from.find(ref); from != filter_.from.end()) {
    stream->at = from->second;
    stream->positioned = true;
  }
  streams_.push_back(std::move(stream));
}

void LogFollowPump::take_view(const cluster::JobView& view) {
  final_ = cluster::is_final(view.state);
  if (!listed_ || final_) {
    listed_ = true;
    if (const auto refs = context_.logs.list(job_))
      for (const auto& ref : *refs) add(ref, false);
  }
  for (const auto& task : view.tasks) {
    const bool never_started =
        task.state == cluster::TaskState::kEnded && task.started.ns == 0 && task.pid == 0;
    for (const LogStream stream : {LogStream::kStdout, LogStream::kStderr})
      add({task.task, stream}, never_started);
  }
}

void LogFollowPump::start(Sink& sink) {
  sink_ = &sink;
  sink_->send(": ok\n\n");
  if (filter_.follow) {
    watch_ = context_.hub->watch(job_, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && self->sink_ != nullptr) self->refresh();
    });
    refresh();  // the job may have moved between the view in hand and the watch
    arm_recheck();
  }
  pump();
}

void LogFollowPump::arm_recheck() {
  const auto loop = context_.loop.lock();
  if (sink_ == nullptr || final_ || !loop) return;
  recheck_ = loop->after(kRecheck, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->sink_ == nullptr) return;
    self->refresh();
    self->arm_recheck();
  });
}

void LogFollowPump::stop() {
  sink_ = nullptr;
  watch_.reset();
  timer_.reset();
  recheck_.reset();
  for (const auto& stream : streams_) stream->handle.reset();
}

void LogFollowPump::refresh() {
  if (sink_ == nullptr) return;
  if (asking_) return void(again_ = true);
  asking_ = true;
  again_ = false;
  context_.ask(cluster::GetJob{job_}, [self = shared_from_this()](Result<cluster::ApiReply> reply) {
    self->asking_ = false;
    if (self->sink_ == nullptr) return;
    if (const auto* view = reply ? std::get_if<cluster::JobView>(&*reply) : nullptr)
      self->take_view(*view);
    if (self->again_) self->refresh();
    self->pump();
  });
}

std::string LogFollowPump::event(const Stream& stream, const std::string& bytes) const {
  if (filter_.single)
    return sse(std::to_string(stream.at + bytes.size()), "log", jobspec::base64_encode(bytes));
  return sse(
      "", "log",
      fmt::format(
          R"({{"role":"{}","rank":{},"generation":{},"stream":"{}","offset":{},"bytes":"{}"}})",
          stream.ref.task.role, stream.ref.task.rank, stream.ref.task.generation.value,
          name(stream.ref.stream), stream.at, jobspec::base64_encode(bytes)));
}

void LogFollowPump::step(Stream& stream) {
  stream.dirty->store(false);
  if (filter_.follow && !stream.handle) {
    // Followed before it is read: what is appended in between sets `dirty` again.
    stream.handle = context_.logs.follow(stream.ref.task, stream.ref.stream,
                                         [dirty = stream.dirty, posted = posted_,
                                          weak_loop = context_.loop, weak = weak_from_this()] {
                                           dirty->store(true);
                                           if (posted->exchange(true)) return;
                                           if (const auto loop = weak_loop.lock())
                                             loop->post([posted, weak] {
                                               posted->store(false);
                                               if (const auto self = weak.lock()) self->pump();
                                             });
                                         });
  }
  if (!stream.positioned && filter_.tail_bytes) {
    if (const auto probe =
            context_.logs.read(stream.ref.task, stream.ref.stream, ~std::uint64_t{0}, 0))
      stream.at = std::max(probe->first, probe->size - std::min(probe->size, *filter_.tail_bytes));
  }
  stream.positioned = true;
  auto slice = context_.logs.read(stream.ref.task, stream.ref.stream, stream.at, kReadBytes);
  if (!slice) return;
  stream.known = true;
  if (slice->offset > stream.at && (!slice->bytes.empty() || slice->complete)) {
    const std::string where =
        filter_.single ? std::string()
                       : fmt::format(R"("role":"{}","rank":{},"generation":{},"stream":"{}",)",
                                     stream.ref.task.role, stream.ref.task.rank,
                                     stream.ref.task.generation.value, name(stream.ref.stream));
    sink_->send(
        sse("", "gap", fmt::format(R"({{{}"from":{},"to":{}}})", where, stream.at, slice->offset)));
    stream.at = slice->offset;
  }
  if (!slice->bytes.empty()) {
    sink_->send(event(stream, slice->bytes));
    stream.at += slice->bytes.size();
    stream.dirty->store(true);  // perhaps more: read until empty
    timer_.reset();             // a byte: the grace starts anew
    grace_over_ = false;
  } else if (slice->complete && stream.at >= slice->size) {
    stream.complete = true;
    stream.handle.reset();
  }
}

void LogFollowPump::pump() {
  if (sink_ == nullptr || pumping_) return;
  pumping_ = true;
  const auto self = shared_from_this();
  for (bool moved = true; moved && sink_ != nullptr && sink_->writable();) {
    moved = false;
    for (std::size_t i = 0; i < streams_.size() && sink_ != nullptr && sink_->writable(); ++i) {
      Stream& stream = *streams_[turn_++ % streams_.size()];
      if (stream.complete || !stream.dirty->load()) continue;
      step(stream);
      moved = true;
    }
  }
  pumping_ = false;
  check_end();
}

void LogFollowPump::check_end() {
  if (sink_ == nullptr) return;
  bool unknown = false, open = false;
  for (const auto& stream : streams_) {
    if (stream->complete) continue;
    if (stream->dirty->load()) return;  // bytes wait for the reader
    if (!stream->known && stream->never_started) continue;
    (stream->known ? open : unknown) = true;
  }
  if (filter_.follow) {
    if (!final_ || asking_) return;
    if ((open || unknown) && !grace_over_) {
      const auto loop = context_.loop.lock();
      if (timer_ || !loop) return;
      timer_ = loop->after(
          open ? context_.options.log_grace : std::min(kUnknownGrace, context_.options.log_grace),
          [weak = weak_from_this()] {
            const auto self = weak.lock();
            if (!self || self->sink_ == nullptr) return;
            self->grace_over_ = true;
            for (const auto& stream : self->streams_) stream->dirty->store(!stream->complete);
            self->pump();
          });
      return;
    }
  }
  sink_->send(sse("", "end", "{}"));
  sink_->finish();
}

}  // namespace dlrun::web
