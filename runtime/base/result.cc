#include "runtime/base/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/base/assert.h"

namespace dlrun {

void assert_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "dlrun: invariant broken at %s:%d: %s\n", file, line, expression);
  std::abort();
}

std::string_view errc_name(Errc code) noexcept {
  switch (code) {
    case Errc::kInvalidArgument:
      return "kInvalidArgument";
    case Errc::kNotFound:
      return "kNotFound";
    case Errc::kAlreadyExists:
      return "kAlreadyExists";
    case Errc::kUnavailable:
      return "kUnavailable";
    case Errc::kDeadlineExceeded:
      return "kDeadlineExceeded";
    case Errc::kStaleEpoch:
      return "kStaleEpoch";
    case Errc::kOverloaded:
      return "kOverloaded";
    case Errc::kPermissionDenied:
      return "kPermissionDenied";
    case Errc::kResourceExhausted:
      return "kResourceExhausted";
    case Errc::kCorrupt:
      return "kCorrupt";
    case Errc::kCancelled:
      return "kCancelled";
    case Errc::kUnsupported:
      return "kUnsupported";
    case Errc::kIo:
      return "kIo";
    case Errc::kFailedPrecondition:
      return "kFailedPrecondition";
    case Errc::kNoDevice:
      return "kNoDevice";
    case Errc::kEndOfData:
      return "kEndOfData";
    case Errc::kInternal:
      return "kInternal";
  }
  return "kUnknown";
}

std::string Error::to_string() const {
  std::string text(errc_name(code));
  if (!context.empty()) text.append(": ").append(context);
  return text;
}

tl::unexpected<Error> fail_errno(std::string what, int error_number) {
  Errc code = Errc::kIo;
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      code = Errc::kResourceExhausted;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = Errc::kPermissionDenied;
      break;
    case ENOENT:
      code = Errc::kNotFound;
      break;
    case EEXIST:
      code = Errc::kAlreadyExists;
      break;
    default:
      break;
  }
  return fail(code, std::move(what) + ": " + std::strerror(error_number));
}

tl::unexpected<Error> fail_errno(std::string what) { return fail_errno(std::move(what), errno); }

}  // namespace dlrun
