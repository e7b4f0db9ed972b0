#include "web/event_pumps.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/jobspec/json.h"
#include "web/problem.h"

namespace dlrun::web {
namespace {

constexpr std::uint32_t kEventsPerAsk = 200;

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

void EventsPump::start(Sink& sink) {
  sink_ = &sink;
  watch_ = context_.hub->watch(job_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->dirty_ = true, self->fetch();
  });
  sink_->send(": ok\n\n");  // the peer sees its headers now, not at the first event
  fetch();
}

void EventsPump::stop() {
  sink_ = nullptr;
  watch_.reset();
}

void EventsPump::fetch() {
  if (sink_ == nullptr || asking_ || !dirty_ || !sink_->writable()) return;
  asking_ = true;
  dirty_ = false;
  context_.ask(
      cluster::ListEvents{.after = after_, .job = job_, .limit = kEventsPerAsk},
      [self = shared_from_this()](Result<cluster::ApiReply> reply) {
        self->asking_ = false;
        if (self->sink_ == nullptr) return;
        const auto* list = reply ? std::get_if<cluster::EventList>(&*reply) : nullptr;
        if (list == nullptr) {
          const Error error = reply ? Error{Errc::kInternal, "unexpected reply"} : reply.error();
          self->sink_->send(sse("", "error", one_line(problem(error).body)));
          self->sink_->finish();
          return;
        }
        std::string out;
        for (const auto& event : list->events) {
          if (event.sequence <= self->after_) continue;
          self->after_ = event.sequence;
          out +=
              sse(std::to_string(event.sequence), "event", jobspec::dump(jobspec::to_json(event)));
        }
        // Looked further than the last event, or full: there may be more (a read is bounded by
        // records, not by events).
        if (list->last > self->after_ || list->events.size() >= kEventsPerAsk) self->dirty_ = true;
        self->after_ = std::max(self->after_, list->last);
        if (!out.empty()) self->sink_->send(std::move(out));
        self->fetch();
      });
}

JobPump::JobPump(const Context& context, cluster::JobView first)
    : context_(context),
      job_(first.id),
      first_(std::make_unique<cluster::JobView>(std::move(first))) {}

void JobPump::start(Sink& sink) {
  sink_ = &sink;
  watch_ = context_.hub->watch(job_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && self->sink_ != nullptr) self->again();
  });
  const auto self = shared_from_this();
  show(*first_);
  first_.reset();
  // `dirty_` is still set: something may have changed between the view in hand and the watch.
  fetch();
  arm();
}

void JobPump::stop() {
  sink_ = nullptr;
  watch_.reset();
  timer_.reset();
}

void JobPump::again() {
  dirty_ = true;
  fetch();
}

void JobPump::arm() {
  const auto loop = context_.loop.lock();
  if (sink_ == nullptr || !loop) return;
  timer_ = loop->after(kRecheck, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->sink_ == nullptr) return;
    self->again();
    self->arm();
  });
}

void JobPump::show(const cluster::JobView& view) {
  std::string text = jobspec::dump(jobspec::to_json(view));
  if (text != last_) {
    last_ = std::move(text);
    sink_->send(sse("", "job", last_));
  }
  if (cluster::is_final(view.state)) {
    sink_->send(sse("", "end", "{}"));
    sink_->finish();
  }
}

void JobPump::fetch() {
  if (sink_ == nullptr || asking_ || !dirty_ || !sink_->writable()) return;
  asking_ = true;
  dirty_ = false;
  context_.ask(cluster::GetJob{job_}, [self = shared_from_this()](Result<cluster::ApiReply> reply) {
    self->asking_ = false;
    if (self->sink_ == nullptr) return;
    const auto* view = reply ? std::get_if<cluster::JobView>(&*reply) : nullptr;
    if (view == nullptr) {
      const Error error = reply ? Error{Errc::kInternal, "unexpected reply"} : reply.error();
      self->sink_->send(sse("", "error", one_line(problem(error).body)));
      self->sink_->finish();
      return;
    }
    self->show(*view);
    self->fetch();
  });
}

}  // namespace dlrun::web
