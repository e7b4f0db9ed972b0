#include "ps/core/half.h"

#include <cstring>

namespace dlrun::ps {
namespace {

std::uint32_t bits_of(float x) noexcept {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}
float float_of(std::uint32_t u) noexcept {
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

}  // namespace

void f16_to_f32(const std::uint16_t* in, float* out, std::size_t n) noexcept {
  constexpr std::uint32_t kExponent = 0x7c00u << 13;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t h = in[i];
    const std::uint32_t magnitude = (h & 0x7fffu) << 13;
    const std::uint32_t exponent = magnitude & kExponent;
    const std::uint32_t normal = magnitude + (112u << 23);
    const std::uint32_t special = normal + (112u << 23);
    const std::uint32_t denormal = bits_of(float_of(normal + (1u << 23)) - 0x1.0p-14f);
    std::uint32_t u = exponent == kExponent ? special : normal;
    u = exponent == 0 ? denormal : u;
    out[i] = float_of(u | (h & 0x8000u) << 16);
  }
}

void f32_to_f16(const float* in, std::uint16_t* out, std::size_t n) noexcept {
  constexpr std::uint32_t kInfinity = 255u << 23;
  constexpr std::uint32_t kTooLarge = (127u + 16u) << 23;
  constexpr std::uint32_t kDenormal = 113u << 23;
  constexpr std::uint32_t kMagic = 126u << 23;  // 0.5: its last bit is half's smallest denormal
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t u = bits_of(in[i]);
    const std::uint32_t sign = u & 0x80000000u;
    const std::uint32_t magnitude = u ^ sign;
    const std::uint32_t special = magnitude > kInfinity ? 0x7e00u : 0x7c00u;
    const std::uint32_t small = bits_of(float_of(magnitude) + float_of(kMagic)) - kMagic;
    const std::uint32_t odd = magnitude >> 13 & 1u;
    const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
    std::uint32_t h = magnitude < kDenormal ? small : normal;
    h = magnitude >= kTooLarge ? special : h;
    out[i] = static_cast<std::uint16_t>(h | sign >> 16);
  }
}

void bf16_to_f32(const std::uint16_t* in, float* out, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) out[i] = float_of(std::uint32_t{in[i]} << 16);
}

void f32_to_bf16(const float* in, std::uint16_t* out, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t u = bits_of(in[i]);
    const std::uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    out[i] = static_cast<std::uint16_t>(nan ? (u >> 16 | 0x40u) : rounded);
  }
}

}  // namespace dlrun::ps
