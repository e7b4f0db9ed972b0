#pragma once
/// runtime/wire/pslite_codec.h: the header of a packet between processes of a ps-lite program, to
/// bytes and back.
/// Errors: kCorrupt; kUnsupported for a payload that this build does not know.
/// Bounds: kPslitePacketBytesMax, of which a roster of 4,096 nodes takes less than a half.
/// Pure functions, thread safe.

#include <cstddef>
#include <span>
#include <vector>

#include "ps/pslite/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::wire {

inline constexpr std::size_t kPslitePacketBytesMax = 4u << 20;

std::vector<std::byte> encode_pslite(const pslite::Packet& packet);
/// The sizes of a mail's arrays are checked against kMailBytesMax, its offset against the sizes.
Result<pslite::Packet> decode_pslite(std::span<const std::byte> bytes);

}  // namespace dlrun::wire
