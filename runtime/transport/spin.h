#pragma once
/// runtime/transport/spin.h: how long to look before sleeping. Waking an idle core costs 16 to 47
/// us, so a short look pays where answers come quickly. What decides is how long the last sleep
/// was: one that ended within kWorth would have been spared by looking (two sleepers that wake each
/// other included), after a longer one the look is halved until it is next to nothing. Lets others
/// run while it looks; where that took long, the cores are wanted, and for a while it sleeps
/// instead: whoever sleeps is woken soon, whoever gives way comes last.
/// Threads: single owner.

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

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
  static constexpr Duration kWorth = std::chrono::microseconds(150);

  /// look() until it returns something, or the budget (at most `timeout` when that is not negative)
  /// is over.
  template <class Look, class GiveWay = int (*)()>
  auto until(Duration timeout, Look look, GiveWay give_way = ::sched_yield) -> decltype(look()) {
    const Duration limit = timeout < Duration::zero() ? budget_ : std::min(budget_, timeout);
    const auto start = std::chrono::steady_clock::now();
    for (Duration spent{0}; spent < limit; spent = std::chrono::steady_clock::now() - start) {
      for (int i = 0; i < kLooks; ++i) {
        if (auto thing = look()) return thing;
        cpu_pause();
      }
      if (spent <= kAlone) continue;
      if (crowded_ > 0) {
        --crowded_;
        break;
      }
      const auto away = std::chrono::steady_clock::now();
      give_way();
      if (std::chrono::steady_clock::now() - away > kMax) crowded_ = kCrowded;
    }
    return {};
  }

  /// A message ended a sleep that took so long.
  void slept(Duration time) noexcept {
    budget_ = time < kWorth ? kMax : std::max(kMin, budget_ / 2);
  }

 private:
  static constexpr int kLooks = 16;
  static constexpr Duration kAlone = std::chrono::microseconds(4);  ///< before it lets others run
  static constexpr std::uint32_t kCrowded = 256;  ///< looks, cut short before it would give way
  Duration budget_ = kMax;
  std::uint32_t crowded_ = 0;
};

}  // namespace dlrun::transport
