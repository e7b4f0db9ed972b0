#include "ps/core/optimizer.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

float uniform01(std::uint32_t bits) noexcept { return static_cast<float>(bits >> 8) * 0x1.0p-24f; }

/// Two independent standard normal draws from two words.
void box_muller(std::uint32_t a, std::uint32_t b, double out[2]) noexcept {
  const double radius = std::sqrt(-2.0 * std::log((a + 1.0) * 0x1.0p-32));
  const double angle = 2.0 * std::numbers::pi * (b * 0x1.0p-32);
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

/// Standard normal within [-2, 2]: drawn again until it is; after 64 misses (chance 1e-86) the
/// bound.
double truncated_draw(std::array<std::uint32_t, 2> philox_key, std::uint32_t element,
                      std::uint32_t key_low, std::uint32_t key_high) noexcept {
  for (std::uint32_t attempt = 1; attempt <= 32; ++attempt) {
    const auto bits = philox4x32({element, attempt, key_low, key_high}, philox_key);
    for (int j = 0; j < 4; j += 2) {
      double draw[2];
      box_muller(bits[j], bits[j + 1], draw);
      if (std::fabs(draw[0]) <= 2.0) return draw[0];
    }
  }
  return 2.0;
}

}  // namespace

std::uint32_t state_floats(const TableSchema& schema) noexcept {
  switch (schema.optimizer) {
    case Optimizer::kAdagrad:
    case Optimizer::kMomentum:
    case Optimizer::kNesterov:
    case Optimizer::kRmsProp:
      return schema.dim;
    case Optimizer::kAdagradRow:
      return 1;
    case Optimizer::kFtrl:
    case Optimizer::kGroupFtrl:
      return 2 * schema.dim;
    case Optimizer::kAdam:
    case Optimizer::kAdamW:
      return 2 * schema.dim + 2;
    case Optimizer::kAmsGrad:
      return 3 * schema.dim + 2;
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
  if (s.initializer == Initializer::kTruncatedNormal) {
    for (std::uint32_t i = 0; i < s.dim; ++i) {
      w[i] = static_cast<float>(s.init_a +
                                s.init_b * truncated_draw(philox_key, i, key_low, key_high));
    }
    return;
  }
  for (std::uint32_t block = 0; block * 4 < s.dim; ++block) {
    const auto bits = philox4x32({block, 0, key_low, key_high}, philox_key);
    float draw[4];
    if (s.initializer == Initializer::kUniform) {
      for (int j = 0; j < 4; ++j) draw[j] = s.init_a + (s.init_b - s.init_a) * uniform01(bits[j]);
    } else {
      for (int j = 0; j < 4; j += 2) {
        double normal[2];
        box_muller(bits[j], bits[j + 1], normal);
        draw[j] = static_cast<float>(s.init_a + s.init_b * normal[0]);
        draw[j + 1] = static_cast<float>(s.init_a + s.init_b * normal[1]);
      }
    }
    for (std::uint32_t j = 0; j < 4 && block * 4 + j < s.dim; ++j) w[block * 4 + j] = draw[j];
  }
}

void init_row(const TableSchema& s, std::uint64_t key, float* w, float* state) noexcept {
  init_weights(s, key, w);
  const std::uint32_t floats = state_floats(s);
  for (std::uint32_t i = 0; i < floats; ++i) state[i] = 0.0f;
  const bool grouped = s.optimizer == Optimizer::kGroupFtrl;
  switch (s.optimizer) {
    case Optimizer::kAdagrad:
    case Optimizer::kAdagradRow:
      for (std::uint32_t i = 0; i < floats; ++i) state[i] = s.accumulator;
      break;
    case Optimizer::kFtrl:
    case Optimizer::kGroupFtrl: {
      // The z that yields w, whose row the group's threshold had shortened.
      double norm = 0;
      for (std::uint32_t i = 0; i < s.dim; ++i) norm += double{w[i]} * w[i];
      norm = std::sqrt(norm) * (s.beta / s.learning_rate + s.l2);
      const double threshold = s.group_l1 * std::sqrt(static_cast<double>(s.dim));
      const double longer = grouped && norm > 0 ? (norm + threshold) / norm : 1.0;
      for (std::uint32_t i = 0; i < s.dim; ++i) {
        const auto z = static_cast<float>(-w[i] * (s.beta / s.learning_rate + s.l2) * longer);
        state[i] = w[i] == 0.0f ? 0.0f : z + std::copysign(s.l1, z);
      }
      break;
    }
    default:
      break;
  }
}

Isa best_isa() noexcept { return __builtin_cpu_supports("avx2") != 0 ? Isa::kAvx2 : Isa::kBase; }

Stepper::Stepper(const TableSchema& s, Isa isa)
    : step_{.dim = s.dim,
            .eta = s.learning_rate,
            .beta = s.beta,
            .l1 = s.l1,
            .l2 = s.l2,
            .group = static_cast<float>(s.group_l1 * std::sqrt(static_cast<double>(s.dim))),
            .epsilon = s.epsilon,
            .momentum = s.momentum,
            .b1 = s.beta1,
            .b2 = s.beta2,
            .one_minus_b1 = static_cast<float>(1.0 - double{s.beta1}),
            .one_minus_b2 = static_cast<float>(1.0 - double{s.beta2}),
            .clip_value = s.clip_value > 0 ? s.clip_value : std::numeric_limits<float>::infinity(),
            .clip_norm = s.clip_norm},
      wave_(isa == Isa::kAvx2 ? kernels::avx2_wave(static_cast<std::uint8_t>(s.optimizer), s.dim)
                              : kernels::base_wave(static_cast<std::uint8_t>(s.optimizer), s.dim)) {
  DLRUN_ASSERT(wave_ != nullptr);
}

void apply_gradient(const TableSchema& s, float* w, float* state, const float* g) noexcept {
  const Stepper step{s};
  step(1, &w, &state, &g);
}

}  // namespace dlrun::ps
