#include "io/core/permutation.h"

#include <bit>

#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::io {

namespace {
constexpr std::uint32_t kRounds = 6;
}

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint32_t stream)
    : n_(n), seed_(seed), stream_(stream) {
  const auto bits = static_cast<std::uint32_t>(std::bit_width(n > 1 ? n - 1 : std::uint64_t{1}));
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  DLRUN_ASSERT(i < n_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed_),
                                            static_cast<std::uint32_t>(seed_ >> 32)};
  std::uint64_t x = i;
  do {  // the domain is less than 4 n, so that a walk has 4 steps at most on average
    std::uint64_t left = x >> half_bits_;
    std::uint64_t right = x & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const auto f = philox4x32({static_cast<std::uint32_t>(right), stream_, round, 0x5370u}, key);
      const std::uint64_t mixed = (left ^ f[0]) & mask;
      left = right;
      right = mixed;
    }
    x = left << half_bits_ | right;
  } while (x >= n_);
  return x;
}

}  // namespace dlrun::io
