#include "runtime/cluster/actor/store_actor.h"

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <string>

#include "runtime/base/seldom.h"
#include "runtime/cluster/actor/messages.h"

namespace dlrun::cluster {
namespace {

constexpr std::size_t kEventsPerCommitMax = 4096;

struct Waiting {
  caf::actor asker;
  Persist persist;
};

struct StoreState {
  static inline const char* name = "store";
  std::unique_ptr<ControlLog> log;
  StoreOptions options;
  std::uint64_t term = 0;
  std::vector<Waiting> waiting;
  std::size_t waiting_events = 0;
  bool flush_sent = false;
  bool forget_sent = false;
  Seldom refusals, not_forgotten;
};
using Self = caf::stateful_actor<StoreState>;

std::vector<JobId> jobs_of(const std::vector<Event>& events) {
  std::vector<JobId> jobs;
  for (const Event& e : events) jobs.push_back(job_of(e));
  std::sort(jobs.begin(), jobs.end());
  jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
  return jobs;
}

void commit(Self* self, std::vector<Waiting> group) {
  StoreState& s = self->state;
  std::vector<Event> events;
  std::vector<std::vector<JobId>> jobs;
  for (Waiting& w : group) {
    jobs.push_back(jobs_of(w.persist.events));
    for (Event& e : w.persist.events) events.push_back(std::move(e));
  }
  const TimePoint began = s.options.clock->now();
  const Result<std::uint64_t> last = s.log->append(events, s.term, s.options.clock->wall());
  if (s.options.meters != nullptr) {
    s.options.meters->commit_seconds.add(seconds_of(s.options.clock->now() - began));
    if (last) s.options.meters->commit_events.add(static_cast<double>(events.size()));
    if (!last) s.options.meters->commits_refused.add(1);
  }
  if (!last && s.refusals.now() && s.options.log)
    s.options.log("store: " + last.error().to_string() + "; what waits for it is tried again (" +
                  std::to_string(s.refusals.count()) + " so far)");
  if (last || group.size() == 1) {
    for (std::size_t i = 0; i < group.size(); ++i)
      self->send(group[i].asker, StoreDone{group[i].persist.id,
                                           last ? Status{} : Status(tl::unexpected(last.error())),
                                           std::move(jobs[i])});
    return;
  }
  // Refused together (a full disk refuses a large group first): each by itself, in order.
  std::size_t at = 0;
  for (Waiting& w : group) {
    const std::size_t n = w.persist.events.size();
    std::move(events.begin() + static_cast<std::ptrdiff_t>(at),
              events.begin() + static_cast<std::ptrdiff_t>(at + n), w.persist.events.begin());
    at += n;
    std::vector<Waiting> one;
    one.push_back(std::move(w));
    commit(self, std::move(one));
  }
}

void forget_later(Self* self) {
  StoreState& s = self->state;
  if (s.log->has_superseded() && !std::exchange(s.forget_sent, true))
    self->delayed_send(self, s.options.forget_every, StoreForget{});
}

void forget(Self* self) {
  StoreState& s = self->state;
  s.forget_sent = false;
  if (const Status ok = s.log->forget_superseded(); !ok && s.not_forgotten.now() && s.options.log)
    s.options.log(
        "store: what a later record stands for could not be removed: " + ok.error().to_string() +
        " (" + std::to_string(s.not_forgotten.count()) + " so far)");
  forget_later(self);
}

void flush(Self* self) {
  StoreState& s = self->state;
  s.flush_sent = false;
  s.waiting_events = 0;
  if (!s.waiting.empty()) commit(self, std::exchange(s.waiting, {}));
  forget_later(self);
}

template <class Actor>
void answer(Actor* self, ControlLog& log, const StoreRead& message) {
  const caf::actor asker = caf::actor_cast<caf::actor>(self->current_sender());
  std::visit(
      [&](const auto& query) {
        self->send(asker, StoreAnswer{query.call, log.read(query)});
      },
      message.query);
}

struct ReaderState {
  static inline const char* name = "store_reader";
  std::unique_ptr<ControlLog> log;
};

caf::behavior store_reader(caf::stateful_actor<ReaderState>* self,
                           std::shared_ptr<std::unique_ptr<ControlLog>> log) {
  self->state.log = std::move(*log);
  self->set_default_handler(caf::drop);
  return {
      [self](const StoreRead& message) { answer(self, *self->state.log, message); },
  };
}

caf::behavior store(Self* self, std::shared_ptr<std::unique_ptr<ControlLog>> log,
                    StoreOptions options) {
  self->state.log = std::move(*log);
  self->state.options = std::move(options);
  self->set_default_handler(caf::drop);
  self->delayed_send(self, self->state.options.retire_every, StoreRetire{});
  return {
      [self](StoreEvents& message) {
        StoreState& s = self->state;
        s.waiting_events += message.persist.events.size();
        s.waiting.push_back(
            {caf::actor_cast<caf::actor>(self->current_sender()), std::move(message.persist)});
        if (s.waiting_events >= kEventsPerCommitMax) return flush(self);
        // Behind what is in the mailbox already: all of that joins this commit.
        if (!std::exchange(s.flush_sent, true)) self->send(self, StoreFlush{});
      },
      [self](const StoreFlush&) { flush(self); },
      [self](const StoreRead& message) { answer(self, *self->state.log, message); },
      [self](const StoreTerm& message) { self->state.term = message.term; },
      [self](const StoreForget&) { forget(self); },
      [self](const StoreRetire&) {
        StoreState& s = self->state;
        const WallTime before{s.options.clock->wall().ns - s.options.retention.count()};
        const auto gone = s.log->retire(before, s.options.retire_jobs_max);
        if (!gone && s.options.log) s.options.log("retention: " + gone.error().to_string());
        if (gone && !gone->jobs.empty() && s.options.on_retired) {
          std::vector<JobId> jobs;
          for (const std::uint64_t job : gone->jobs) jobs.emplace_back(job);
          s.options.on_retired(jobs);
        }
        const bool more = gone && gone->more;
        self->delayed_send(self, more ? Duration(std::chrono::seconds(1)) : s.options.retire_every,
                           StoreRetire{});
      },
  };
}

}  // namespace

caf::actor spawn_store(caf::actor_system& system, std::unique_ptr<ControlLog> log,
                       StoreOptions options) {
  auto holder = std::make_shared<std::unique_ptr<ControlLog>>(std::move(log));
  return system.spawn<caf::detached>(store, std::move(holder), std::move(options));
}

caf::actor spawn_store_reader(caf::actor_system& system, std::unique_ptr<ControlLog> log) {
  auto holder = std::make_shared<std::unique_ptr<ControlLog>>(std::move(log));
  return system.spawn<caf::detached>(store_reader, std::move(holder));
}

}  // namespace dlrun::cluster
