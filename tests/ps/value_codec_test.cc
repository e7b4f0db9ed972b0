#include "ps/core/value_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "runtime/base/rng.h"

namespace dlrun::ps {
namespace {

constexpr Codec kAll[] = {Codec::kF32,  Codec::kF16,    Codec::kBf16,
                          Codec::kInt8, Codec::kOneBit, Codec::kTopK};

std::vector<float> some_values(std::size_t n, std::uint64_t seed) {
  SplitMix64 rng(seed);
  std::vector<float> values(n);
  for (float& x : values)
    x = static_cast<float>((rng.uniform() - 0.5) * std::pow(10.0, rng.uniform() * 6 - 3));
  return values;
}

std::vector<float> there_and_back(const CodecSpec& spec, const std::vector<float>& values,
                                  std::uint32_t dim) {
  std::vector<std::byte> bytes(values.size() / dim * encoded_row_bytes(spec, dim) + 1);
  encode_rows(spec, values, dim, bytes.data() + 1);  // not aligned
  std::vector<float> out(values.size());
  const Status ok = decode_rows(spec, std::span(bytes).subspan(1), dim, out);
  EXPECT_TRUE(ok) << ok.error().to_string();
  return out;
}

/// What each row should come back as, from the definitions, in double.
std::vector<double> defined(const CodecSpec& spec, const std::vector<float>& values,
                            std::uint32_t dim) {
  std::vector<double> want;
  for (std::size_t at = 0; at < values.size(); at += dim) {
    const std::vector<double> row(values.begin() + at, values.begin() + at + dim);
    double most = 0, negative = 0, positive = 0;
    int negatives = 0, positives = 0;
    for (const double x : row) {
      most = std::max(most, std::fabs(x));
      (x < 0 ? negative : positive) += x;
      ++(x < 0 ? negatives : positives);
    }
    std::set<std::size_t> kept;
    while (kept.size() < spec.k) {  // the largest that is not kept yet, again and again
      std::size_t best = dim;
      for (std::size_t i = 0; i < dim; ++i) {
        if (!kept.contains(i) && (best == dim || std::fabs(row[i]) > std::fabs(row[best])))
          best = i;
      }
      kept.insert(best);
    }
    for (std::size_t i = 0; i < dim; ++i) {
      switch (spec.codec) {
        case Codec::kInt8:
          want.push_back(most == 0 ? 0 : std::round(row[i] / (most / 127)) * (most / 127));
          break;
        case Codec::kOneBit:
          want.push_back(row[i] < 0 ? negative / negatives : positive / positives);
          break;
        case Codec::kTopK:
          want.push_back(kept.contains(i) ? row[i] : 0.0);
          break;
        default:
          want.push_back(row[i]);
      }
    }
  }
  return want;
}

TEST(ValueCodec, EachCodecGivesBackWhatItsDefinitionSays) {
  for (const std::uint32_t dim : {1u, 2u, 3u, 16u, 31u, 32u, 33u, 100u, 600u}) {
    for (const Codec codec : kAll) {
      const CodecSpec spec{codec, static_cast<std::uint16_t>((dim + 3) / 4)};
      std::vector<float> values = some_values(20 * dim, dim);
      std::fill_n(values.begin(), dim, 0.0f);
      const auto got = there_and_back(spec, values, dim);
      const auto want = defined(spec, values, dim);
      for (std::size_t i = 0; i < values.size(); ++i) {
        // Half a unit in the last place; of int8 also the step that rounding may take at a tie.
        double allowed = 0;
        if (codec == Codec::kF16) allowed = std::fabs(want[i]) * 0x1p-11 + 0x1p-25;
        if (codec == Codec::kBf16) allowed = std::fabs(want[i]) * 0x1p-8;
        if (codec == Codec::kOneBit) allowed = std::fabs(want[i]) * 1e-6;
        if (codec == Codec::kInt8) {
          double most = 0;
          for (std::size_t j = i / dim * dim; j < (i / dim + 1) * dim; ++j)
            most = std::max(most, std::fabs(double{values[j]}));
          allowed = most * 1e-5;
          if (std::fabs(std::fabs(want[i] - values[i]) - most / 254) < most * 1e-5)
            allowed = most / 127;  // a tie
        }
        ASSERT_NEAR(got[i], want[i], allowed)
            << "codec " << static_cast<int>(codec) << " dim " << dim;
      }
    }
  }
}

TEST(ValueCodec, RowsAreAsShortAsTheTableSays) {
  EXPECT_EQ(encoded_row_bytes({Codec::kF32}, 16), 64u);
  EXPECT_EQ(encoded_row_bytes({Codec::kF16}, 17), 34u);
  EXPECT_EQ(encoded_row_bytes({Codec::kBf16}, 16), 32u);
  EXPECT_EQ(encoded_row_bytes({Codec::kInt8}, 17), 24u);
  EXPECT_EQ(encoded_row_bytes({Codec::kOneBit}, 33), 16u);
  EXPECT_EQ(encoded_row_bytes({Codec::kTopK, 3}, 4096), 20u);
}

TEST(ValueCodec, WhatIsNotFiniteIsNotHidden) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> values(40, 1.0f);
    values[25] = bad;
    for (const Codec codec : kAll) {
      const auto out = there_and_back({codec, 2}, values, 20);
      EXPECT_TRUE(std::any_of(out.begin() + 20, out.end(), [](float x) {
        return !std::isfinite(x);
      })) << static_cast<int>(codec);
      EXPECT_TRUE(
          std::all_of(out.begin(), out.begin() + 20, [](float x) { return std::isfinite(x); }));
    }
  }
  // The largest and the smallest that there are.
  const auto edge = there_and_back({Codec::kInt8}, {3e38f, -3e38f, 0.0f, 1.0f}, 4);
  EXPECT_NEAR(edge[0], 3e38f, 1e32);
  const auto tiny = there_and_back({Codec::kInt8}, {1e-45f, -1e-45f}, 2);
  EXPECT_TRUE(std::isfinite(tiny[0]) && std::isfinite(tiny[1]));
}

