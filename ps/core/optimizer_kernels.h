#pragma once
/// ps/core/optimizer_kernels.h: the inner loops of the optimizers, compiled once for x86-64-v2 and
/// once for AVX2 from the same source (optimizer_kernels.inc): element-wise loops that the compiler
/// vectorises, sums over a row in eight lanes and a fixed tree. Formulas: ps/core/optimizer.h.
/// Nothing inline from other headers may be called in there: a copy compiled for AVX2 must not be
/// what the linker picks for everybody.

#include <cstdint>

namespace dlrun::ps::kernels {

struct Step {
  std::uint32_t dim = 0;
  float eta = 0, beta = 0, l1 = 0, l2 = 0, group = 0, epsilon = 0, momentum = 0;
  float b1 = 0, b2 = 0, one_minus_b1 = 0, one_minus_b2 = 0;
  float clip_value = 0;  ///< infinity = not
  float clip_norm = 0;   ///< 0 = not
};

using Wave = void (*)(const Step& step, std::uint32_t n, float* const* weights,
                      float* const* states, const float* const* grads);

/// `optimizer` by its number; dims 1, 4, 8, 16, 32, 64 and 128 have loops of their own.
Wave base_wave(std::uint8_t optimizer, std::uint32_t dim) noexcept;
Wave avx2_wave(std::uint8_t optimizer, std::uint32_t dim) noexcept;

}  // namespace dlrun::ps::kernels
