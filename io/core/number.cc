#include "io/core/number.h"

#include <charconv>
#include <cstdlib>
#include <string>

namespace dlrun::io {

namespace {

constexpr float kPowers[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f};

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') <= 9; }

float to_value(const char* text, float) { return std::strtof(text, nullptr); }
double to_value(const char* text, double) { return std::strtod(text, nullptr); }

/// `first`: where from_chars starts, which takes no '+'.
template <class Token>
Token read_slow(const char* begin, const char* first, const char* end) {
  Token token;
  const auto parsed = std::from_chars(first, end, token.value, std::chars_format::general);
  token.end = parsed.ptr;
  if (parsed.ec == std::errc::invalid_argument) {
    token.end = begin;
    token.error = NumberError::kSyntax;
    return token;
  }
  const char* letter = *first == '-' ? first + 1 : first;
  if (!is_digit(*letter) && *letter != '.') {  // from_chars knows nan, inf, infinity
    token.error = NumberError::kNotFinite;
    return token;
  }
  if (parsed.ec == std::errc::result_out_of_range) {
    token.value = to_value(std::string(first, parsed.ptr).c_str(), token.value);
    if (token.value > 1 || token.value < -1) token.error = NumberError::kOverflow;
  }
  return token;
}

}  // namespace

FloatToken read_float(const char* begin, const char* end) {
  const char* p = begin;
  const char* first = begin;  // where from_chars would start: it takes no '+'
  bool negative = false;
  if (p != end && (*p == '+' || *p == '-')) {
    negative = *p == '-';
    ++p;
    if (!negative) first = p;
    if (p != end && *p == '-') return {begin, 0, NumberError::kSyntax};  // "+-1"
  }
  std::uint32_t mantissa = 0;
  int digits = 0;
  int fraction = 0;
  for (; p != end && is_digit(*p); ++p, ++digits) {
    if (digits > 8) return read_slow<FloatToken>(begin, first, end);
    mantissa = mantissa * 10 + static_cast<std::uint32_t>(*p - '0');
  }
  if (p != end && *p == '.') {
    for (++p; p != end && is_digit(*p); ++p, ++digits, ++fraction) {
      if (digits > 8) return read_slow<FloatToken>(begin, first, end);
      mantissa = mantissa * 10 + static_cast<std::uint32_t>(*p - '0');
    }
  }
  const bool exponent = p != end && (*p == 'e' || *p == 'E');
  if (digits == 0 || exponent || mantissa > (1u << 24))
    return read_slow<FloatToken>(begin, first, end);
  float value = static_cast<float>(mantissa);
  if (fraction > 0) value /= kPowers[fraction];
  return {p, negative ? -value : value, NumberError::kNone};
}

IdToken read_id(const char* begin, const char* end) {
  IdToken token;
  const auto parsed = std::from_chars(begin, end, token.value);
  token.end = parsed.ptr;
  if (parsed.ec == std::errc::invalid_argument) token.error = NumberError::kSyntax;
  if (parsed.ec == std::errc::result_out_of_range) token.error = NumberError::kOverflow;
  return token;
}

DoubleToken read_double(const char* begin, const char* end) {
  const char* first = begin;
  if (first != end && *first == '+') {
    ++first;
    if (first != end && *first == '-') return {begin, 0, NumberError::kSyntax};
  }
  return read_slow<DoubleToken>(begin, first, end);
}

IntToken read_int(const char* begin, const char* end) {
  const char* first = begin;
  if (first != end && *first == '+') {
    ++first;
    if (first == end || !is_digit(*first)) return {begin, 0, NumberError::kSyntax};
  }
  IntToken token;
  const auto parsed = std::from_chars(first, end, token.value);
  token.end = parsed.ptr;
  if (parsed.ec == std::errc::invalid_argument) return {begin, 0, NumberError::kSyntax};
  if (parsed.ec == std::errc::result_out_of_range) token.error = NumberError::kOverflow;
  return token;
}

const char* reason(NumberError error) {
  switch (error) {
    case NumberError::kSyntax:
      return "not a number";
    case NumberError::kNotFinite:
      return "not finite (nan and inf are refused)";
    case NumberError::kOverflow:
      return "out of range";
    case NumberError::kNone:
      break;
  }
  return "";
}

}  // namespace dlrun::io
