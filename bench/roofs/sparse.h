#pragma once
/// bench/roofs/sparse.h: the best we know for rows of dim 16 with Adagrad on one core, with nothing
/// around it: no inserts, versions, slots, log or policies. Index: key and row side by side, half
/// full, linear probing; row: 16 weights, 16 accumulators, 128 bytes; huge pages; waves of 32, the
/// next ones fetched while one is at work. AVX2. What a parameter server's figures are held
/// against.

#include <cstdint>
#include <span>
#include <vector>

#include "ps/core/pages.h"

namespace dlrun::bench {

class SparseRoof {
 public:
  static constexpr std::uint32_t kDim = 16;
  /// Rows for these distinct keys, all zero.
  explicit SparseRoof(std::span<const std::uint64_t> keys);
  /// Keys must be there, and distinct.
  void push(std::span<const std::uint64_t> keys, const float* grads, float rate, float epsilon);
  void pull(std::span<const std::uint64_t> keys, float* out) const;

 private:
  struct Entry {
    std::uint64_t key;
    std::uint32_t row;  ///< + 1; 0 = empty
  };
  std::size_t home(std::uint64_t key) const noexcept;
  std::uint32_t find(std::uint64_t key) const noexcept;
  template <class Work>
  void waves(std::span<const std::uint64_t> keys, Work work) const;

  std::uint32_t shift_;
  std::size_t mask_;
  ps::Pages index_;
  ps::Pages rows_;
};

}  // namespace dlrun::bench
