#include "runtime/base/utf8.h"

namespace dlrun {

std::size_t utf8_length(std::string_view s) noexcept {
  if (s.empty()) return 0;
  const auto at = [s](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || s.size() < length || at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (at(i) < 0x80 || at(i) > 0xBF) return 0;
  return length;
}

bool is_utf8(std::string_view s) noexcept {
  while (!s.empty()) {
    const std::size_t n = utf8_length(s);
    if (n == 0) return false;
    s.remove_prefix(n);
  }
  return true;
}

std::string in_quotes(std::string_view text, std::size_t bytes_max) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    const auto c = static_cast<unsigned char>(rest[0]);
    std::size_t n = utf8_length(rest);
    const bool shows = n != 0 && c >= 0x20 && c != 0x7F;
    if (!shows) n = 1;
    if (at + n > bytes_max) break;
    if (shows)
      out += rest.substr(0, n);
    else
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    at += n;
  }
  return out + (at < text.size() ? "'..." : "'");
}

}  // namespace dlrun
