#pragma once
/// runtime/cluster/actor/hmac_tokens.h: secrets derived from the cluster's key: HMAC-SHA256(key,
/// purpose | epoch), so that a restarted coordinator hands out the same ones and keeps none.
/// Threads: safe from any thread.

#include <string>

#include "runtime/cluster/core/tokens.h"

namespace dlrun::cluster {

class HmacTokens final : public TokenIssuer {
 public:
  explicit HmacTokens(std::string key) : key_(std::move(key)) {}
  /// The key in `path` (0600), made when the file is not there.
  static Result<HmacTokens> open(const std::string& path);
  Token issue(std::string_view purpose, Epoch epoch) const override;

 private:
  std::string key_;
};

/// What a node shows for a task's logs: a MAC under the task's token, which only the node that the
/// task was given to holds.
std::string log_proof(const Token& task_token, const NodeId& node);
/// The coordinator's side of it. Constant time in `proof`.
bool may_ship(const TokenIssuer& tokens, const NodeId& node, const TaskId& task, Epoch epoch,
              std::string_view proof);

}  // namespace dlrun::cluster
