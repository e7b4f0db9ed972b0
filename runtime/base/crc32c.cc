#include "runtime/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace dlrun {

namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78u;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ kPolynomial : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kTable = make_table();

#if defined(__SSE4_2__)
/// a * b modulo the polynomial, bit-reflected: x^0 is the top bit.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

/// x^(8 n): what appending n zero bytes multiplies a CRC with.
constexpr std::uint32_t power_of_bytes(std::size_t n) {
  std::uint32_t power = 1u << 31;   // x^0
  std::uint32_t square = 1u << 23;  // x^8
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

/// A CRC moved over `kBytes` zero bytes: four table look-ups.
template <std::size_t kBytes>
struct Shift {
  std::array<std::array<std::uint32_t, 256>, 4> table{};
  constexpr Shift() {
    const std::uint32_t power = power_of_bytes(kBytes);
    for (std::size_t byte = 0; byte < 4; ++byte)
      for (std::uint32_t i = 0; i < 256; ++i) table[byte][i] = multiply(power, i << (8 * byte));
  }
  std::uint32_t operator()(std::uint32_t crc) const {
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^
           table[3][crc >> 24];
  }
};

constexpr std::size_t kLong = 8192;  ///< bytes of a lane; a short one suits records of 1 KiB
constexpr std::size_t kShort = 336;
const Shift<kLong> kShiftLong;
const Shift<kShort> kShiftShort;

std::uint64_t word(const char* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <std::size_t kLane>
std::uint64_t three_lanes(const char*& p, std::size_t& n, std::uint64_t crc,
                          const Shift<kLane>& shift) {
  while (n >= 3 * kLane) {
    std::uint64_t second = 0, third = 0;
    for (const char* const end = p + kLane; p != end; p += 8) {
      crc = _mm_crc32_u64(crc, word(p));
      second = _mm_crc32_u64(second, word(p + kLane));
      third = _mm_crc32_u64(third, word(p + 2 * kLane));
    }
    crc = shift(static_cast<std::uint32_t>(crc)) ^ second;
    crc = shift(static_cast<std::uint32_t>(crc)) ^ third;
    p += 2 * kLane;
    n -= 3 * kLane;
  }
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (const char byte : bytes)
    crc = kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
#if defined(__SSE4_2__)
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  std::uint64_t crc = ~before;
  crc = three_lanes(p, n, crc, kShiftLong);
  crc = three_lanes(p, n, crc, kShiftShort);
  for (; n >= 8; p += 8, n -= 8) crc = _mm_crc32_u64(crc, word(p));
  auto rest = static_cast<std::uint32_t>(crc);
  for (; n > 0; ++p, --n) rest = _mm_crc32_u8(rest, static_cast<std::uint8_t>(*p));
  return ~rest;
#else
  return crc32c_by_table(bytes, before);
#endif
}

}  // namespace dlrun
