#include "runtime/base/rng.h"

#include <gtest/gtest.h>

namespace dlrun {
namespace {

// Known answers of the reference distribution of Random123 (kat_vectors, philox4x32-10).
TEST(Rng, PhiloxAgreesWithPublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

// First outputs for seed 1234567, as published with Vigna's reference code.
TEST(Rng, SplitMixAgreesWithPublishedVectors) {
  SplitMix64 rng(1234567);
  EXPECT_EQ(rng.next(), 6457827717110365317ULL);
  EXPECT_EQ(rng.next(), 3203168211198807973ULL);
}

TEST(Rng, BelowStaysBelow) {
  SplitMix64 rng(7);
  for (int i = 0; i < 10000; ++i) EXPECT_LT(rng.below(13), 13u);
}

}  // namespace
}  // namespace dlrun
