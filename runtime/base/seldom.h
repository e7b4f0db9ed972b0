#pragma once
/// runtime/base/seldom.h: for what may happen a million times and deserves a few lines of a log:
/// says yes the 1st, 2nd, 4th, 8th ... time.
/// Threads: single owner.

#include <cstdint>

namespace dlrun {

class Seldom {
 public:
  bool now() {
    ++count_;
    return (count_ & (count_ - 1)) == 0;
  }
  std::uint64_t count() const { return count_; }  ///< how often it happened

 private:
  std::uint64_t count_ = 0;
};

}  // namespace dlrun
