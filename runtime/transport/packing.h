#pragma once
/// runtime/transport/packing.h: small messages together in one frame of a socket, which costs as
/// much as copying some KiB. docs/ps-wire.md has the format.
/// Pure functions, thread safe.

#include <cstddef>
#include <vector>

#include "runtime/transport/transport.h"

namespace dlrun::transport {

/// Larger messages go in frames of their own: copying them would cost more.
inline constexpr std::size_t kPackedMessageBytesMax = 16u << 10;
inline constexpr std::size_t kPackHeadBytes = 8;
inline constexpr std::size_t kPackMessagesMax = 32;

bool fits_in_pack(const Message& message) noexcept;
std::size_t packed_bytes(const Message& message) noexcept;
/// A pack is its head, kPackHeadBytes, and then messages that fit, packed_bytes() each. Both return
/// where the next one goes.
std::byte* write_pack_head(std::byte* to) noexcept;
std::byte* write_packed(const Message& message, std::byte* to) noexcept;

bool is_pack(const Frame& frame) noexcept;
/// The messages, whose frames share the owner of `pack`. false: not a pack, or one that is broken,
/// or with more than kPackMessagesMax messages, or with a message of more than `frames_max`
/// frames; what came before that is in `messages`.
bool unpack(const Frame& pack, std::size_t frames_max, std::vector<Message>& messages);

}  // namespace dlrun::transport
