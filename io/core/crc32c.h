#pragma once
/// io/core/crc32c.h: CRC-32C as TFRecord stores it.

#include "runtime/base/crc32c.h"

namespace dlrun::io {

using dlrun::crc32c;
using dlrun::crc32c_by_table;

/// Rotated right by 15, plus 0xa282ead8.
constexpr std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace dlrun::io
