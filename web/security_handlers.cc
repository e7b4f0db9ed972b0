// Join tokens, certificates, revocation.
#include <nlohmann/json.hpp>

#include "web/call.h"
#include "web/security_admin.h"

namespace dlrun::web {
namespace {

using jobspec::Json;

constexpr std::int64_t kTokenMinutesMax = 7 * 24 * 60;

Json time_or_null(WallTime time) {
  return time.ns == 0 ? Json(nullptr) : Json(jobspec::rfc3339(time));
}

Response not_here() {
  return problem(501, Errc::kUnsupported, "this server does not manage certificates");
}

}  // namespace

void Handlers::join_token(Call call) {
  if (context_.security == nullptr) return call.reply(not_here());
  std::int64_t minutes = 60;
  const std::string& text = call.request->body;
  const Json body = text.empty() ? Json::object() : Json::parse(text, nullptr, false);
  const bool given = body.is_object() && body.contains("minutes");
  if (!body.is_object() || body.size() > (given ? 1u : 0u) ||
      (given && !body["minutes"].is_number_integer()))
    return call.reply(bad("the body is empty or {\"minutes\": 60}"));
  if (given) minutes = body["minutes"].get<std::int64_t>();
  if (minutes < 1 || minutes > kTokenMinutesMax)
    return call.reply(bad(fmt::format("minutes must be from 1 to {}", kTokenMinutesMax)));
  const auto token = context_.security->issue_join_token(std::chrono::minutes(minutes));
  if (!token) return call.reply(problem(token.error()));
  call.reply(json_response(201, Json{{"token", token->token},
                                     {"expires", jobspec::rfc3339(token->expires)},
                                     {"join_line", token->join_line}}));
}

void Handlers::certificates(Call call) {
  if (context_.security == nullptr) return call.reply(not_here());
  Json list = Json::array();
  for (const CertificateView& c : context_.security->certificates())
    list.push_back(Json{{"serial", c.serial},
                        {"node", c.node},
                        {"issued", jobspec::rfc3339(c.issued)},
                        {"expires", jobspec::rfc3339(c.expires)},
                        {"seen", c.seen},
                        {"revoked", time_or_null(c.revoked)}});
  call.reply(json_response(200, Json{{"certificates", std::move(list)}}));
}

void Handlers::revoke(Call call) {
  if (context_.security == nullptr) return call.reply(not_here());
  const NodeId node{call.args[0]};
  const auto serials = context_.security->revoke(node.value);
  if (!serials) return call.reply(problem(serials.error()));
  // It is out already; what it ran is given up now, not when its lease ends.
  ask<cluster::ExpelAck>(
      std::move(call), cluster::ExpelNode{node, "its certificate is revoked"},
      [node, serials = *serials](Call& c, cluster::ExpelAck&) {
        c.reply(json_response(200, Json{{"node", node.value}, {"revoked", serials}}));
      });
}

}  // namespace dlrun::web
