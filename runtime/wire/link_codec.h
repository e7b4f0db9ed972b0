#pragma once
/// runtime/wire/link_codec.h: the frames between an agent's link and the coordinator's hub <->
/// link.capnp.
/// Errors: kCorrupt (no such message), kUnsupported (a frame of a later version).
/// Threads: plain functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/ids.h"
#include "runtime/base/result.h"

namespace dlrun::wire {

/// The later of two speaks the version of the earlier, down to kLinkVersionMin; older ones are
/// refused. Version 1 told the ends of splits by messages of their own, which nobody takes any
/// more: what its tasks have read would be read again.
inline constexpr std::uint32_t kLinkVersion = 2;
inline constexpr std::uint32_t kLinkVersionMin = 2;

struct LinkHello {
  std::uint32_t version = kLinkVersion;
  NodeId node;
  Incarnation incarnation;
  std::string certificate_pem;
  std::string signature;
  std::string log_key;
  friend bool operator==(const LinkHello&, const LinkHello&) = default;
};
struct LinkWelcome {
  std::uint32_t version = kLinkVersion;
  friend bool operator==(const LinkWelcome&, const LinkWelcome&) = default;
};
struct LinkRefused {
  Errc code{};
  std::string reason;
  friend bool operator==(const LinkRefused&, const LinkRefused&) = default;
};
struct LinkPayload {
  std::string bytes;
  friend bool operator==(const LinkPayload&, const LinkPayload&) = default;
};
using LinkFrame = std::variant<LinkHello, LinkWelcome, LinkRefused, LinkPayload>;

std::string encode(const LinkFrame& frame);
Result<LinkFrame> decode_link(std::string_view bytes);

/// What a hello's signature covers: whoever speaks for `node` holds the key of its certificate.
std::string link_statement(const LinkHello& hello);

}  // namespace dlrun::wire
