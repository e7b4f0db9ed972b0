#pragma once
/// runtime/os/serial_worker.h: one thread that runs closures in order, now or later. For
/// blocking work that must not hold an actor.
/// Bounds: post() has none of its own: what comes from bounded cores; post_when_room() waits while
/// kWaitingMax closures are queued: what comes from processes, so that their sockets fill up
/// instead.
/// Threads: post from any; post_when_room() never from the worker, nor from who the worker waits
/// for.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/time.h"

namespace dlrun::os {

class SerialWorker {
 public:
  static constexpr std::size_t kWaitingMax = 4096;

  SerialWorker() : thread_([this] { run(); }) {}
  ~SerialWorker() { stop(); }
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void post(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    now_.push_back(std::move(job));
    changed_.notify_one();
  }
  void post_when_room(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return stopping_ || now_.size() < kWaitingMax; });
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
      room_.notify_all();
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
        if (now_.size() < kWaitingMax) room_.notify_one();
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
  std::condition_variable changed_, room_;
  std::deque<std::function<void()>> now_;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> later_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dlrun::os
