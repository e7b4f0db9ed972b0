#pragma once
/// runtime/security/join_token.h: short-lived secrets with which a new machine asks for its
/// certificate. A token is 256 random bits as "dlj-<64 hex digits>"; the file holds only SHA-256(CA
/// fingerprint | token) and the time it ends, so that a stolen file opens nothing and a token of
/// another cluster never matches. Within its life a token may be used by any number of nodes: ten
/// machines join with one line.
/// Bounds: kTokensMax live tokens.
/// Errors: kPermissionDenied (wrong or expired: the text does not tell which exists), kOverloaded,
/// kIo.
/// Threads: safe from any thread.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/secret.h"

namespace dlrun::security {

class JoinTokens {
 public:
  static constexpr std::size_t kTokensMax = 64;

  /// Reads `path` when it exists. `ca_fingerprint` binds the tokens to one cluster.
  static Result<std::unique_ptr<JoinTokens>> open(std::string path, std::string ca_fingerprint);

  /// The text is shown once and not kept.
  Result<std::string> issue(Duration life, WallTime now);
  /// Compares with every live token in constant time. One that was seen to have expired stays so.
  Status check(const std::string& token, WallTime now) const;
  /// Forgets all tokens at once.
  Status clear();

 private:
  struct Entry {
    Digest digest;
    WallTime until;
  };
  JoinTokens(std::string path, std::string ca_fingerprint)
      : path_(std::move(path)), ca_fingerprint_(std::move(ca_fingerprint)) {}
  Digest digest_of(const std::string& token) const;
  Status store(const std::vector<Entry>& entries) const;

  const std::string path_;
  const std::string ca_fingerprint_;
  mutable std::mutex mutex_;
  mutable std::vector<Entry> entries_;
};

}  // namespace dlrun::security
