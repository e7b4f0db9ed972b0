#pragma once
/// runtime/cluster/actor/wake.h: turns a core's next_wake() into one delayed message. Cores tell
/// when they want to be called; an earlier time arms a new timer, a later one lets the armed fire
/// and looks again. Nothing to cancel.

#include <optional>

#include "runtime/cluster/actor/messages.h"

namespace dlrun::cluster {

class WakeTimer {
 public:
  /// Call after each event. `self->delayed_send(self, ...)` is all that it uses.
  template <class Self>
  void arm(Self* self, std::optional<TimePoint> next, TimePoint now) {
    if (!next || (armed_ && armed_at_ <= *next)) return;
    armed_ = true;
    armed_at_ = *next;
    const Duration wait = *next > now ? *next - now : Duration(0);
    self->delayed_send(self, wait, Wake{++number_});
  }
  /// True when this is the timer armed last.
  bool fired(const Wake& wake) {
    if (wake.number != number_) return false;
    armed_ = false;
    return true;
  }

 private:
  std::uint64_t number_ = 0;
  bool armed_ = false;
  TimePoint armed_at_{};
};

inline Now read(const Clock& clock) { return {clock.now(), clock.wall()}; }

}  // namespace dlrun::cluster
