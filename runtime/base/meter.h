#pragma once
/// runtime/base/meter.h: a counter and a histogram that any thread adds to and any reads, without
/// locks. A reader may see an addition in the buckets before it sees it in the sum.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlrun {

class Counter {
 public:
  void add(std::uint64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

inline constexpr std::array<double, 12> kSecondsBuckets{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03,
                                                        0.1,    0.3,    1,     3,     10,   30};
inline constexpr std::array<double, 10> kLongSecondsBuckets{0.01, 0.1, 1,    10,    30,
                                                            60,   300, 1800, 10800, 86400};
inline constexpr std::array<double, 9> kCountBuckets{1, 2, 4, 8, 16, 64, 256, 1024, 4096};

struct HistogramValues {
  std::vector<double> bounds;         ///< upper ones, ascending; above the last: one bucket more
  std::vector<std::uint64_t> counts;  ///< per bucket, not summed up; bounds.size() + 1
  double sum = 0;
};

class Histogram {
 public:
  static constexpr std::size_t kBoundsMax = 15;

  /// `bounds` ascending, at most kBoundsMax; it outlives the histogram.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}

  void add(double value) {
    std::size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    counts_[i].fetch_add(1, std::memory_order_relaxed);
    double sum = sum_.load(std::memory_order_relaxed);
    while (!sum_.compare_exchange_weak(sum, sum + value, std::memory_order_relaxed)) {
    }
  }

  HistogramValues values() const {
    HistogramValues out;
    out.bounds.assign(bounds_.begin(), bounds_.end());
    for (std::size_t i = 0; i <= bounds_.size(); ++i)
      out.counts.push_back(counts_[i].load(std::memory_order_relaxed));
    out.sum = sum_.load(std::memory_order_relaxed);
    return out;
  }

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<std::uint64_t>, kBoundsMax + 1> counts_{};
  std::atomic<double> sum_{0};
};

}  // namespace dlrun
