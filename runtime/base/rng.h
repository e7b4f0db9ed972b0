#pragma once
/// runtime/base/rng.h: random numbers as values: same seed, same sequence, on every machine.
/// Sources: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014); Philox4x32-10 (Salmon et al., SC 2011).

#include <array>
#include <cstdint>

namespace dlrun {

/// A bijection on 64-bit values that spreads every input bit (the finalizer of SplitMix64).
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}
  constexpr std::uint64_t next() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  /// Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// Uniform in [0, 1), 53 bits.
  constexpr double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // UniformRandomBitGenerator, for <algorithm>.
  using result_type = std::uint64_t;
  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~result_type{0}; }
  constexpr result_type operator()() noexcept { return next(); }

 private:
  std::uint64_t state_;
};

/// Counter-based: a pure function of (counter, key), so that any element of the sequence is reached
/// in O(1).
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                                  std::array<std::uint32_t, 2> k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

}  // namespace dlrun
