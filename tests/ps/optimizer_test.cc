// The formulas again, in double and written another way, against the float kernels.
#include "ps/core/optimizer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <tuple>
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

using Vector = std::vector<double>;

/// The same optimizer in double. Its fields are what the papers call state.
struct Oracle {
  explicit Oracle(const TableSchema& s, Vector start)
      : s(s), w(std::move(start)), a(s.dim), b(s.dim), c(s.dim) {
    if (s.optimizer == Optimizer::kAdagrad || s.optimizer == Optimizer::kAdagradRow)
      a.assign(s.dim, s.accumulator);
  }

  Vector clipped(const std::vector<float>& gradient) const {
    Vector g(gradient.begin(), gradient.end());
    double squares = 0;
    for (double& x : g) {
      if (s.clip_value > 0) x = std::min(double{s.clip_value}, std::max(-double{s.clip_value}, x));
      squares += x * x;
    }
    const double norm = std::sqrt(squares);
    for (double& x : g) {
      if (s.clip_norm > 0) x *= std::min(1.0, s.clip_norm / (norm + 1e-6));
    }
    return g;
  }

  void step(const std::vector<float>& gradient) {
    const Vector g = clipped(gradient);
    const double eta = s.learning_rate, eps = s.epsilon, mu = s.momentum, l1 = s.l1, l2 = s.l2;
    const double b1 = s.beta1, b2 = s.beta2, beta = s.beta;
    ++t;
    double mean = 0;
    for (std::uint32_t i = 0; i < s.dim; ++i) mean += std::pow(g[i] + l2 * w[i], 2) / s.dim;
    for (std::uint32_t i = 0; i < s.dim; ++i) {
      const double decayed = g[i] + l2 * w[i];
      switch (s.optimizer) {
        case Optimizer::kSgd:
          w[i] = w[i] * (1 - eta * l2) - eta * g[i];
          break;
        case Optimizer::kMomentum:
          a[i] = mu * a[i] + decayed;
          w[i] -= eta * a[i];
          break;
        case Optimizer::kNesterov: {
          // Sutskever's own form: v' = mu v - eta grad; w += mu v' - eta grad.
          a[i] = mu * a[i] - eta * decayed;
          w[i] += mu * a[i] - eta * decayed;
          break;
        }
        case Optimizer::kAdagrad:
          a[i] += decayed * decayed;
          w[i] -= eta / (std::sqrt(a[i]) + eps) * decayed;
          break;
        case Optimizer::kAdagradRow:
          if (i == 0) a[0] += mean;
          w[i] -= eta / (std::sqrt(a[0]) + eps) * decayed;
          break;
        case Optimizer::kRmsProp:
          a[i] += (1 - b2) * (decayed * decayed - a[i]);
          w[i] -= eta * decayed / (std::sqrt(a[i]) + eps);
          break;
        case Optimizer::kAdam:
        case Optimizer::kAdamW:
        case Optimizer::kAmsGrad: {
          const double d = s.optimizer == Optimizer::kAdamW ? g[i] : decayed;
          if (s.optimizer == Optimizer::kAdamW) w[i] -= eta * l2 * w[i];
          a[i] = b1 * a[i] + (1 - b1) * d;
          b[i] = b2 * b[i] + (1 - b2) * d * d;
          c[i] = std::max(c[i], b[i]);
          const double v = s.optimizer == Optimizer::kAmsGrad ? c[i] : b[i];
          const double m_hat = a[i] / (1 - std::pow(b1, t));
          w[i] -= eta * m_hat / (std::sqrt(v / (1 - std::pow(b2, t))) + eps);
          break;
        }
        case Optimizer::kFtrl:
        case Optimizer::kGroupFtrl: {
          // The papers keep (z, n) and compute w when they need it.
          const double sigma = (std::sqrt(b[i] + g[i] * g[i]) - std::sqrt(b[i])) / eta;
          a[i] += g[i] - sigma * w[i];
          b[i] += g[i] * g[i];
          c[i] = std::abs(a[i]) <= l1 ? 0 : (a[i] > 0 ? l1 : -l1) - a[i];
          break;
        }
        case Optimizer::kAssign:
          w[i] = gradient[i];
          break;
      }
    }
    if (s.optimizer != Optimizer::kFtrl && s.optimizer != Optimizer::kGroupFtrl) return;
    double norm = 0;
    for (const double x : c) norm += x * x;
    norm = std::sqrt(norm);
    const double lambda = s.optimizer == Optimizer::kGroupFtrl
                              ? s.group_l1 * std::sqrt(static_cast<double>(s.dim))
                              : 0.0;
    for (std::uint32_t i = 0; i < s.dim; ++i) {
      w[i] =
          norm <= lambda ? 0.0 : (1 - lambda / norm) * c[i] / ((beta + std::sqrt(b[i])) / eta + l2);
    }
  }

