#pragma once
/// web/call.h: one request under way, and what its handlers answer with. Private to handlers.cc and
/// security_handlers.cc.

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/jobspec/json.h"
#include "web/handlers.h"
#include "web/problem.h"

namespace dlrun::web {

inline Response json_response(int status, const jobspec::Json& body) {
  Response out;
  out.status = status;
  out.body = jobspec::dump(body) + "\n";
  return out;
}

inline Response bad(std::string detail) {
  return problem(400, Errc::kInvalidArgument, std::move(detail));
}

struct Handlers::Call {
  const Request* request = nullptr;  ///< only until the handler returns
  Target target;
  std::vector<std::string> args;  ///< what stood for {id}, {role}, ...
  Reply reply;
  /// Of the headers of a request for a log; the request is gone when the job's view arrives.
  std::optional<std::string> range, last_event_id;

  /// The {id}; answers by itself and returns nullopt when it is none.
  std::optional<JobId> job() {
    const auto id = parse_job_id(args[0]);
    if (!id) return reply(bad(id.error().context)), std::nullopt;
    return *id;
  }
  /// The parameter as a whole number in [low, high]; `out` stays when it is absent; false =
  /// answered.
  template <class T>
  bool number(const char* name, T& out, std::uint64_t low, std::uint64_t high) {
    return number(name, target.param(name), out, low, high);
  }
  /// The same for what stood in the header `name`.
  template <class T>
  bool number(const char* name, std::optional<std::string_view> text, T& out, std::uint64_t low,
              std::uint64_t high) {
    if (!text) return true;
    const auto value = parse_u64(*text);
    if (!value || *value < low || *value > high)
      return reply(bad(fmt::format("{} must be a whole number from {} to {}", name, low, high))),
             false;
    out = static_cast<T>(*value);
    return true;
  }
};

template <class T>
void Handlers::ask(Call call, cluster::ApiCall request, std::function<void(Call&, T&)> then) {
  context_.ask(std::move(request), [call = std::move(call), then = std::move(then)](
                                       Result<cluster::ApiReply> reply) mutable {
    if (!reply) return call.reply(problem(reply.error()));
    T* value = std::get_if<T>(&*reply);
    if (value == nullptr)
      return call.reply(
          problem(500, Errc::kInternal, "the control plane gave an unexpected reply"));
    then(call, *value);
  });
}

}  // namespace dlrun::web
