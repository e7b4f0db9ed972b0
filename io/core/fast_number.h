#pragma once
/// io/core/fast_number.h: the readers of number.h for text that goes on behind the number: eight
/// digits at a time where 24 bytes can be read, else the plain way. Same values, same errors.
/// Source: D. Lemire, "Quickly parsing eight digits" (2018); Clinger (PLDI 1990).
/// A mantissa <= 2^53 over 10^15 at most is one division in f64, correctly rounded; rounding that
/// to f32 is rounding the number itself unless the f64 lies exactly between two f32, which is
/// looked at.

#include <bit>
#include <cfloat>
#include <cstring>

#include "io/core/number.h"

namespace dlrun::io {

namespace fast {

inline constexpr std::ptrdiff_t kReadable = 24;
inline constexpr std::uint64_t kPowers10[] = {
    1ull,       10ull,       100ull,       1000ull,       10000ull,      100000ull,
    1000000ull, 10000000ull, 100000000ull, 1000000000ull, 10000000000ull};
inline constexpr double kPowersF64[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                        1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/// Eight bytes less '0' each.
inline std::uint64_t load(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word ^ 0x3030303030303030ull;
}
/// How many of them are digits before the first that is none.
inline unsigned digits(std::uint64_t word) {
  const std::uint64_t other = ((word + 0x7676767676767676ull) | word) & 0x8080808080808080ull;
  return other == 0 ? 8 : static_cast<unsigned>(std::countr_zero(other)) / 8;
}
/// The number that the first n (1 to 8) spell.
inline std::uint64_t value(std::uint64_t word, unsigned n) {
  word <<= 8 * (8 - n);
  word = word * 10 + (word >> 8);
  return ((word & 0x000000ff000000ffull) * 0x000f424000000064ull +
          (word >> 16 & 0x000000ff000000ffull) * 0x0000271000000001ull) >>
         32;
}

}  // namespace fast

/// `end`: the end of the readable text, at or behind that of the number's own line.
inline IdToken read_id_fast(const char* p, const char* end) {
  if (end - p >= fast::kReadable) {
    const std::uint64_t word = fast::load(p);
    const unsigned n = fast::digits(word);
    if (n != 0 && n != 8) return {p + n, fast::value(word, n), NumberError::kNone};
    if (n == 8) {
      const std::uint64_t next = fast::load(p + 8);
      const unsigned m = fast::digits(next);
      if (m == 0) return {p + 8, fast::value(word, 8), NumberError::kNone};
      if (m != 8)
        return {p + 8 + m, fast::value(word, 8) * fast::kPowers10[m] + fast::value(next, m),
                NumberError::kNone};
    }
  }
  return read_id(p, end);
}

namespace fast {

/// A number without an exponent: mantissa / 10^fraction, at most 15 digits.
struct Decimal {
  const char* end = nullptr;
  std::uint64_t mantissa = 0;
  unsigned fraction = 0;
  bool read = false;  ///< false: it is not of this kind
};

/// Behind the sign; kReadable bytes and one more can be read from where the sign stands.
inline Decimal decimal(const char* p) {
  Decimal out;
  const std::uint64_t word = load(p);
  const unsigned whole = digits(word);
  if (whole == 8) return out;
  if (whole != 0) out.mantissa = value(word, whole);
  p += whole;
  if (*p == '.') {
    const std::uint64_t first = load(++p);
    out.fraction = digits(first);
    if (out.fraction != 0)
      out.mantissa = out.mantissa * kPowers10[out.fraction] + value(first, out.fraction);
    p += out.fraction;
    if (out.fraction == 8) {
      const std::uint64_t second = load(p);
      const unsigned more = digits(second);
      if (whole + 8 + more > 15) return out;
      if (more != 0) out.mantissa = out.mantissa * kPowers10[more] + value(second, more);
      out.fraction += more;
      p += more;
    }
  }
  out.end = p;
  out.read = whole + out.fraction != 0 && (*p | 0x20) != 'e';
  return out;
}

}  // namespace fast

inline FloatToken read_float_fast(const char* const begin, const char* end) {
  if (end - begin <= fast::kReadable) return read_float(begin, end);
  const bool negative = *begin == '-';
  const fast::Decimal number = fast::decimal(begin + (negative || *begin == '+' ? 1 : 0));
  if (!number.read) return read_float(begin, end);
  const auto mantissa = static_cast<std::int64_t>(number.mantissa);
  float value;
  if (number.mantissa <= 1u << 24 && number.fraction <= 10) {
    value = static_cast<float>(mantissa);
    if (number.fraction != 0) value /= static_cast<float>(fast::kPowersF64[number.fraction]);
  } else {
    const double exact = static_cast<double>(mantissa) / fast::kPowersF64[number.fraction];
    const bool between = (std::bit_cast<std::uint64_t>(exact) & 0x1fffffff) == 0x10000000;
    if (between || exact < static_cast<double>(FLT_MIN)) return read_float(begin, end);
    value = static_cast<float>(exact);
  }
  return {number.end, negative ? -value : value, NumberError::kNone};
}

/// One division of two exact f64: correctly rounded.
inline DoubleToken read_double_fast(const char* const begin, const char* end) {
  if (end - begin <= fast::kReadable) return read_double(begin, end);
  const bool negative = *begin == '-';
  const fast::Decimal number = fast::decimal(begin + (negative || *begin == '+' ? 1 : 0));
  if (!number.read) return read_double(begin, end);
  const double value = static_cast<double>(static_cast<std::int64_t>(number.mantissa)) /
                       fast::kPowersF64[number.fraction];
  return {number.end, negative ? -value : value, NumberError::kNone};
}

inline IntToken read_int_fast(const char* const begin, const char* end) {
  if (end - begin <= fast::kReadable) return read_int(begin, end);
  const bool negative = *begin == '-';
  const IdToken size = read_id_fast(begin + (negative ? 1 : 0), end);
  if (size.error != NumberError::kNone || size.value > 0x7fffffffffffffffull)
    return read_int(begin, end);
  const auto value = static_cast<std::int64_t>(size.value);
  return {size.end, negative ? -value : value, NumberError::kNone};
}

}  // namespace dlrun::io
