#pragma once
/// runtime/security/join_listener.h: the TLS port where machines join: POST /api/v1/join (a token)
/// and /api/v1/renew (the caller's certificate). Anything else is 404. JSON in, JSON out:
/// {"token","node","csr"} -> {"certificate","ca", "cluster_port"}, or {"code","detail"} with 400,
/// 403 or 500.
/// Bounds: kConnectionsMax, body 64 KiB, header 8 KiB, 10 s per connection, one request each.
/// Threads: one of its own; start and stop from the owner's.

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/security/credentials.h"
#include "runtime/security/join_service.h"

namespace dlrun::security {

class JoinListener {
 public:
  static constexpr int kConnectionsMax = 64;
  /// Listens on literal `address` (port 0 = any free). Borrows `service`.
  static Result<std::unique_ptr<JoinListener>> start(const CredentialFiles& files,
                                                     const std::string& address, std::uint16_t port,
                                                     const JoinService* service);
  /// Closes the port and every connection, joins the thread.
  ~JoinListener();
  JoinListener(const JoinListener&) = delete;
  JoinListener& operator=(const JoinListener&) = delete;
  std::uint16_t port() const;
  /// From the next connection on with the certificate that lies in `files` now.
  Status reload(const CredentialFiles& files);

 private:
  struct Impl;
  explicit JoinListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::security
