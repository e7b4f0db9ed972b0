#pragma once
/// web/parse.h: request targets, ranges, hosts and tokens. Pure; errors are kInvalidArgument with a
/// sentence.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/os/address.h"

namespace dlrun::web {

struct Target {
  /// decoded; "/a/b%20c" -> {"a", "b c"}; a '/' at the end adds an empty one
  std::vector<std::string> segments;
  std::vector<std::pair<std::string, std::string>> query;

  std::optional<std::string_view> param(std::string_view name) const;
};

/// Origin form only. Refused: "%" without two hex digits, a decoded NUL, more than 64 segments or
/// parameters, a parameter twice.
Result<Target> parse_target(std::string_view target);

/// `bytes=a-b`, `bytes=a-`, `bytes=-n`. One range only.
struct ByteRange {
  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> last;  ///< without `first`: how many of the last bytes
};
Result<ByteRange> parse_range(std::string_view header);

Result<std::uint64_t> parse_u64(std::string_view text);

/// "localhost:80" -> "localhost", "[::1]:80" -> "::1"; lower case; "" when malformed.
std::string host_name(std::string_view host_header);
/// The host of "http://name:port"; "" for anything else ("null" too).
std::string origin_host(std::string_view origin_header);

/// `Bearer <token>`, scheme without regard to case. The time does not depend on where the token
/// differs.
bool bearer_matches(std::string_view authorization, std::string_view token);

using os::is_loopback;

}  // namespace dlrun::web
