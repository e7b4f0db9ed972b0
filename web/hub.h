#pragma once
/// web/hub.h: tells event streams that something of their job (or of any) changed. The control
/// plane says so after its answers show it, so a stream that looks then sees it. On the loop, but
/// for what ControlApi calls.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "runtime/cluster/core/api.h"
#include "web/http.h"

namespace dlrun::web {

class Hub : public std::enable_shared_from_this<Hub> {
 public:
  Hub(std::weak_ptr<Loop> loop, cluster::ControlApi& control)
      : loop_(std::move(loop)), control_(control) {}
  void start();
  void stop();  ///< drops the subscription; watchers hear nothing more

  /// `on_change` runs on the loop after something of `job` (0 = of anything) changed, until the
  /// handle is destroyed.
  std::shared_ptr<void> watch(JobId job, std::function<void()> on_change);

 private:
  struct Watcher {
    JobId job;
    std::function<void()> on_change;
  };
  void wake();

  std::weak_ptr<Loop> loop_;
  cluster::ControlApi& control_;
  std::shared_ptr<void> subscription_;
  std::mutex mutex_;         ///< of changed_
  std::set<JobId> changed_;  ///< since the last wake; bounded by the jobs that live
  bool stopped_ = false;
  std::list<std::weak_ptr<Watcher>> watchers_;
};

}  // namespace dlrun::web
