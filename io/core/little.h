#pragma once
/// io/core/little.h: numbers out of the bytes of a file, whatever their alignment.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace dlrun::io {

static_assert(std::endian::native == std::endian::little);

/// sizeof(T) bytes of `bytes` from `at`, which must be there; little endian.
template <class T>
T little(std::string_view bytes, std::size_t at = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

inline std::uint32_t big32(std::string_view bytes, std::size_t at = 0) {
  return __builtin_bswap32(little<std::uint32_t>(bytes, at));
}

}  // namespace dlrun::io
