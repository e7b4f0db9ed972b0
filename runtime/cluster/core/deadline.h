#pragma once
/// runtime/cluster/core/deadline.h: a deadline of a core. When nobody looked as it came (the
/// process was stopped, its machine paused), what waits to be read is read first: it is put off by
/// kLate, once. Whoever is always late gives up all the same.
/// Threads: single owner.

#include <chrono>
#include <optional>

#include "runtime/base/time.h"

namespace dlrun::cluster {

class Deadline {
 public:
  static constexpr Duration kLate = std::chrono::seconds(5);

  void set(TimePoint at) {
    at_ = at;
    put_off_ = false;
  }
  void reset() { at_.reset(); }
  const std::optional<TimePoint>& at() const { return at_; }
  explicit operator bool() const { return at_.has_value(); }

  /// It has come, and was not just put off.
  bool over(TimePoint now) {
    if (!at_ || now < *at_) return false;
    if (put_off_ || now - *at_ <= kLate) return true;
    at_ = now + kLate;
    put_off_ = true;
    return false;
  }

 private:
  std::optional<TimePoint> at_;
  bool put_off_ = false;
};

}  // namespace dlrun::cluster
