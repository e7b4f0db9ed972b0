#pragma once
/// runtime/security/join_service.h: turns a signing request into a certificate: for a join token,
/// or for a certificate that still counts (renewal). No network: JoinListener carries it.
/// Errors: kPermissionDenied (token, revoked, a name that a node uses), kInvalidArgument (name,
/// request), kIo and kResourceExhausted (the book). Each certificate is in the book before it is
/// handed out.
/// Threads: safe from any thread.

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/certificate_book.h"
#include "runtime/security/credentials.h"
#include "runtime/security/join_token.h"
#include "runtime/security/pki.h"

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
  /// Borrows `clock`, `tokens` and `book`: they outlive it.
  JoinService(PemPair ca, JoinTokens* tokens, CertificateBook* book, const Clock* clock,
              std::uint16_t cluster_port, Duration life = kCertificateLife);

  Result<JoinGrant> join(const JoinRequest& request) const;
  /// `peer_certificate_pem` was shown in the TLS handshake, which proved its key. The new one has
  /// the same name.
  Result<JoinGrant> renew(const RenewRequest& request,
                          const std::string& peer_certificate_pem) const;

 private:
  Result<JoinGrant> grant(const std::string& csr_pem, const std::string& node) const;

  const PemPair ca_;
  JoinTokens* const tokens_;
  CertificateBook* const book_;
  const Clock* const clock_;
  const std::uint16_t cluster_port_;
  const Duration life_;
};

}  // namespace dlrun::security
