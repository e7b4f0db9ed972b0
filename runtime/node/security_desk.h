#pragma once
/// runtime/node/security_desk.h: who belongs to the cluster, as the coordinator sees it: its
/// certificates, the port where machines join, the tokens they need, the book of what was given
/// out, and what an operator does about them over REST. Files in the data folder: tls/, join.token
/// (always a good one), join_tokens, certificates (runtime/security).
/// Errors: as runtime/security.
/// Threads: `verify` from the hub's, SecurityAdmin from REST's, the rest from the owner's.

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/certificate_book.h"
#include "runtime/security/credentials.h"
#include "runtime/security/join_listener.h"
#include "runtime/security/join_service.h"
#include "runtime/wire/link_codec.h"
#include "web/security_admin.h"

namespace dlrun::node {

class SecurityDesk final : public web::SecurityAdmin {
 public:
  struct Options {
    std::string folder;  ///< the data folder
    Duration join_token_life = std::chrono::hours(1);
    Duration certificate_life = security::kCertificateLife;
    const Clock* clock = nullptr;  ///< outlives the desk
    /// Takes a node's connections away. From REST's thread.
    std::function<void(const NodeId&, const std::string& reason)> cut;
  };
  /// Makes the CA and the coordinator's certificate at the first start.
  static Result<std::unique_ptr<SecurityDesk>> open(Options options);

  const security::CoordinatorCredentials& credentials() const { return credentials_; }
  /// The peer holds the key of an agent's certificate of this cluster, for this name, and it was
  /// not revoked.
  Status verify(const wire::LinkHello& hello);
  /// Whether the node has a certificate that counts, and has shown it.
  bool is_member(const NodeId& node) const;

  /// Opens the join port; `advertised`: the host that other machines are told. Returns the port.
  Result<std::uint16_t> start_joining(const std::string& listen, std::uint16_t port,
                                      std::uint16_t cluster_port, const std::string& advertised);
  void stop_joining() { listener_.reset(); }
  std::string join_address() const { return join_address_; }  ///< HOST:PORT
  std::string join_token_file() const { return options_.folder + "/join.token"; }
  std::string join_line() const;
  /// A new token in join.token, unless the one there has half of its life left.
  Status renew_join_token();
  /// While the old one still has half of its life, so that the file always holds a good one.
  Duration join_token_every() const { return options_.join_token_life / 2; }

  /// A certificate for REST, for the coordinator's own life.
  Result<security::CredentialFiles> make_rest_certificate(
      const std::vector<std::string>& alt_names);
  /// When the coordinator's certificate wants renewal, renews it: true then, and the join port uses
  /// it.
  Result<bool> renew_if_due();

  Result<web::JoinTokenView> issue_join_token(Duration life) override;
  std::vector<web::CertificateView> certificates() override;
  Result<std::vector<std::string>> revoke(const std::string& node) override;

 private:
  explicit SecurityDesk(Options options) : options_(std::move(options)) {}
  std::string tls() const { return options_.folder + "/tls"; }

  const Options options_;
  security::CoordinatorCredentials credentials_;
  std::unique_ptr<security::CertificateBook> book_;
  std::unique_ptr<security::JoinTokens> tokens_;
  std::unique_ptr<security::JoinService> service_;
  std::unique_ptr<security::JoinListener> listener_;
  std::string join_address_;
  std::mutex token_file_;  ///< one writer at a time
};

}  // namespace dlrun::node
