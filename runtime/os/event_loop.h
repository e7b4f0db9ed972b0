#pragma once
/// runtime/os/event_loop.h: one thread that sleeps in epoll; other threads hand it calls.
///
///   any thread:  post(call) --> queue --> eventfd rings
///   the thread:  calls posted so far, in order; on_time(now); sleep until a descriptor is ready, a
///                call comes,
///                or the time that on_time named; on_event(key, events) for each ready descriptor;
///                again
///
/// What the calls and handlers own needs no lock: they run on the thread, one at a time, and must
/// not block.
/// Bounds: the queue is as long as its callers let it be: each bounds what it posts (bytes unsent,
/// one call per task ...).
/// Threads: start() and stop() by the owner; post() from any thread; watch() and change() from the
/// thread, or before start().

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/os/fd.h"

namespace dlrun::os {

/// Calls for a thread that sleeps in a poll of its own; EventLoop has one inside.
class CallQueue {
 public:
  using Call = std::function<void()>;
  Status open();  ///< before anything else; kResourceExhausted when there is no descriptor left
  void post(Call call);
  void close();  ///< run_all() says false from now on
  /// on the thread: runs what was posted until now. False: closed, nothing was run
  bool run_all();
  int fd() const { return bell_.get(); }  ///< readable when there may be something to run

 private:
  Fd bell_;
  std::mutex mutex_;
  std::deque<Call> calls_;
  bool closed_ = false;
};

class EventLoop {
 public:
  struct Handlers {
    std::function<void(std::uint64_t key, std::uint32_t events)> on_event;  ///< EPOLLIN ...
    /// Before each sleep; returns when to be called next at the latest (nullopt: no matter).
    std::function<std::optional<TimePoint>(TimePoint now)> on_time;
  };

  EventLoop() = default;
  ~EventLoop() { stop(); }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  Status start(Handlers handlers);
  void stop();  ///< joins the thread; calls that were not run yet are dropped. Again: nothing
  void post(CallQueue::Call call) { calls_.post(std::move(call)); }

  /// `key` is any number but kBell. Closing a descriptor ends its watch.
  void watch(int fd, std::uint64_t key, std::uint32_t events);
  void change(int fd, std::uint64_t key, std::uint32_t events);

  static constexpr std::uint64_t kBell = ~std::uint64_t{0};

 private:
  void run();

  Handlers handlers_;
  Fd epoll_;
  CallQueue calls_;
  std::thread thread_;
};

}  // namespace dlrun::os
