#pragma once
/// runtime/security/pki.h: the cluster's own certificate authority, as pure functions over PEM
/// texts. Keys are EC P-256; certificates X.509 v3 with SHA-256. What a certificate may do is in
/// its extended key usage: only the coordinator's is a server's, so that an agent's key can never
/// pose as the coordinator; the node's name is in the CN.
/// Errors: kInvalidArgument (not a PEM of that kind, a bad name), kPermissionDenied (not signed by
/// this CA, expired, wrong purpose, key and certificate do not belong together). No exceptions;
/// OpenSSL's text is in the context.
/// Threads: plain functions, safe from any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::security {

struct PemPair {
  std::string certificate_pem;
  std::string key_pem;  ///< PKCS#8, not encrypted: the file's mode protects it
};

enum class CertKind : std::uint8_t { kCoordinator = 0, kAgent = 1 };

struct CertInfo {
  std::string common_name;
  std::string serial_hex;   ///< lower case, what the revocation list holds
  std::string fingerprint;  ///< "sha256:<64 hex digits>" of the DER form
  WallTime not_before;
  WallTime not_after;
  bool is_ca = false;
};

/// A self-signed CA valid for 20 years from an hour before `now`.
Result<PemPair> make_ca(std::string_view cluster_name, WallTime now);
Result<std::string> make_key();
/// A signing request (PKCS#10) for `common_name`, signed with `key_pem`.
Result<std::string> make_csr(const std::string& key_pem, const std::string& common_name);

/// A certificate counts from so long before it was made: clocks differ.
inline constexpr Duration kBackdate = std::chrono::minutes(5);

struct SignOptions {
  CertKind kind = CertKind::kAgent;
  std::string common_name;  ///< decides; the request's own subject is only compared with it
  Duration valid_for{};     ///< from kBackdate before `now`
  WallTime now;
  /// "DNS:name", "IP:address": for servers that people's tools reach by name
  std::vector<std::string> alt_names;
};
/// Checks the request's signature and that it asks for `common_name`. Serial: 128 random bits.
Result<std::string> sign_csr(const PemPair& ca, const std::string& csr_pem,
                             const SignOptions& options);

Result<CertInfo> describe_certificate(const std::string& certificate_pem);
/// The fingerprint of a CA certificate, as the join line carries it. kInvalidArgument when it is
/// not a CA's.
Result<std::string> ca_fingerprint(const std::string& ca_pem);

/// What a daemon checks before it opens a socket: all three parse, the key belongs to the
/// certificate, the certificate is signed by this CA, valid at `now` and of `kind`.
Status check_credentials(const std::string& certificate_pem, const std::string& key_pem,
                         const std::string& ca_pem, CertKind kind, WallTime now);

/// [A-Za-z0-9._-]{1,64}, as NodeId.
bool is_node_name(std::string_view name) noexcept;

}  // namespace dlrun::security
