#pragma once
/// runtime/security/join_client.h: the new machine's side of joining. One TLS connection: the
/// coordinator's chain must end in the CA whose fingerprint stands in the join line, else nothing
/// is sent; then POST /api/v1/join.
/// Errors: kUnavailable (no connection), kDeadlineExceeded, kPermissionDenied (fingerprint, token),
/// kCorrupt (the answer).
/// Threads: blocks the caller up to `timeout`.

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/join_service.h"

namespace dlrun::security {

struct JoinTarget {
  std::string host;  ///< name or literal address, IPv6 without brackets
  std::uint16_t port = 0;
  std::string ca_fingerprint;  ///< "sha256:<hex>"
  Duration timeout = std::chrono::seconds(10);
};

/// "host:port", "[::1]:port". kInvalidArgument.
Result<JoinTarget> parse_host_port(const std::string& text);

/// Makes a key, joins, and stores key, certificate and CA in `folder`. Returns the port where
/// agents register.
Result<std::uint16_t> join_cluster(const JoinTarget& target, const std::string& token,
                                   const std::string& node, const std::string& folder,
                                   WallTime now);
/// A new certificate for the one in `folder`, which is replaced.
Result<std::uint16_t> renew_certificate(const JoinTarget& target, const std::string& folder,
                                        WallTime now);

/// The line that a coordinator prints for the next machine.
std::string join_line(const std::string& host_port, const std::string& ca_fingerprint,
                      const std::string& token_file);

}  // namespace dlrun::security
