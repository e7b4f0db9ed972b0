#include "web/hub.h"

#include <vector>

namespace dlrun::web {

void Hub::start() {
  subscription_ = control_.subscribe([weak = weak_from_this()](JobId job) {
    const auto self = weak.lock();
    if (!self) return;
    bool first = false;
    {
      const std::lock_guard lock(self->mutex_);
      first = self->changed_.empty();
      self->changed_.insert(job);
    }
    if (!first) return;
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
  std::set<JobId> changed;
  {
    const std::lock_guard lock(mutex_);
    changed.swap(changed_);
  }
  if (stopped_) return;
  watchers_.remove_if([](const auto& w) { return w.expired(); });
  std::vector<std::shared_ptr<Watcher>> due;
  for (const auto& weak : watchers_)
    if (auto watcher = weak.lock();
        watcher && (watcher->job.value == 0 || changed.contains(watcher->job)))
      due.push_back(std::move(watcher));
  for (const auto& watcher : due) watcher->on_change();
}

}  // namespace dlrun::web
