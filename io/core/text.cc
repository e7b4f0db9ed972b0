#include "io/core/text.h"

namespace dlrun::io {

namespace {
constexpr char kHex[] = "0123456789abcdef";
constexpr std::size_t kQuotedMax = 40;
}  // namespace

std::string shown(const char* p, const char* end) {
  if (p == end) return "the end of the line";
  const auto c = static_cast<unsigned char>(*p);
  if (c == '\r') return "a carriage return";
  if (c == 0) return "a NUL byte";
  if (c > 0x20 && c < 0x7f) return std::string("'") + *p + "'";
  return std::string("byte 0x") + kHex[c >> 4] + kHex[c & 15];
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char byte : text.substr(0, kQuotedMax)) {
    const auto c = static_cast<unsigned char>(byte);
    if (c >= 0x20 && c < 0x7f) {
      out += byte;
    } else {
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  out += text.size() > kQuotedMax ? "...'" : "'";
  return out;
}

}  // namespace dlrun::io