  TableSchema s;
  Vector w, a, b, c;
  int t = 0;
};

struct Case {
  const char* name;
  std::function<void(TableSchema&)> set;
};

class Optimizers : public testing::TestWithParam<std::tuple<int, std::uint32_t, int>> {};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"Sgd", [](TableSchema& s) { s.optimizer = Optimizer::kSgd; }},
      {"Momentum", [](TableSchema& s) { s.optimizer = Optimizer::kMomentum; }},
      {"Nesterov", [](TableSchema& s) { s.optimizer = Optimizer::kNesterov; }},
      {"Adagrad",
       [](TableSchema& s) {
         s.optimizer = Optimizer::kAdagrad;
         s.accumulator = 0.1f;
       }},
      {"AdagradRow",
       [](TableSchema& s) {
         s.optimizer = Optimizer::kAdagradRow;
         s.accumulator = 0.1f;
       }},
      {"RmsProp", [](TableSchema& s) { s.optimizer = Optimizer::kRmsProp; }},
      {"Adam", [](TableSchema& s) { s.optimizer = Optimizer::kAdam; }},
      {"AdamW", [](TableSchema& s) { s.optimizer = Optimizer::kAdamW; }},
      {"AmsGrad",
       [](TableSchema& s) {
         s.optimizer = Optimizer::kAmsGrad;
         s.beta2 = 0.5f;  // forgets: the largest is not the last
       }},
      {"Ftrl",
       [](TableSchema& s) {
         s.optimizer = Optimizer::kFtrl;
         s.l1 = 0.5f;
       }},
      {"GroupFtrl",
       [](TableSchema& s) {
         s.optimizer = Optimizer::kGroupFtrl;
         s.l1 = 0.5f;
         s.group_l1 = 0.6f;
       }},
      {"Assign", [](TableSchema& s) { s.optimizer = Optimizer::kAssign; }},
  };
  return all;
}

