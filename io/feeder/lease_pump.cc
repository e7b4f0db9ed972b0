#include "io/feeder/lease_pump.h"

#include <utility>

namespace dlrun::io {

LeasePump::LeasePump(AgentLink& link, Duration timeout)
    : link_(link), timeout_(timeout), thread_([this] { run(); }) {}

LeasePump::~LeasePump() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (auto& [request, answer] : queue_) answer(fail(Errc::kCancelled, "the feeder stops"));
}

void LeasePump::ask(task::FeederLease request, Answer answer) {
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(request), std::move(answer));
  }
  wake_.notify_one();
}

void LeasePump::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    auto [request, answer] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    answer(link_.lease(request, timeout_));
    lock.lock();
  }
}

}  // namespace dlrun::io
