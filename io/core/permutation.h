#pragma once
/// io/core/permutation.h: a seeded permutation of [0, n) as a function: no table, any element in
/// O(1) expected.
/// Source: a balanced Feistel network over the next even number of bits, cycle-walked into [0, n)
/// (Black, Rogaway, CT-RSA 2002); the round function is Philox4x32-10. Same (seed, stream, n), same
/// permutation, on every machine.

#include <cstdint>

namespace dlrun::io {

class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint32_t stream);
  /// i < n.
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t n_;
  std::uint64_t seed_;
  std::uint32_t stream_;
  std::uint32_t half_bits_;
};

}  // namespace dlrun::io
