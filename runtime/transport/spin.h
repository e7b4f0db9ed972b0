#pragma once
/// runtime/transport/spin.h: how long to look before sleeping. Waking an idle core costs 16 to 47
/// us, so a short look pays where answers come quickly; where they do not, it is shortened until it
/// is next to nothing. Lets others run while it looks.
/// Threads: single owner.

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "runtime/base/time.h"

namespace dlrun::transport {

inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Spin {
 public:
  static constexpr Duration kMin = std::chrono::microseconds(1);
  static constexpr Duration kMax = std::chrono::microseconds(50);

  /// Something was there without looking twice.
  void found() noexcept { budget_ = std::min(kMax, budget_ + std::chrono::microseconds(5)); }

  /// look() until it returns something, or the budget (at most `timeout` when that is not negative)
  /// is over.
  template <class Look>
  auto until(Duration timeout, Look look) -> decltype(look()) {
    const Duration limit = timeout < Duration::zero() ? budget_ : std::min(budget_, timeout);
    const auto end = std::chrono::steady_clock::now() + limit;
    do {
      for (int i = 0; i < kLooks; ++i) {
        if (auto thing = look()) {
          budget_ = std::min(kMax, budget_ * 2);
          return thing;
        }
        cpu_pause();
      }
      ::sched_yield();
    } while (std::chrono::steady_clock::now() < end);
    budget_ = std::max(kMin, budget_ / 2);
    return {};
  }

 private:
  static constexpr int kLooks = 16;
  Duration budget_ = std::chrono::microseconds(10);
};

}  // namespace dlrun::transport
