#include "runtime/os/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "runtime/base/assert.h"

namespace dlrun::os {

Status CallQueue::open() {
  DLRUN_ASSIGN(bell_, make_eventfd());
  return {};
}

void CallQueue::post(Call call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  ring_eventfd(bell_.get());
}

void CallQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  ring_eventfd(bell_.get());
}

bool CallQueue::run_all() {
  drain_eventfd(bell_.get());  // first: what is posted from here on rings again
  std::deque<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    calls.swap(calls_);
  }
  for (Call& call : calls) call();
  return true;
}

Status EventLoop::start(Handlers handlers) {
  DLRUN_ASSERT(!thread_.joinable());
  handlers_ = std::move(handlers);
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_errno("epoll");
  DLRUN_TRY(calls_.open());
  watch(calls_.fd(), kBell, EPOLLIN);
  thread_ = std::thread([this] { run(); });
  return {};
}

void EventLoop::stop() {
  if (!thread_.joinable()) return;
  calls_.close();
  thread_.join();
}

void EventLoop::watch(int fd, std::uint64_t key, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void EventLoop::change(int fd, std::uint64_t key, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::run() {
  const SystemClock clock;
  epoll_event events[64];
  while (calls_.run_all()) {
    const TimePoint now = clock.now();
    int timeout = -1;
    if (const auto next = handlers_.on_time ? handlers_.on_time(now) : std::nullopt; next) {
      const auto ms = (*next - now) / std::chrono::milliseconds(1);
      timeout = *next <= now ? 0 : static_cast<int>(std::min<std::int64_t>(ms + 1, 60'000));
    }
    const int n = ::epoll_wait(epoll_.get(), events, 64, timeout);
    for (int i = 0; i < n; ++i)
      if (events[i].data.u64 != kBell) handlers_.on_event(events[i].data.u64, events[i].events);
  }
}

}  // namespace dlrun::os
