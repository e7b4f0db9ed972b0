#include "runtime/cluster/actor/hmac_tokens.h"

#include "runtime/security/secret.h"

namespace dlrun::cluster {

Result<HmacTokens> HmacTokens::open(const std::string& path) {
  Result<std::string> key = security::read_private_file(path);
  if (!key && key.error().code == Errc::kNotFound) {
    DLRUN_ASSIGN(const std::string fresh, security::random_bytes(32));
    DLRUN_TRY(security::write_private_file(path, fresh));
    return HmacTokens(fresh);
  }
  if (!key) return tl::unexpected(key.error());
  if (key->size() != 32) return fail(Errc::kCorrupt, path + " does not hold a key of 32 bytes");
  return HmacTokens(std::move(*key));
}

Token HmacTokens::issue(std::string_view purpose, Epoch epoch) const {
  return security::hmac_sha256(key_, std::string(purpose) + "\n" + to_string(epoch));
}

std::string log_proof(const Token& task_token, const NodeId& node) {
  const security::Digest mac = security::hmac_sha256(
      {reinterpret_cast<const char*>(task_token.data()), task_token.size()}, "logs/" + node.value);
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

bool may_ship(const TokenIssuer& tokens, const NodeId& node, const TaskId& task, Epoch epoch,
              std::string_view proof) {
  return equal_constant_time(log_proof(tokens.issue(task_purpose(task), epoch), node), proof);
}

}  // namespace dlrun::cluster
