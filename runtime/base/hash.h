#pragma once
/// runtime/base/hash.h: FNV-1a, 64 bits: the same number in every process, on every machine and in
/// every version; so it may name files and be recorded.
/// Source: Fowler, Noll, Vo (isthe.com/chongo/tech/comp/fnv). Not for secrets.

#include <cstdint>
#include <string_view>

namespace dlrun {

class Fnv1a {
 public:
  constexpr void add_byte(std::uint8_t byte) { h_ = (h_ ^ byte) * 0x100000001b3ULL; }
  /// The bytes alone: "a" then "b" is as "ab".
  constexpr void add(std::string_view bytes) {
    for (const char c : bytes) add_byte(static_cast<std::uint8_t>(c));
  }
  constexpr void add(std::uint64_t number) {  ///< eight bytes, the lowest first
    for (int i = 0; i < 8; ++i) add_byte(static_cast<std::uint8_t>(number >> (8 * i)));
  }
  constexpr std::uint64_t value() const { return h_; }

 private:
  std::uint64_t h_ = 0xcbf29ce484222325ULL;
};

constexpr std::uint64_t fnv1a(std::string_view bytes) {
  Fnv1a hash;
  hash.add(bytes);
  return hash.value();
}

}  // namespace dlrun
