#pragma once
/// runtime/base/utf8.h: text that came from outside, before it is shown or sent.
/// Threads: pure functions.

#include <cstddef>
#include <string>
#include <string_view>

namespace dlrun {

bool is_utf8(std::string_view bytes) noexcept;  ///< no overlong forms, no surrogates

/// 'text' for a message: control characters and bytes that are not UTF-8 as \xNN, longer than
/// `bytes_max` cut, with "..." behind the quotes.
std::string in_quotes(std::string_view text, std::size_t bytes_max = 80);

}  // namespace dlrun