TEST(ValueCodec, BytesFromAStrangerAreCheckedAndNeverFollowed) {
  std::vector<float> out(30);
  for (const Codec codec : kAll) {
    const CodecSpec spec{codec, 3};
    const std::size_t right = 3 * encoded_row_bytes(spec, 10);
    for (const std::size_t size : {std::size_t{0}, right - 1, right + 1, right * 2})
      EXPECT_EQ(decode_rows(spec, std::vector<std::byte>(size), 10, out).error().code,
                Errc::kCorrupt);
  }
  const std::vector<std::byte> none;
  EXPECT_FALSE(decode_rows({Codec::kTopK, 0}, none, 10, out));
  EXPECT_FALSE(decode_rows({Codec::kTopK, 11}, none, 10, out));
  SplitMix64 rng(4);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const CodecSpec spec{static_cast<Codec>(rng.below(6)), 3};
    std::vector<std::byte> bytes(3 * encoded_row_bytes(spec, 10));
    for (auto& b : bytes) b = static_cast<std::byte>(rng.next());
    const Status got = decode_rows(spec, bytes, 10, out);
    refused += !got;
    EXPECT_TRUE(got || spec.codec == Codec::kTopK);
  }
  EXPECT_GT(refused, 200);
}

TEST(ErrorFeedback, WhatWasLostComesLater) {
  constexpr std::uint32_t kDim = 20;
  for (const CodecSpec spec : {CodecSpec{Codec::kOneBit}, CodecSpec{Codec::kTopK, 2},
                               CodecSpec{Codec::kInt8}, CodecSpec{Codec::kBf16}}) {
    ErrorFeedback feedback(kDim, 1000);
    SplitMix64 rng(9);
    std::map<std::uint64_t, std::vector<double>> pushed, arrived;
    for (int step = 0; step < 300; ++step) {
      std::set<std::uint64_t> distinct;
      while (distinct.size() < 5) distinct.insert(rng.below(20));
      const std::vector<std::uint64_t> keys(distinct.begin(), distinct.end());
      std::vector<float> grads(keys.size() * kDim);
      for (float& g : grads) g = static_cast<float>(rng.uniform() - 0.3);
      std::vector<std::byte> bytes(keys.size() * encoded_row_bytes(spec, kDim));
      feedback.encode(spec, keys, grads, bytes.data());
      std::vector<float> out(grads.size());
      ASSERT_TRUE(decode_rows(spec, bytes, kDim, out));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        pushed[keys[i]].resize(kDim);
        arrived[keys[i]].resize(kDim);
        for (std::uint32_t d = 0; d < kDim; ++d) {
          pushed[keys[i]][d] += grads[i * kDim + d];
          arrived[keys[i]][d] += out[i * kDim + d];
        }
      }
    }
    // All that was pushed has arrived or is owed.
    for (const auto& [key, sum] : pushed) {
      std::vector<float> owed(kDim);
      feedback.add_to(key, owed.data());
      for (std::uint32_t d = 0; d < kDim; ++d)
        EXPECT_NEAR(arrived[key][d] + owed[d], sum[d], 1e-3)
            << "codec " << static_cast<int>(spec.codec);
    }
    EXPECT_EQ(feedback.forgotten(), 0u);
  }
}

