#pragma once
/// runtime/wire/ps_codec.h: the parameter server's header frame (runtime/wire/ps.capnp) <->
/// ps::RequestHeader, ps::ReplyHeader. Decoding takes any bytes: what is not a header of this
/// project is kCorrupt, a version from the future that moved what we need is kUnsupported by its
/// user (the version field is handed over as it stands). Never throws.
/// Requests and replies without a schema, a cursor or a context (all that are often sent) are of
/// one size and differ in data alone: they are written into, and read from, one layout that was
/// made beforehand, without memory of their own. The bytes are the same either way.
/// Bounds: a header is at most kPsHeaderBytesMax. Functions are pure and thread safe; a
/// HeaderWriter has one owner.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::wire {

inline constexpr std::size_t kPsHeaderBytesMax = 8192;

/// A context beyond 2 KiB is cut.
std::vector<std::byte> encode(const ps::RequestHeader& header);
std::vector<std::byte> encode(const ps::ReplyHeader& header);

class HeaderWriter {
 public:
  HeaderWriter();
  ~HeaderWriter();
  HeaderWriter(const HeaderWriter&) = delete;
  HeaderWriter& operator=(const HeaderWriter&) = delete;
  /// What encode() gives. Until the next write.
  std::span<const std::byte> write(const ps::RequestHeader& header);
  std::span<const std::byte> write(const ps::ReplyHeader& header);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Any alignment.
Result<ps::RequestHeader> decode_ps_request(std::span<const std::byte> bytes);
Result<ps::ReplyHeader> decode_ps_reply(std::span<const std::byte> bytes);

}  // namespace dlrun::wire
