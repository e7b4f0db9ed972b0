#pragma once
/// runtime/base/base64.h: RFC 4648 with padding, strict: what decodes encodes to the same text.
/// Threads: pure functions.

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun {

std::string base64_encode(std::string_view bytes);
Result<std::string> base64_decode(std::string_view text);  ///< kInvalidArgument

}  // namespace dlrun
