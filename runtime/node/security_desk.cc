#include "runtime/node/security_desk.h"

#include "runtime/node/cluster_file.h"
#include "runtime/security/join_client.h"
#include "runtime/security/secret.h"

namespace dlrun::node {

Result<std::unique_ptr<SecurityDesk>> SecurityDesk::open(Options options) {
  std::unique_ptr<SecurityDesk> out(new SecurityDesk(std::move(options)));
  const WallTime now = out->options_.clock->wall();
  DLRUN_ASSIGN(out->credentials_,
               security::open_or_make_cluster(out->tls(), now, out->options_.certificate_life));
  DLRUN_ASSIGN(out->book_,
               security::CertificateBook::open(out->options_.folder + "/certificates", now));
  DLRUN_ASSIGN(out->tokens_, security::JoinTokens::open(out->options_.folder + "/join_tokens",
                                                        out->credentials_.ca_fingerprint));
  return out;
}

Status SecurityDesk::verify(const wire::LinkHello& hello) {
  DLRUN_ASSIGN(const security::CertInfo info,
               security::verify_statement(credentials_.ca.certificate_pem, hello.certificate_pem,
                                          wire::link_statement(hello), hello.signature,
                                          options_.clock->wall()));
  if (info.common_name != hello.node.value)
    return fail(Errc::kPermissionDenied,
                "the certificate is for node " + info.common_name + ", not " + hello.node.value);
  if (book_->is_revoked(info.serial_hex))
    return fail(Errc::kPermissionDenied,
                "the certificate of node " + info.common_name + " is revoked");
  return book_->seen(info);
}

bool SecurityDesk::is_member(const NodeId& node) const {
  return book_->is_taken(node.value, options_.clock->wall());
}

Result<std::uint16_t> SecurityDesk::start_joining(const std::string& listen, std::uint16_t port,
                                                  std::uint16_t cluster_port,
                                                  const std::string& advertised) {
  service_ = std::make_unique<security::JoinService>(credentials_.ca, tokens_.get(), book_.get(),
                                                     options_.clock, cluster_port,
                                                     options_.certificate_life);
  DLRUN_ASSIGN(listener_,
               security::JoinListener::start(credentials_.files, listen, port, service_.get()));
  join_address_ = host_port(advertised, listener_->port());
  return listener_->port();
}

std::string SecurityDesk::join_line() const {
  return security::join_line(join_address_, credentials_.ca_fingerprint, join_token_file());
}

Status SecurityDesk::renew_join_token() {
  const std::lock_guard lock(token_file_);
  const WallTime half(options_.clock->wall().ns + join_token_every().count());
  const auto present = security::read_private_file(join_token_file(), 4096);
  if (present && tokens_->check(present->substr(0, present->find('\n')), half)) return {};
  DLRUN_ASSIGN(const std::string token,
               tokens_->issue(options_.join_token_life, options_.clock->wall()));
  return security::write_private_file(join_token_file(), token + "\n");
}

Result<security::CredentialFiles> SecurityDesk::make_rest_certificate(
    const std::vector<std::string>& alt_names) {
  return security::make_server_certificate(tls(), "rest", credentials_.ca, alt_names,
                                           options_.clock->wall(), options_.certificate_life);
}

Result<bool> SecurityDesk::renew_if_due() {
  const WallTime now = options_.clock->wall();
  if (now < credentials_.renew_at) return false;
  DLRUN_ASSIGN(const security::CoordinatorCredentials renewed,
               security::open_or_make_cluster(tls(), now, options_.certificate_life));
  credentials_.renew_at = renewed.renew_at;
  if (listener_) DLRUN_TRY(listener_->reload(credentials_.files));
  return true;
}

Result<web::JoinTokenView> SecurityDesk::issue_join_token(Duration life) {
  web::JoinTokenView out;
  const WallTime now = options_.clock->wall();
  DLRUN_ASSIGN(out.token, tokens_->issue(life, now));
  out.expires = WallTime{now.ns + life.count()};
  out.join_line = security::join_line(join_address_, credentials_.ca_fingerprint, "FILE");
  return out;
}

std::vector<web::CertificateView> SecurityDesk::certificates() {
  std::vector<web::CertificateView> out;
  for (const auto& e : book_->list())
    out.push_back({e.serial_hex, e.node, e.issued, e.until, e.seen, e.revoked});
  return out;
}

Result<std::vector<std::string>> SecurityDesk::revoke(const std::string& node) {
  DLRUN_ASSIGN(std::vector<std::string> serials, book_->revoke(node, options_.clock->wall()));
  // Whoever has seen a token could come back with it.
  DLRUN_TRY(tokens_->clear());
  DLRUN_TRY(renew_join_token());
  options_.cut(NodeId(node), "the certificate of node " + node + " is revoked");
  return serials;
}

}  // namespace dlrun::node
