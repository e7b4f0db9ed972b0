#include "runtime/base/utf8.h"

namespace dlrun {

bool is_utf8(std::string_view s) noexcept {
  const auto tail = [&](std::size_t i, unsigned char low, unsigned char high) {
    return i < s.size() && static_cast<unsigned char>(s[i]) >= low &&
           static_cast<unsigned char>(s[i]) <= high;
  };
  for (std::size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    if (c < 0x80) {
      i += 1;
    } else if (c >= 0xC2 && c <= 0xDF) {
      if (!tail(i + 1, 0x80, 0xBF)) return false;
      i += 2;
    } else if (c >= 0xE0 && c <= 0xEF) {
      if (!tail(i + 1, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF) ||
          !tail(i + 2, 0x80, 0xBF))
        return false;
      i += 3;
    } else if (c >= 0xF0 && c <= 0xF4) {
      if (!tail(i + 1, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF) ||
          !tail(i + 2, 0x80, 0xBF) || !tail(i + 3, 0x80, 0xBF))
        return false;
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

std::string in_quotes(std::string_view text, std::size_t bytes_max) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string_view rest = text.substr(0, bytes_max);
  std::string out = "'";
  while (!rest.empty()) {
    std::size_t n = 1;
    while (n < 4 && n < rest.size() && !is_utf8(rest.substr(0, n))) ++n;
    const auto c = static_cast<unsigned char>(rest[0]);
    if (c < 0x20 || c == 0x7F || !is_utf8(rest.substr(0, n))) {
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
      n = 1;
    } else {
      out += rest.substr(0, n);
    }
    rest.remove_prefix(n);
  }
  return out + (text.size() > bytes_max ? "'..." : "'");
}

}  // namespace dlrun
