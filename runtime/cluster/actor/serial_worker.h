#pragma once
/// runtime/cluster/actor/serial_worker.h: one thread that runs closures in order, now or later. For
/// blocking work that must not hold an actor. Bounds: none of its own; what is posted comes from
/// bounded cores. Threads: post from any.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/time.h"

namespace dlrun::cluster {

class SerialWorker {
 public:
  SerialWorker() : thread_([this] { run(); }) {}
  ~SerialWorker() { stop(); }
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void post(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    now_.push_back(std::move(job));
    changed_.notify_one();
  }
  void post_after(Duration wait, std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    later_.emplace(std::chrono::steady_clock::now() + wait, std::move(job));
    changed_.notify_one();
  }
  /// Runs what was posted before, drops what is for later, joins. May be called twice.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!later_.empty() && later_.begin()->first <= std::chrono::steady_clock::now()) {
        now_.push_back(std::move(later_.begin()->second));
        later_.erase(later_.begin());
      }
      if (!now_.empty()) {
        const std::function<void()> job = std::move(now_.front());
        now_.pop_front();
        lock.unlock();
        job();
        lock.lock();
      } else if (stopping_) {
        return;
      } else if (later_.empty()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, later_.begin()->first);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> now_;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> later_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dlrun::cluster
