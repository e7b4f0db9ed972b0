// The formulas again, in double and written another way, against the float kernels.
#include "ps/core/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dlrun::ps {
namespace {

TableSchema schema(Optimizer optimizer, std::uint32_t dim) {
  return {.id = 7,
          .name = "t",
          .dim = dim,
          .optimizer = optimizer,
          .learning_rate = 0.3f,
          .beta = 0.7f};
}

std::vector<std::vector<float>> gradients(std::uint32_t dim, int steps, std::uint64_t seed) {
  SplitMix64 rng(seed);
  std::vector<std::vector<float>> g(steps, std::vector<float>(dim));
  for (auto& step : g) {
    for (float& x : step) x = static_cast<float>(rng.uniform() * 4 - 2);
  }
  return g;
}

class Dims : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Any, Dims, testing::Values(1, 3, 4, 16, 100, 4096));

TEST_P(Dims, SgdFollowsTheFormula) {
  TableSchema s = schema(Optimizer::kSgd, GetParam());
  s.l2 = 0.01f;
  s.initializer = Initializer::kConstant;
  s.init_a = 0.5f;
  std::vector<float> w(s.dim);
  init_row(s, 1, w.data(), nullptr);
  std::vector<double> want(s.dim, 0.5);
  for (const auto& g : gradients(s.dim, 20, 1)) {
    apply_gradient(s, w.data(), nullptr, g.data());
    for (std::uint32_t i = 0; i < s.dim; ++i) {
      want[i] = want[i] * (1 - double(s.learning_rate) * s.l2) - double(s.learning_rate) * g[i];
    }
  }
  for (std::uint32_t i = 0; i < s.dim; ++i) EXPECT_NEAR(w[i], want[i], 1e-4);
}

TEST_P(Dims, AdagradFollowsTheFormula) {
  TableSchema s = schema(Optimizer::kAdagrad, GetParam());
  s.accumulator = 0.1f;
  s.l2 = 0.02f;
  std::vector<float> row(2 * s.dim);
  init_row(s, 1, row.data(), row.data() + s.dim);
  std::vector<double> w(s.dim, 0.0), n(s.dim, double(s.accumulator));
  for (const auto& g : gradients(s.dim, 30, 2)) {
    apply_gradient(s, row.data(), row.data() + s.dim, g.data());
    for (std::uint32_t i = 0; i < s.dim; ++i) {
      const double d = g[i] + double(s.l2) * w[i];
      n[i] += d * d;
      w[i] -= double(s.learning_rate) / (std::sqrt(n[i]) + double(s.epsilon)) * d;
    }
  }
  for (std::uint32_t i = 0; i < s.dim; ++i) EXPECT_NEAR(row[i], w[i], 1e-4);
}

// Algorithm 1 of the paper keeps (z, n) and computes w when it needs it.
TEST_P(Dims, FtrlFollowsThePaper) {
  TableSchema s = schema(Optimizer::kFtrl, GetParam());
  s.l1 = 0.5f;
  s.l2 = 0.1f;
  std::vector<float> row(3 * s.dim);
  init_row(s, 1, row.data(), row.data() + s.dim);
  std::vector<double> z(s.dim), n(s.dim);
  const double alpha = s.learning_rate, beta = s.beta, l1 = s.l1, l2 = s.l2;
  const auto weight = [&](std::uint32_t i) {
    if (std::abs(z[i]) <= l1) return 0.0;
    return -1.0 / ((beta + std::sqrt(n[i])) / alpha + l2) * (z[i] - (z[i] > 0 ? l1 : -l1));
  };
  int zeros = 0;
  for (const auto& g : gradients(s.dim, 30, 3)) {
    apply_gradient(s, row.data(), row.data() + s.dim, g.data());
    for (std::uint32_t i = 0; i < s.dim; ++i) {
      const double w = weight(i);
      const double sigma = (std::sqrt(n[i] + double(g[i]) * g[i]) - std::sqrt(n[i])) / alpha;
      z[i] += g[i] - sigma * w;
      n[i] += double(g[i]) * g[i];
      EXPECT_NEAR(row[i], weight(i), 2e-4);
      zeros += row[i] == 0.0f;
    }
  }
  EXPECT_TRUE(s.dim < 16 || zeros > 0) << "l1 made no weight zero: that branch was not tried";
}

TEST(Optimizer, FtrlStartsFromTheInitialWeights) {
  TableSchema s = schema(Optimizer::kFtrl, 8);
  s.l1 = 0.5f;
  s.l2 = 0.1f;
  s.initializer = Initializer::kUniform;
  s.init_a = -1;
  s.init_b = 1;
  std::vector<float> row(24), zero(8, 0.0f);
  init_row(s, 42, row.data(), row.data() + 8);
  const std::vector<float> before(row.begin(), row.begin() + 8);
  apply_gradient(s, row.data(), row.data() + 8, zero.data());
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(row[i], before[i], 1e-5);
}

TEST(Optimizer, AssignSetsTheRow) {
  const TableSchema s = schema(Optimizer::kAssign, 2);
  float w[2] = {1, 2};
  const float g[2] = {5, -6};
  apply_gradient(s, w, nullptr, g);
  EXPECT_EQ(w[0], 5);
  EXPECT_EQ(w[1], -6);
}

TEST(Optimizer, InitialRowsDependOnSeedTableAndKeyAlone) {
  TableSchema s = schema(Optimizer::kSgd, 5);
  s.initializer = Initializer::kNormal;
  s.init_b = 1;
  std::vector<float> a(5), b(5);
  init_weights(s, 9, a.data());
  init_weights(s, 9, b.data());
  EXPECT_EQ(a, b);
  init_weights(s, 10, b.data());
  EXPECT_NE(a, b);
  TableSchema other = s;
  other.seed = 2;
  init_weights(other, 9, b.data());
  EXPECT_NE(a, b);
  other = s;
  other.id = 8;
  init_weights(other, 9, b.data());
  EXPECT_NE(a, b);
}

TEST(Optimizer, InitialValuesHaveTheMomentsAskedFor) {
  TableSchema s = schema(Optimizer::kSgd, 10);
  for (const auto kind : {Initializer::kUniform, Initializer::kNormal}) {
    s.initializer = kind;
    s.init_a = kind == Initializer::kUniform ? -2.0f : 1.0f;
    s.init_b = kind == Initializer::kUniform ? 4.0f : 3.0f;
    const double mean = 1.0;
    const double deviation = kind == Initializer::kUniform ? 6 / std::sqrt(12.0) : 3.0;
    double sum = 0, squares = 0;
    std::vector<float> w(10);
    constexpr int kRows = 20000;
    for (int key = 0; key < kRows; ++key) {
      init_weights(s, static_cast<std::uint64_t>(key), w.data());
      for (const float x : w) {
        ASSERT_TRUE(std::isfinite(x));
        if (kind == Initializer::kUniform) {
          ASSERT_GE(x, -2.0f);
          ASSERT_LE(x, 4.0f);
        }
        sum += x;
        squares += (x - mean) * (x - mean);
      }
    }
    EXPECT_NEAR(sum / (kRows * 10), mean, 0.03);
    EXPECT_NEAR(std::sqrt(squares / (kRows * 10)), deviation, 0.03);
  }
}

}  // namespace
}  // namespace dlrun::ps
