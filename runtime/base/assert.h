#pragma once
/// runtime/base/assert.h: DLRUN_ASSERT checks an invariant of ours, in every build. Bad input is
/// never an assertion: it is a Result.

namespace dlrun {
/// Prints the place and the expression to stderr and aborts.
[[noreturn]] void assert_failed(const char* expression, const char* file, int line) noexcept;
}  // namespace dlrun

#define DLRUN_ASSERT(expression)           \
  (static_cast<bool>(expression) ? void(0) \
                                 : ::dlrun::assert_failed(#expression, __FILE__, __LINE__))
