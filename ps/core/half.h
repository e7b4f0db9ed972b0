#pragma once
/// ps/core/half.h: f32 <-> IEEE half (f16) and bfloat16, to the nearest, ties to even; overflow to
/// infinity, NaN stays a NaN.
/// Source: F. Giesen, "Half to float done quick" and its float_to_half with round to even.
/// Branch-free, so that the compiler vectorises the loops. Pure functions.

#include <cstddef>
#include <cstdint>

namespace dlrun::ps {

void f16_to_f32(const std::uint16_t* in, float* out, std::size_t n) noexcept;
void f32_to_f16(const float* in, std::uint16_t* out, std::size_t n) noexcept;
void bf16_to_f32(const std::uint16_t* in, float* out, std::size_t n) noexcept;
void f32_to_bf16(const float* in, std::uint16_t* out, std::size_t n) noexcept;

}  // namespace dlrun::ps
