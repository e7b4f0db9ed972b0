#pragma once
/// io/core/number.h: exact text -> number for the parsers. A short decimal (<= 2^24, |exponent| <=
/// 10) takes one f32 operation, which is correctly rounded (Clinger, PLDI 1990); everything else
/// goes to std::from_chars.

#include <cstdint>

namespace dlrun::io {

enum class NumberError : std::uint8_t { kNone = 0, kSyntax, kNotFinite, kOverflow };

struct FloatToken {
  const char* end = nullptr;  ///< first byte after the number
  float value = 0;
  NumberError error = NumberError::kNone;
};
/// Reads the longest number at `begin`. `end` may not be dereferenced.
FloatToken read_float(const char* begin, const char* end);

struct IdToken {
  const char* end = nullptr;
  std::uint64_t value = 0;
  NumberError error = NumberError::kNone;
};
IdToken read_id(const char* begin, const char* end);

struct DoubleToken {
  const char* end = nullptr;
  double value = 0;
  NumberError error = NumberError::kNone;
};
/// As read_float, in 64 bits.
DoubleToken read_double(const char* begin, const char* end);

struct IntToken {
  const char* end = nullptr;
  std::int64_t value = 0;
  NumberError error = NumberError::kNone;
};
/// One sign, '+' too.
IntToken read_int(const char* begin, const char* end);

const char* reason(NumberError error);

}  // namespace dlrun::io
