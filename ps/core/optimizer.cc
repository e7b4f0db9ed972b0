#include "ps/core/optimizer.h"

#include <cmath>
#include <cstring>
#include <numbers>

namespace dlrun::ps {
namespace {

float uniform01(std::uint32_t bits) noexcept { return static_cast<float>(bits >> 8) * 0x1.0p-24f; }

void sgd(const TableSchema& s, float* w, const float* g) noexcept {
  for (std::uint32_t i = 0; i < s.dim; ++i) w[i] -= s.learning_rate * (g[i] + s.l2 * w[i]);
}

void adagrad(const TableSchema& s, float* w, float* n, const float* g) noexcept {
  for (std::uint32_t i = 0; i < s.dim; ++i) {
    const float d = g[i] + s.l2 * w[i];
    n[i] += d * d;
    w[i] -= s.learning_rate * d / (std::sqrt(n[i]) + s.epsilon);
  }
}

void ftrl(const TableSchema& s, float* w, float* z, float* n, const float* g) noexcept {
  for (std::uint32_t i = 0; i < s.dim; ++i) {
    const float n_new = n[i] + g[i] * g[i];
    const float root = std::sqrt(n_new);
    z[i] += g[i] - (root - std::sqrt(n[i])) / s.learning_rate * w[i];
    n[i] = n_new;
    w[i] = std::fabs(z[i]) <= s.l1
               ? 0.0f
               : -(z[i] - std::copysign(s.l1, z[i])) / ((s.beta + root) / s.learning_rate + s.l2);
  }
}

}  // namespace

std::uint32_t state_floats(const TableSchema& schema) noexcept {
  switch (schema.optimizer) {
    case Optimizer::kAdagrad:
      return schema.dim;
    case Optimizer::kFtrl:
      return 2 * schema.dim;
    case Optimizer::kSgd:
    case Optimizer::kAssign:
      break;
  }
  return 0;
}

void init_weights(const TableSchema& s, std::uint64_t key, float* w) noexcept {
  if (s.initializer == Initializer::kZero || s.initializer == Initializer::kConstant) {
    const float value = s.initializer == Initializer::kZero ? 0.0f : s.init_a;
    for (std::uint32_t i = 0; i < s.dim; ++i) w[i] = value;
    return;
  }
  const std::uint64_t seed = mix64(s.seed + 0x9e3779b97f4a7c15ULL * (std::uint64_t{s.id} + 1));
  const std::array<std::uint32_t, 2> philox_key = {static_cast<std::uint32_t>(seed),
                                                   static_cast<std::uint32_t>(seed >> 32)};
  const auto key_low = static_cast<std::uint32_t>(key);
  const auto key_high = static_cast<std::uint32_t>(key >> 32);
  for (std::uint32_t block = 0; block * 4 < s.dim; ++block) {
    const auto bits = philox4x32({block, 0, key_low, key_high}, philox_key);
    float draw[4];
    if (s.initializer == Initializer::kUniform) {
      for (int j = 0; j < 4; ++j) draw[j] = s.init_a + (s.init_b - s.init_a) * uniform01(bits[j]);
    } else {
      for (int j = 0; j < 4; j += 2) {
        const double radius = std::sqrt(-2.0 * std::log((bits[j] + 1.0) * 0x1.0p-32));
        const double angle = 2.0 * std::numbers::pi * (bits[j + 1] * 0x1.0p-32);
        draw[j] = static_cast<float>(s.init_a + s.init_b * radius * std::cos(angle));
        draw[j + 1] = static_cast<float>(s.init_a + s.init_b * radius * std::sin(angle));
      }
    }
    for (std::uint32_t j = 0; j < 4 && block * 4 + j < s.dim; ++j) w[block * 4 + j] = draw[j];
  }
}

void init_row(const TableSchema& s, std::uint64_t key, float* w, float* state) noexcept {
  init_weights(s, key, w);
  switch (s.optimizer) {
    case Optimizer::kAdagrad:
      for (std::uint32_t i = 0; i < s.dim; ++i) state[i] = s.accumulator;
      break;
    case Optimizer::kFtrl:
      for (std::uint32_t i = 0; i < s.dim; ++i) {
        const float z = -w[i] * (s.beta / s.learning_rate + s.l2);
        state[i] = w[i] == 0.0f ? 0.0f : z + std::copysign(s.l1, z);
        state[s.dim + i] = 0.0f;
      }
      break;
    case Optimizer::kSgd:
    case Optimizer::kAssign:
      break;
  }
}

void apply_gradient(const TableSchema& s, float* w, float* state, const float* g) noexcept {
  switch (s.optimizer) {
    case Optimizer::kSgd:
      return sgd(s, w, g);
    case Optimizer::kAdagrad:
      return adagrad(s, w, state, g);
    case Optimizer::kFtrl:
      return ftrl(s, w, state, state + s.dim, g);
    case Optimizer::kAssign:
      std::memcpy(w, g, s.dim * sizeof(float));
      return;
  }
}

}  // namespace dlrun::ps
