#pragma once
/// runtime/base/constant_time.h: comparison of secrets.

#include <cstddef>
#include <cstdint>

namespace dlrun {

/// Takes the same time wherever the first difference is. Lengths are not secret. For std::string,
/// std::string_view, std::array of bytes.
template <class A, class B>
bool equal_constant_time(const A& a, const B& b) noexcept {
  if (a.size() != b.size()) return false;
  volatile unsigned differ = 0;  // volatile: no early way out
  for (std::size_t i = 0; i < a.size(); ++i)
    differ = differ | (static_cast<std::uint8_t>(a[i]) ^ static_cast<std::uint8_t>(b[i]));
  return differ == 0;
}

}  // namespace dlrun
