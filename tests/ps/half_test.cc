#include "ps/core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/base/rng.h"

namespace dlrun::ps {
namespace {

/// The value that 16 bits stand for, from the definition of the format.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1u << fraction_bits) - 1), -fraction_bits);
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

struct Format {
  int exponent_bits;
  int fraction_bits;
  void (*widen)(const std::uint16_t*, float*, std::size_t) noexcept;
  void (*narrow)(const float*, std::uint16_t*, std::size_t) noexcept;
};
constexpr Format kF16{5, 10, f16_to_f32, f32_to_f16};
constexpr Format kBf16{8, 7, bf16_to_f32, f32_to_bf16};

TEST(Half, EveryBitPatternHasItsValueAndComesBack) {
  for (const Format& format : {kF16, kBf16}) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto in = static_cast<std::uint16_t>(bits);
      float wide;
      std::uint16_t back;
      format.widen(&in, &wide, 1);
      format.narrow(&wide, &back, 1);
      const double want = value_of(bits, format.exponent_bits, format.fraction_bits);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(wide)) << bits;
        EXPECT_TRUE(std::isnan(value_of(back, format.exponent_bits, format.fraction_bits)));
        continue;
      }
      EXPECT_EQ(wide, want) << bits;
      EXPECT_EQ(back, in) << bits;
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  SplitMix64 rng(4);
  for (const Format& format : {kF16, kBf16}) {
    for (int i = 0; i < 200'000; ++i) {
      // Neighbours, the point half way between them, and points beside it.
      const auto low = static_cast<std::uint16_t>(rng.below(0x7fff));
      const auto high = static_cast<std::uint16_t>(low + 1);
      const double a = value_of(low, format.exponent_bits, format.fraction_bits);
      const double b = value_of(high, format.exponent_bits, format.fraction_bits);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      const auto middle = static_cast<float>((a + b) / 2);
      const float sides[] = {std::nextafter(middle, 0.0f), middle,
                             std::nextafter(middle, INFINITY)};
      const std::uint16_t even = (low & 1u) == 0 ? low : high;
      const std::uint16_t want[] = {low, even, high};
      if (middle == 0 || static_cast<double>(middle) != (a + b) / 2) continue;
      for (int side = 0; side < 3; ++side) {
        std::uint16_t got;
        format.narrow(&sides[side], &got, 1);
        ASSERT_EQ(got, want[side]) << sides[side];
        const float negative = -sides[side];
        format.narrow(&negative, &got, 1);
        ASSERT_EQ(got, want[side] | 0x8000u);
      }
    }
  }
}

TEST(Half, WhatIsTooLargeIsInfinite) {
  const float in[] = {65519.9f, 65520.0f, 1e38f, -1e30f, INFINITY};
  std::uint16_t out[5];
  f32_to_f16(in, out, 5);
  EXPECT_EQ(out[0], 0x7bffu);
  EXPECT_EQ(out[1], 0x7c00u);
  EXPECT_EQ(out[2], 0x7c00u);
  EXPECT_EQ(out[3], 0xfc00u);
  EXPECT_EQ(out[4], 0x7c00u);
  f32_to_bf16(in + 4, out, 1);
  EXPECT_EQ(out[0], 0x7f80u);
}

}  // namespace
}  // namespace dlrun::ps
