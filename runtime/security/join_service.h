#pragma once
/// runtime/security/join_service.h: turns a signing request into a certificate: for a join token,
/// or for a certificate that still counts (renewal). No network: JoinListener carries it. Errors:
/// kPermissionDenied (token, revoked), kInvalidArgument (name, request). Threads: safe from any
/// thread.

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/join_token.h"
#include "runtime/security/pki.h"
#include "runtime/security/revocation.h"

namespace dlrun::security {

struct JoinRequest {
  std::string token;
  std::string node;
  std::string csr_pem;
};
struct RenewRequest {
  std::string csr_pem;
};
struct JoinGrant {
  std::string certificate_pem;
  std::string ca_pem;
  std::uint16_t cluster_port = 0;  ///< where agents register
};

class JoinService {
 public:
  /// Borrows `clock`, `tokens` and `revoked`: they outlive it.
  JoinService(PemPair ca, JoinTokens* tokens, const RevocationList* revoked, const Clock* clock,
              std::uint16_t cluster_port);

  Result<JoinGrant> join(const JoinRequest& request) const;
  /// `peer_certificate_pem` was shown in the TLS handshake, which proved its key. The new one has
  /// the same name.
  Result<JoinGrant> renew(const RenewRequest& request,
                          const std::string& peer_certificate_pem) const;

 private:
  Result<JoinGrant> grant(const std::string& csr_pem, const std::string& node) const;

  const PemPair ca_;
  JoinTokens* const tokens_;
  const RevocationList* const revoked_;
  const Clock* const clock_;
  const std::uint16_t cluster_port_;
};

}  // namespace dlrun::security
