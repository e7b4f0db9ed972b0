#include "web/problem.h"

#include <nlohmann/json.hpp>

#include "runtime/jobspec/json.h"

namespace dlrun::web {

int status_of(Errc code) {
  switch (code) {
    case Errc::kInvalidArgument:
      return 400;
    case Errc::kPermissionDenied:
      return 403;
    case Errc::kNotFound:
      return 404;
    case Errc::kAlreadyExists:
    case Errc::kFailedPrecondition:
      return 409;
    case Errc::kUnsupported:
      return 501;
    case Errc::kUnavailable:
    case Errc::kOverloaded:
      return 503;
    case Errc::kDeadlineExceeded:
      return 504;
    case Errc::kResourceExhausted:
      return 507;
    default:
      return 500;
  }
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 206:
      return "Partial Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

Response problem(int status, Errc code, std::string detail) {
  Response out;
  out.status = status;
  out.content_type = "application/problem+json";
  const std::string name(errc_name(code));
  jobspec::Json body;
  body["type"] = "urn:dlrun:error:" + name;
  body["title"] = reason_phrase(status);
  body["status"] = status;
  body["detail"] = std::move(detail);
  body["code"] = name;
  out.body = jobspec::dump(body) + "\n";
  if (status == 401) out.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"dlrun\"");
  if (status == 503) out.headers.emplace_back("Retry-After", "1");
  return out;
}

Response problem(const Error& error) {
  return problem(status_of(error.code), error.code, error.context);
}

}  // namespace dlrun::web
