#pragma once
/// runtime/base/crc32c.h: CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), with the
/// processor's own instruction (x86-64-v2 has it) in three lanes, or by table.
/// Source of the lanes: M. Adler's crc32c.c (stackoverflow.com/a/17646775): three stretches side by
/// side, joined by multiplying with x^(8 n) modulo the polynomial.

#include <cstdint>
#include <string_view>

namespace dlrun {

/// Of `bytes` after those that gave `before`.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);
/// The same, a byte at a time: the twin that the tests compare with.
std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t before = 0);

}  // namespace dlrun
