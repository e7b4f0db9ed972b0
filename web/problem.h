#pragma once
/// web/problem.h: errors as application/problem+json (RFC 9457): type, title, status, detail, and
/// `code`, the name of the Errc.

#include <string>

#include "runtime/base/result.h"
#include "web/http.h"

namespace dlrun::web {

int status_of(Errc code);
std::string_view reason_phrase(int status);
/// `detail` is for a person. kOverloaded and kUnavailable get Retry-After: 1, 401 gets
/// WWW-Authenticate.
Response problem(int status, Errc code, std::string detail);
Response problem(const Error& error);  ///< status_of(error.code)

}  // namespace dlrun::web
