#pragma once
/// runtime/security/credentials.h: the files behind a daemon's identity, in one 0700 folder.
///   node -> node.a or node.b   ca.pem node.pem node.key: one set, made whole, then switched to
///   ca.pem ca.key              the coordinator's: the cluster's CA
/// node.pem holds the certificate and then the CA's, so that a client can pin the CA by its
/// fingerprint. `node` is a link: one rename moves it from the old set to the new one, so that a
/// crash at any point of a renewal leaves a key with its own certificate. The set before stays
/// until the next renewal, for who reads it just now.
/// Errors: kNotFound (an agent that never joined), kPermissionDenied (files open to others,
/// expired, foreign), kIo.
/// Threads: call from one thread at a time per folder.

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/pki.h"

namespace dlrun::security {

struct CredentialFiles {
  std::string ca_path;
  std::string certificate_path;
  std::string key_path;
  static CredentialFiles in(const std::string& folder);
};

struct CoordinatorCredentials {
  PemPair ca;
  CredentialFiles files;
  std::string ca_fingerprint;
  WallTime renew_at;  ///< of the coordinator's certificate: call again
};

inline constexpr Duration kCertificateLife = std::chrono::hours(24 * 90);

/// First call: makes the CA and the coordinator's certificate. Later: loads, checks, and renews the
/// coordinator's certificate (for `life`) when less than a third of its life is left. A crash in
/// between leaves nothing half made.
Result<CoordinatorCredentials> open_or_make_cluster(const std::string& folder, WallTime now,
                                                    Duration life = kCertificateLife);

/// A certificate for a TLS server that people's tools reach by name or address (REST), made anew:
/// <name>.pem, <name>.key.
Result<CredentialFiles> make_server_certificate(const std::string& folder, const std::string& name,
                                                const PemPair& ca,
                                                const std::vector<std::string>& alt_names,
                                                WallTime now, Duration life = kCertificateLife);

struct NodeCredentials {
  CredentialFiles files;
  CertInfo info;
  std::string certificate_pem;  ///< the whole file
  std::string key_pem;
  std::string ca_pem;
  WallTime renew_at;  ///< less than a third of its life is left from then on
};
/// Loads and checks what join_cluster stored. kNotFound: never joined.
Result<NodeCredentials> open_node(const std::string& folder, CertKind kind, WallTime now);
/// When the certificate wants to be renewed.
WallTime renew_at(const CertInfo& info);
/// Writes a set beside the one in use, syncs it, and switches to it; fails with the old one in use.
Status store_node(const std::string& folder, const std::string& key_pem,
                  const std::string& certificate_pem, const std::string& ca_pem);

/// Proof that the sender of a registration holds the key of its certificate: ECDSA over
/// `statement`, DER.
Result<std::string> sign_statement(const std::string& key_pem, const std::string& statement);
/// The certificate is an agent's of this CA, valid at `now`, and its key made `signature` over
/// `statement`.
Result<CertInfo> verify_statement(const std::string& ca_pem, const std::string& certificate_pem,
                                  const std::string& statement, const std::string& signature,
                                  WallTime now);

}  // namespace dlrun::security
