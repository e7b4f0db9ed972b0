#pragma once
/// bench/roofs/sparse.h: the best we know for rows of dim 16 with Adagrad on one core, with nothing
/// around it: no inserts, versions, slots, log or policies. Index: key and row side by side, half
/// full, linear probing; row: 16 weights, 16 accumulators, 128 bytes; huge pages; the index line of
/// a key is fetched 16 keys ahead, the lines of its row that are needed 8 ahead. AVX2. What a
/// parameter server's figures are held against.

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
  void in_a_pipe(std::span<const std::uint64_t> keys, std::size_t lines, Work work) const;

  std::uint32_t shift_;
  std::size_t mask_;
  ps::Pages index_;
  ps::Pages rows_;
};

}  // namespace dlrun::bench
