#pragma once
/// runtime/wire/ps_codec.h: the parameter server's header frame (runtime/wire/ps.capnp) <->
/// ps::RequestHeader, ps::ReplyHeader. Decoding takes any bytes: what is not a header of this
/// project is kCorrupt, a version from the future that moved what we need is kUnsupported by its
/// user (the version field is handed over as it stands). Never throws.
/// Bounds: a header is at most kPsHeaderBytesMax. Pure functions, thread safe.

#include <cstddef>
#include <span>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::wire {

inline constexpr std::size_t kPsHeaderBytesMax = 8192;

/// A context beyond 2 KiB is cut.
std::vector<std::byte> encode(const ps::RequestHeader& header);
std::vector<std::byte> encode(const ps::ReplyHeader& header);
/// Any alignment.
Result<ps::RequestHeader> decode_ps_request(std::span<const std::byte> bytes);
Result<ps::ReplyHeader> decode_ps_reply(std::span<const std::byte> bytes);

}  // namespace dlrun::wire
