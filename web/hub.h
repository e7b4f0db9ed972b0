#pragma once
/// web/hub.h: tells event streams that something of their job (or of any) was recorded. One ListEvents per wake-up serves
/// all of them; without watchers nothing is asked. On the loop, but for what ControlApi calls.

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "runtime/cluster/core/api.h"
#include "web/http.h"

namespace dlrun::web {

class Hub : public std::enable_shared_from_this<Hub> {
 public:
  Hub(std::weak_ptr<Loop> loop, cluster::ControlApi& control, Duration timeout)
      : loop_(std::move(loop)), control_(control), timeout_(timeout) {}
  void start();
  void stop();  ///< drops the subscription; watchers hear nothing more

  /// `on_change` runs on the loop after events of `job` (0 = of anything) were recorded, until the handle is destroyed.
  std::shared_ptr<void> watch(JobId job, std::function<void()> on_change);

 private:
  struct Watcher {
    JobId job;
    std::function<void()> on_change;
  };
  void wake();
  void fetch();
  void fetched(Result<cluster::ApiReply> reply);

  std::weak_ptr<Loop> loop_;
  cluster::ControlApi& control_;
  Duration timeout_;
  std::shared_ptr<void> subscription_;
  std::atomic<std::uint64_t> newest_{0};
  std::atomic<bool> woken_{false};
  std::uint64_t seen_ = 0;
  bool fetching_ = false;
  bool stopped_ = false;
  std::list<std::weak_ptr<Watcher>> watchers_;
};

}  // namespace dlrun::web
