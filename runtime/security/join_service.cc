#include "runtime/security/join_service.h"

#include "runtime/security/credentials.h"

namespace dlrun::security {

JoinService::JoinService(PemPair ca, JoinTokens* tokens, const RevocationList* revoked,
                         const Clock* clock, std::uint16_t cluster_port)
    : ca_(std::move(ca)),
      tokens_(tokens),
      revoked_(revoked),
      clock_(clock),
      cluster_port_(cluster_port) {}

Result<JoinGrant> JoinService::join(const JoinRequest& request) const {
  DLRUN_TRY(tokens_->check(request.token, clock_->wall()));
  if (!is_node_name(request.node) || request.node == "coordinator")
    return fail(Errc::kInvalidArgument, "not a node's name: \"" + request.node + "\"");
  return grant(request.csr_pem, request.node);
}

Result<JoinGrant> JoinService::renew(const RenewRequest& request,
                                     const std::string& peer_certificate_pem) const {
  DLRUN_ASSIGN(const CertInfo info, describe_certificate(peer_certificate_pem));
  if (revoked_->contains(info.serial_hex))
    return fail(Errc::kPermissionDenied, "the certificate of " + info.common_name + " is revoked");
  return grant(request.csr_pem, info.common_name);
}

Result<JoinGrant> JoinService::grant(const std::string& csr_pem, const std::string& node) const {
  JoinGrant out;
  DLRUN_ASSIGN(out.certificate_pem,
               sign_csr(ca_, csr_pem,
                        SignOptions{CertKind::kAgent, node, kCertificateLife, clock_->wall()}));
  out.ca_pem = ca_.certificate_pem;
  out.cluster_port = cluster_port_;
  return out;
}

}  // namespace dlrun::security
