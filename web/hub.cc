#include "web/hub.h"

#include <algorithm>
#include <set>

namespace dlrun::web {
namespace {
constexpr std::uint32_t kFetchMax = 1000;
}

void Hub::start() {
  subscription_ = control_.subscribe([weak = weak_from_this()](std::uint64_t sequence) {
    const auto self = weak.lock();
    if (!self) return;
    std::uint64_t old = self->newest_.load();
    while (old < sequence && !self->newest_.compare_exchange_weak(old, sequence)) {
    }
    if (self->woken_.exchange(true)) return;
    if (const auto loop = self->loop_.lock())
      loop->post([weak] {
        if (const auto hub = weak.lock()) hub->wake();
      });
  });
}

void Hub::stop() {
  stopped_ = true;
  subscription_.reset();
  watchers_.clear();
}

std::shared_ptr<void> Hub::watch(JobId job, std::function<void()> on_change) {
  auto watcher = std::make_shared<Watcher>(Watcher{job, std::move(on_change)});
  watchers_.push_back(watcher);
  return watcher;
}

void Hub::wake() {
  woken_ = false;
  if (stopped_ || fetching_) return;
  watchers_.remove_if([](const auto& w) { return w.expired(); });
  if (watchers_.empty()) {
    seen_ = newest_.load();
    return;
  }
  if (seen_ ==
      0) {  // the first event since the start: what came before is no news, so nothing needs to be read
    seen_ = newest_.load();
    std::vector<std::shared_ptr<Watcher>> all;
    for (const auto& weak : watchers_)
      if (auto watcher = weak.lock()) all.push_back(std::move(watcher));
    for (const auto& watcher : all) watcher->on_change();
    return;
  }
  if (seen_ < newest_.load()) fetch();
}

void Hub::fetch() {
  fetching_ = true;
  control_.call(cluster::ListEvents{.after = seen_, .limit = kFetchMax}, timeout_,
                [weak = weak_from_this(), weak_loop = loop_](Result<cluster::ApiReply> reply) {
                  if (const auto loop = weak_loop.lock())
                    loop->post([weak, reply = std::move(reply)]() mutable {
                      if (const auto hub = weak.lock()) hub->fetched(std::move(reply));
                    });
                });
}

void Hub::fetched(Result<cluster::ApiReply> reply) {
  fetching_ = false;
  if (stopped_) return;
  const auto* list = reply ? std::get_if<cluster::EventList>(&*reply) : nullptr;
  std::set<JobId> jobs;
  bool all = false;
  if (list == nullptr) {
    all = true;  // what happened is not known: everybody looks for himself
    seen_ = newest_.load();
  } else {
    for (const auto& event : list->events) {
      jobs.insert(event.job);
      seen_ = std::max(seen_, event.sequence);
    }
    if (list->events.size() < kFetchMax)
      seen_ = std::max(seen_, std::min(newest_.load(), list->last));
  }
  std::vector<std::shared_ptr<Watcher>> due;
  for (const auto& weak : watchers_)
    if (auto watcher = weak.lock();
        watcher && (all || (watcher->job.value == 0 ? !jobs.empty() : jobs.contains(watcher->job))))
      due.push_back(std::move(watcher));
  const bool more = seen_ < newest_.load() && list != nullptr && !list->events.empty();
  for (const auto& watcher : due) watcher->on_change();
  if (more && !fetching_) fetch();
}

}  // namespace dlrun::web