TEST(ErrorFeedback, KeepsNoMoreRowsThanItMay) {
  ErrorFeedback feedback(1, 10);
  const CodecSpec spec{Codec::kInt8};
  std::vector<std::uint64_t> keys(25);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const std::vector<float> ones(25, 1.0f);
  std::vector<std::byte> bytes(25 * encoded_row_bytes(spec, 1));
  feedback.encode(spec, keys, ones, bytes.data());
  EXPECT_EQ(feedback.forgotten(), 15u);
}

TEST(ErrorFeedback, NeverHoldsMuchMoreThanItOwes) {
  for (const std::uint32_t dim : {1u, 7u, 1000u, kDimMax}) {
    const std::size_t rows_max = (256u << 10) / (4 * dim) + 1;  // just beyond a doubling
    ErrorFeedback feedback(dim, rows_max);
    const CodecSpec spec{Codec::kInt8};
    const std::vector<float> ones(dim, 1.0f);
    std::vector<std::byte> bytes(encoded_row_bytes(spec, dim));
    for (std::uint64_t key = 0; key < rows_max + 3; ++key) {
      feedback.encode(spec, std::vector{key}, ones, bytes.data());
      if (key % 100 != 0) continue;
      ASSERT_LT(feedback.bytes(), (key + 1) * 4 * dim + ErrorFeedback::kBlockBytes);
    }
    EXPECT_LT(feedback.bytes(), rows_max * 4 * dim + ErrorFeedback::kBlockBytes);
    EXPECT_EQ(feedback.forgotten(), 3u);
  }
}

TEST(ErrorFeedback, WhatIsNotFiniteIsSentOnceAndNotOwed) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr std::uint32_t kDim = 4;
  for (const CodecSpec spec : {CodecSpec{Codec::kOneBit}, CodecSpec{Codec::kTopK, 2},
                               CodecSpec{Codec::kInt8}, CodecSpec{Codec::kF16}}) {
    for (const float bad : {kNan, kInf, -kInf, 3e38f}) {
      ErrorFeedback feedback(kDim, 10);
      const std::vector<std::uint64_t> key = {7};
      std::vector<std::byte> bytes(encoded_row_bytes(spec, kDim));
      std::vector<float> out(kDim);
      feedback.encode(spec, key, std::vector<float>{1, bad, -1, 0.5f}, bytes.data());
      ASSERT_TRUE(decode_rows(spec, bytes, kDim, out));
      if (!std::isfinite(bad)) {
        EXPECT_FALSE(std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); }))
            << "it must not be hidden";
      }
      for (int step = 0; step < 3; ++step) {
        feedback.encode(spec, key, std::vector<float>{1, 1, -1, 0.5f}, bytes.data());
        ASSERT_TRUE(decode_rows(spec, bytes, kDim, out));
        for (const float x : out)
          EXPECT_TRUE(std::isfinite(x))
              << "codec " << static_cast<int>(spec.codec) << " after " << bad;
      }
      std::vector<float> owed(kDim);
      feedback.add_to(7, owed.data());
      for (const float x : owed) EXPECT_TRUE(std::isfinite(x)) << "after " << bad;
    }
  }
}

}  // namespace
}  // namespace dlrun::ps
