#pragma once
/// runtime/wire/task_codec.h: runtime/task/msg.h <-> one Cap'n Proto message of task.capnp. No
/// capnp in this header.
/// Errors: kCorrupt (not a message, or a value out of range), kUnsupported (a kind of message of a
/// newer peer: skip it).

#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/task/msg.h"

namespace dlrun::wire {

inline constexpr std::size_t kTaskFrameBytesMax = 16u << 20;

std::string encode(const task::ToServer& message);
std::string encode(const task::ToClient& message);
Result<task::ToServer> decode_to_server(std::string_view bytes);
Result<task::ToClient> decode_to_client(std::string_view bytes);

/// With the length in front; kInvalidArgument above kTaskFrameBytesMax.
Result<std::string> frame(std::string message);
/// Takes one whole frame from the front of `buffer`: true and the message, or false when more bytes
/// are needed. kCorrupt for a length of 0 or above the bound. `consumed` advances; the caller
/// erases.
Result<bool> unframe(std::string_view buffer, std::size_t& consumed, std::string_view& message);

}  // namespace dlrun::wire
