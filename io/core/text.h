#pragma once
/// io/core/text.h: small things that the text parsers share.

#include <string>
#include <string_view>

namespace dlrun::io {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// What stands at `p`, for a person: a byte that has no shape is named by its number.
std::string shown(const char* p, const char* end);

/// A piece of text for a message: cut at 40 bytes, all that is no printable ASCII as \xNN: unlike
/// in_quotes() of runtime/base/utf8.h it shows what hides in data, like a byte order mark.
std::string quoted(std::string_view text);

}  // namespace dlrun::io
