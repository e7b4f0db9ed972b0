#pragma once
/// runtime/base/result.h: how a call says that it failed. No exceptions cross a folder's border.
/// zmq, kj, CUDA, SQLite, OpenSSL and errno are turned into `Error` in the file that wraps them.

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace dlrun {

/// A code exists only where a caller can react differently; detail goes into `Error::context`.
/// The numbers travel on the wire and in the C ABI: append only.
enum class Errc : int {
  kInvalidArgument = 1,      ///< the input is wrong and will stay wrong: fix it
  kNotFound = 2,             ///< no such job, node, table, file
  kAlreadyExists = 3,        ///< made before, with other content
  kUnavailable = 4,          ///< the peer is not there now: retry with backoff
  kDeadlineExceeded = 5,     ///< the time given is over; the effect is unknown
  kStaleEpoch = 6,           ///< the request carries an older epoch: refetch the map, or stop
  kOverloaded = 7,           ///< a bound is reached: back off
  kPermissionDenied = 8,     ///< no or wrong credential
  kResourceExhausted = 9,    ///< memory, disk, descriptors, ports
  kCorrupt = 10,             ///< bytes that fail their check; the context names the place
  kCancelled = 11,           ///< the caller or the owner gave up
  kUnsupported = 12,         ///< a version or feature that this build does not speak
  kIo = 13,                  ///< the operating system refused; the context has errno's text
  kFailedPrecondition = 14,  ///< right request, wrong state (kill of a finished job)
  kNoDevice = 15,            ///< no GPU, or no driver
  kEndOfData = 16,           ///< the input has ended
  kInternal = 17,            ///< a bug of ours
};

/// "kStaleEpoch" and so on; "kUnknown(<n>)" is never returned for a listed code.
std::string_view errc_name(Errc code) noexcept;

struct Error {
  Errc code = Errc::kInternal;
  std::string context;  ///< one sentence for a person: what, where, and what to do about it

  std::string to_string() const;  ///< "kNotFound: no job j12"
  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};
using Status = Result<void>;

inline tl::unexpected<Error> fail(Errc code, std::string context) {
  return tl::unexpected<Error>(Error{code, std::move(context)});
}
/// `errno`'s text appended: fail_errno("open /x") -> "open /x: Permission denied". ENOSPC, EMFILE,
/// ENOMEM become kResourceExhausted, EACCES and EPERM kPermissionDenied, ENOENT kNotFound, the rest
/// kIo.
tl::unexpected<Error> fail_errno(std::string what, int error_number);
tl::unexpected<Error> fail_errno(std::string what);

/// The error of `result` with "<prefix>: " put before its context.
template <class T>
tl::unexpected<Error> fail_as(std::string prefix, const Result<T>& result) {
  return fail(result.error().code, std::move(prefix) + ": " + result.error().context);
}

}  // namespace dlrun

#define DLRUN_CONCAT_INNER(a, b) a##b
#define DLRUN_CONCAT(a, b) DLRUN_CONCAT_INNER(a, b)

/// DLRUN_TRY(expression): returns its error from the enclosing function.
#define DLRUN_TRY(expression)                                                 \
  do {                                                                        \
    auto&& dlrun_try_result = (expression);                                   \
    if (!dlrun_try_result) return ::tl::unexpected(dlrun_try_result.error()); \
  } while (0)

/// DLRUN_ASSIGN(auto x, expression): x = the value, or returns the error.
#define DLRUN_ASSIGN(target, expression) \
  DLRUN_ASSIGN_INNER(DLRUN_CONCAT(dlrun_result_, __LINE__), target, expression)
// `name` and `target` cannot stand in parentheses: they declare.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define DLRUN_ASSIGN_INNER(name, target, expression) \
  auto&& name = (expression);                        \
  if (!name) return ::tl::unexpected(name.error());  \
  target = std::move(*name)
// NOLINTEND(bugprone-macro-parentheses)
