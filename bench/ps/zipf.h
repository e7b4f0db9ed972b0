#pragma once
/// bench/ps/zipf.h: draws ranks by Zipf's law.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/base/rng.h"

namespace dlrun::bench {

/// Ranks 0 .. n - 1 with chance ~ 1 / (rank + 1)^s; n > 0, s != 1. Source: Hormann, Derflinger 1996
/// (rejection inversion).
class Zipf {
 public:
  Zipf(std::uint64_t n, double s)
      : s_(s), low_(h(0.5)), high_(h(static_cast<double>(n) + 0.5)), n_(n) {}
  std::uint64_t operator()(SplitMix64& rng) const {
    for (;;) {
      const double u = high_ + rng.uniform() * (low_ - high_);
      const double x = inverse(u);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(n_));
      if (u >= h(k + 0.5) - std::pow(k, -s_)) return static_cast<std::uint64_t>(k) - 1;
    }
  }

 private:
  double h(double x) const { return (std::pow(x, 1 - s_) - 1) / (1 - s_); }
  double inverse(double u) const { return std::pow(1 + u * (1 - s_), 1 / (1 - s_)); }
  double s_, low_, high_;
  std::uint64_t n_;
};

}  // namespace dlrun::bench
