#include "runtime/security/join_service.h"
namespace dlrun::security {

JoinService::JoinService(PemPair ca, JoinTokens* tokens, CertificateBook* book, const Clock* clock,
                         std::uint16_t cluster_port, Duration life)
    : ca_(std::move(ca)),
      tokens_(tokens),
      book_(book),
      clock_(clock),
      cluster_port_(cluster_port),
      life_(life) {}

Result<JoinGrant> JoinService::join(const JoinRequest& request) const {
  DLRUN_TRY(tokens_->check(request.token, clock_->wall()));
  if (!is_node_name(request.node) || request.node == "coordinator")
    return fail(Errc::kInvalidArgument, "not a node's name: \"" + request.node + "\"");
  // The token is no proof that this is the machine which has the name.
  if (book_->is_taken(request.node, clock_->wall()))
    return fail(Errc::kPermissionDenied,
                "node " + request.node +
                    " has a certificate that it uses: revoke it first (dlrun revoke " +
                    request.node + "), or join under another --name");
  return grant(request.csr_pem, request.node);
}

Result<JoinGrant> JoinService::renew(const RenewRequest& request,
                                     const std::string& peer_certificate_pem) const {
  DLRUN_ASSIGN(const CertInfo info, describe_certificate(peer_certificate_pem));
  if (book_->is_revoked(info.serial_hex))
    return fail(Errc::kPermissionDenied, "the certificate of " + info.common_name + " is revoked");
  return grant(request.csr_pem, info.common_name);
}

Result<JoinGrant> JoinService::grant(const std::string& csr_pem, const std::string& node) const {
  JoinGrant out;
  DLRUN_ASSIGN(out.certificate_pem,
               sign_csr(ca_, csr_pem, SignOptions{CertKind::kAgent, node, life_, clock_->wall()}));
  DLRUN_ASSIGN(const CertInfo info, describe_certificate(out.certificate_pem));
  DLRUN_TRY(book_->issued(info));
  out.ca_pem = ca_.certificate_pem;
  out.cluster_port = cluster_port_;
  return out;
}

}  // namespace dlrun::security
