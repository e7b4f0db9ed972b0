#pragma once
/// runtime/client/c_abi.h: what the sources of the C ABI share: handles, errors as codes, structs
/// of callers of another version.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "dlrun/dlrun.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::client {
class Session;
}

struct dlrun_session {
  std::shared_ptr<dlrun::client::Session> session;
};

namespace dlrun::client::abi {

/// Keeps the text for dlrun_last_error() of this thread; the code for C.
int set_error(Errc code, const std::string& text) noexcept;

/// Runs `body` (returning Status) and turns its outcome into a code.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    const Status status = body();
    return status ? DLRUN_OK : set_error(status.error().code, status.error().context);
  } catch (const std::bad_alloc&) {
    return set_error(Errc::kResourceExhausted, "no memory");
  } catch (const std::exception& error) {
    return set_error(Errc::kInternal, error.what());
  } catch (...) {
    return set_error(Errc::kInternal, "an unknown exception");
  }
}

inline tl::unexpected<Error> null_argument(const char* what) {
  return fail(Errc::kInvalidArgument, std::string(what) + " is NULL");
}

inline Duration wait_of(std::int64_t timeout_ms) {
  constexpr std::int64_t kYearMs = 366ll * 24 * 3600 * 1000;
  return std::chrono::milliseconds(timeout_ms <= 0 ? DLRUN_TIMEOUT_DEFAULT_MS
                                                   : std::min(timeout_ms, kYearMs));
}

/// The caller's struct may be shorter (older program) or longer (newer) than ours: copies what both
/// know.
template <class T>
Status read_struct(const T* from, T& into, std::size_t required) {
  if (from->struct_size < required) {
    return fail(Errc::kInvalidArgument,
                "struct_size is " + std::to_string(from->struct_size) + ": set it to sizeof");
  }
  std::memcpy(&into, from, std::min(from->struct_size, sizeof(T)));
  return {};
}

template <class T>
Status write_struct(T value, T* into, std::size_t required) {
  const std::size_t size = into->struct_size;
  if (size < required) {
    return fail(Errc::kInvalidArgument,
                "struct_size is " + std::to_string(size) + ": set it to sizeof");
  }
  value.struct_size = size;
  std::memcpy(into, &value, std::min(size, sizeof(T)));
  return {};
}

}  // namespace dlrun::client::abi
