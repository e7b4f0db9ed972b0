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

}  // namespace dlrun::cluster
