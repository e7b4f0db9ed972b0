#pragma once
/// runtime/wire/bytes.h: one Cap'n Proto message <-> bytes, for codecs only (it includes capnp).
/// Errors: bytes that are not a message, and pointers out of bounds, are kCorrupt: kj's exceptions
/// end here.
/// Bounds: what a reader may traverse is a small multiple of the bytes it was given, so no message
/// can be amplified.

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun::wire {

/// The message as one flat, unpacked segment table + segments.
inline std::string to_bytes(capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

/// Calls `visit(Root::Reader)`, which returns a Result<X>, and returns what it returned. `what`
/// names the message in errors.
template <class Root, class Visit>
auto from_bytes(std::string_view bytes, const char* what, Visit&& visit)
    -> decltype(visit(std::declval<typename Root::Reader>())) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return fail(Errc::kCorrupt, std::string(what) + ": " + std::to_string(bytes.size()) +
                                    " bytes are not a whole number of 8-byte words");
  }
  try {
    kj::Array<capnp::word> words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    std::memcpy(static_cast<void*>(words.begin()), bytes.data(), bytes.size());  // aligned
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 4 * words.size() + 1024;
    options.nestingLimit = 24;
    capnp::FlatArrayMessageReader reader(words, options);
    return visit(reader.getRoot<Root>());
  } catch (const kj::Exception& e) {
    return fail(Errc::kCorrupt, std::string(what) + ": " + e.getDescription().cStr());
  }
}

inline std::string to_string(capnp::Data::Reader d) {
  return std::string(reinterpret_cast<const char*>(d.begin()), d.size());
}
/// Inside from_bytes() only: a NUL is no text, and would not be written again.
inline std::string to_string(capnp::Text::Reader t) {
  KJ_REQUIRE(t.size() == 0 || std::memchr(t.begin(), 0, t.size()) == nullptr,
             "a NUL byte in a text");
  return std::string(t.begin(), t.size());
}
inline capnp::Data::Reader data_of(std::string_view s) {
  return capnp::Data::Reader(reinterpret_cast<const kj::byte*>(s.data()), s.size());
}

}  // namespace dlrun::wire