/// Third parameter: plain, decay, clipping by value and norm.
TableSchema schema_of(const std::tuple<int, std::uint32_t, int>& parameter) {
  const auto [which, dim, variant] = parameter;
  TableSchema s = schema(Optimizer::kSgd, dim);
  cases()[which].set(s);
  if (variant >= 1) s.l2 = 0.05f;
  if (variant == 2) {
    s.clip_value = 1.5f;
    s.clip_norm = 1.0f;
    s.l1 *= 0.001f;  // gradients are small now
    s.group_l1 *= 0.001f;
  }
  return s;
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, std::uint32_t, int>>& info) {
  const char* variants[] = {"plain", "decay", "clipped"};
  return std::string(cases()[std::get<0>(info.param)].name) + "_" +
         std::to_string(std::get<1>(info.param)) + "_" + variants[std::get<2>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Any, Optimizers,
                         testing::Combine(testing::Range(0, 12),
                                          testing::Values(1u, 3u, 4u, 16u, 100u, 4096u),
                                          testing::Range(0, 3)),
                         name_of);

TEST_P(Optimizers, FollowTheFormula) {
  const TableSchema s = schema_of(GetParam());
  ASSERT_TRUE(validate(s));
  std::vector<float> row(s.dim + state_floats(s));
  init_row(s, 1, row.data(), row.data() + s.dim);
  Oracle oracle(s, Vector(s.dim, 0.0));
  double moved = 0;
  for (const auto& g : gradients(s.dim, s.dim > 1000 ? 5 : 40, 1)) {
    apply_gradient(s, row.data(), row.data() + s.dim, g.data());
    oracle.step(g);
    for (std::uint32_t i = 0; i < s.dim; ++i) {
      ASSERT_NEAR(row[i], oracle.w[i], 2e-4 * (1 + std::abs(oracle.w[i]))) << i;
      moved += std::abs(row[i]);
    }
  }
  EXPECT_GT(moved, 0.0);
}

TEST_P(Optimizers, GiveTheSameBitsOnEveryProcessor) {
  if (best_isa() == Isa::kBase) GTEST_SKIP() << "this processor has no AVX2";
  TableSchema s = schema_of(GetParam());
  s.initializer = Initializer::kNormal;
  s.init_b = 1;
  const std::uint32_t floats = s.dim + state_floats(s);
  std::vector<float> base(floats), wide(floats);
  init_row(s, 1, base.data(), base.data() + s.dim);
  wide = base;
  const Stepper scalar(s, Isa::kBase), vector(s, Isa::kAvx2);
  for (const auto& g : gradients(s.dim, s.dim > 1000 ? 3 : 20, 2)) {
    float* w[] = {base.data(), wide.data()};
    float* state[] = {base.data() + s.dim, wide.data() + s.dim};
    const float* grad = g.data();
    scalar(1, w, state, &grad);
    vector(1, w + 1, state + 1, &grad);
    for (std::uint32_t i = 0; i < floats; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(base[i]), std::bit_cast<std::uint32_t>(wide[i])) << i;
  }
}

TEST(Optimizer, AWaveStepsEachRowOnce) {
  const TableSchema s = schema(Optimizer::kMomentum, 16);
  const auto g = gradients(16, 5, 3);
  std::vector<std::vector<float>> rows(5, std::vector<float>(32, 0.0f)), alone = rows;
  std::vector<float*> w, state;
  std::vector<const float*> grads;
  for (int i = 0; i < 5; ++i) {
    w.push_back(rows[i].data());
    state.push_back(rows[i].data() + 16);
    grads.push_back(g[i].data());
    apply_gradient(s, alone[i].data(), alone[i].data() + 16, g[i].data());
  }
  const Stepper step(s);
  step(5, w.data(), state.data(), grads.data());
  EXPECT_EQ(rows, alone);
}

// tests/ps/recorded/record_torch.py wrote the file: per optimizer a line of hyperparameters, then
// per step the gradient and the weights that torch.optim made of it.
TEST(Optimizer, AgreesWithWhatTorchComputed) {
  const char* root = std::getenv("DLRUN_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) +
                   "/tests/ps/recorded/torch-optim.txt");
  ASSERT_TRUE(in);
  std::string word;
  int optimizers = 0;
  while (in >> word) {
    ASSERT_EQ(word, "optimizer");
    std::string name;
    int steps = 0;
    TableSchema s = schema(Optimizer::kSgd, 0);
    in >> name >> s.dim >> steps >> s.learning_rate >> s.l2 >> s.momentum >> s.beta1 >> s.beta2 >>
        s.epsilon >> s.accumulator;
    for (const Case& c : cases()) {
      if (name != c.name) continue;
      const TableSchema given = s;
      c.set(s);
      s.beta2 = given.beta2;
      s.accumulator = given.accumulator;
    }
    std::vector<float> row(s.dim + state_floats(s)), g(s.dim);
    init_row(s, 1, row.data(), row.data() + s.dim);
    for (std::uint32_t i = 0; i < s.dim; ++i) in >> row[i];
    for (int step = 0; step < steps; ++step) {
      for (float& x : g) in >> x;
      apply_gradient(s, row.data(), row.data() + s.dim, g.data());
      for (std::uint32_t i = 0; i < s.dim; ++i) {
        double want = 0;
        in >> want;
        ASSERT_NEAR(row[i], want, 2e-5 * (1 + std::abs(want))) << name << " step " << step;
      }
    }
    ASSERT_TRUE(in);
    ++optimizers;
  }
  EXPECT_EQ(optimizers, 16);
}

TEST(Optimizer, TheRecordIsWhatTorchStillComputes) {
  if (std::system("/usr/bin/python3 -c 'import torch' > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no torch for /usr/bin/python3 (Debian's python3-torch)";
  const char* root = std::getenv("DLRUN_SOURCE_DIR");
  const std::string folder = std::string(root == nullptr ? "." : root) + "/tests/ps/recorded/";
  const std::string command =
      "/usr/bin/python3 " + folder + "record_torch.py --check " + folder + "torch-optim.txt";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Optimizer, BothFtrlMakeZeros) {
  for (const Optimizer optimizer : {Optimizer::kFtrl, Optimizer::kGroupFtrl}) {
    TableSchema s = schema(optimizer, 16);
    s.l1 = 0.5f;
    s.group_l1 = optimizer == Optimizer::kGroupFtrl ? 2.0f : 0.0f;
    std::vector<float> row(48);
    init_row(s, 1, row.data(), row.data() + 16);
    int zeros = 0, others = 0, whole_rows = 0;
    for (const auto& g : gradients(16, 30, 3)) {
      apply_gradient(s, row.data(), row.data() + 16, g.data());
      int in_row = 0;
      for (int i = 0; i < 16; ++i) in_row += row[i] == 0.0f;
      zeros += in_row;
      others += 16 - in_row;
      whole_rows += in_row == 16;
    }
    EXPECT_GT(zeros, 0);
    EXPECT_GT(others, 0);
    if (optimizer == Optimizer::kGroupFtrl) {
      EXPECT_GT(whole_rows, 0);
    }
  }
}

TEST(Optimizer, FtrlStartsFromTheInitialWeights) {
  for (const Optimizer optimizer : {Optimizer::kFtrl, Optimizer::kGroupFtrl}) {
    TableSchema s = schema(optimizer, 8);
    s.l1 = 0.5f;
    s.l2 = 0.1f;
    s.group_l1 = optimizer == Optimizer::kGroupFtrl ? 0.3f : 0.0f;
    s.initializer = Initializer::kUniform;
    s.init_a = -1;
    s.init_b = 1;
    std::vector<float> row(24), zero(8, 0.0f);
    init_row(s, 42, row.data(), row.data() + 8);
    const std::vector<float> before(row.begin(), row.begin() + 8);
    apply_gradient(s, row.data(), row.data() + 8, zero.data());
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(row[i], before[i], 1e-5);
  }
}

TEST(Optimizer, InitialRowsDependOnSeedTableAndKeyAlone) {
  for (const Initializer kind : {Initializer::kNormal, Initializer::kTruncatedNormal}) {
    TableSchema s = schema(Optimizer::kSgd, 5);
    s.initializer = kind;
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
}

TEST(Optimizer, InitialValuesHaveTheMomentsAskedFor) {
  TableSchema s = schema(Optimizer::kSgd, 10);
  // Of a standard normal cut at two deviations: 1 - 4 phi(2) / (2 Phi(2) - 1).
  const double cut = std::sqrt(1 - 4 * 0.05399096651318806 / 0.9544997361036416);
  for (const auto kind :
       {Initializer::kUniform, Initializer::kNormal, Initializer::kTruncatedNormal}) {
    s.initializer = kind;
    s.init_a = kind == Initializer::kUniform ? -2.0f : 1.0f;
    s.init_b = kind == Initializer::kUniform ? 4.0f : 3.0f;
    const double mean = 1.0;
    const double deviation = kind == Initializer::kUniform  ? 6 / std::sqrt(12.0)
                             : kind == Initializer::kNormal ? 3.0
                                                            : 3.0 * cut;
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
        } else if (kind == Initializer::kTruncatedNormal) {
          ASSERT_LE(std::abs(x - 1.0f), 6.00001f);
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
