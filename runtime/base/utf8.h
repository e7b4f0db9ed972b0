#pragma once
/// runtime/base/utf8.h: text that came from outside, before it is shown or sent.
/// Threads: pure functions.

#include <cstddef>
#include <string>
#include <string_view>

namespace dlrun {

/// Bytes of the character that `bytes` begins with: 1 to 4, 0 = it begins with none. By the table
/// of RFC 3629: no overlong forms, no surrogates.
std::size_t utf8_length(std::string_view bytes) noexcept;
bool is_utf8(std::string_view bytes) noexcept;

/// 'text' for a message: control characters and bytes that are not UTF-8 as \xNN; of a longer one
/// the characters that fit in `bytes_max`, with "..." behind the quotes.
std::string in_quotes(std::string_view text, std::size_t bytes_max = 80);

}  // namespace dlrun
