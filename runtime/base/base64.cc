#include "runtime/base/base64.h"

#include <algorithm>
#include <cstdint>

namespace dlrun {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t v = 0;
    for (std::size_t k = 0; k < 3; ++k)
      v = v << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    out.push_back(kAlphabet[v >> 18]);
    out.push_back(kAlphabet[v >> 12 & 63]);
    out.push_back(n > 1 ? kAlphabet[v >> 6 & 63] : '=');
    out.push_back(n > 2 ? kAlphabet[v & 63] : '=');
  }
  return out;
}

Result<std::string> base64_decode(std::string_view text) {
  const auto bad = [] {
    return fail(Errc::kInvalidArgument, "not base64 (RFC 4648, with padding)");
  };
  if (text.size() % 4 != 0) return bad();
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const int padding =
        !last ? 0
              : (text[i + 3] == '=' ? 1 : 0) + (text[i + 3] == '=' && text[i + 2] == '=' ? 1 : 0);
    std::uint32_t v = 0;
    for (int k = 0; k < 4; ++k) {
      const int digit = k >= 4 - padding ? 0 : base64_value(text[i + static_cast<std::size_t>(k)]);
      if (digit < 0) return bad();
      v = v << 6 | static_cast<std::uint32_t>(digit);
    }
    if ((padding == 1 && (v & 0xFF)) || (padding == 2 && (v & 0xFFFF))) return bad();
    out.push_back(static_cast<char>(v >> 16));
    if (padding < 2) out.push_back(static_cast<char>(v >> 8 & 0xFF));
    if (padding < 1) out.push_back(static_cast<char>(v & 0xFF));
  }
  return out;
}

}  // namespace dlrun
