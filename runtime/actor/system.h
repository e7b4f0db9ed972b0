#pragma once
/// runtime/actor/system.h: a CAF actor system with this project's settings: the sharing scheduler
/// and no extra network workers (no wake-ups while idle, the lowest round trip), our heartbeat,
/// mutual TLS or no network at all.
/// Errors: kPermissionDenied when the credentials do not check: libcaf_openssl would connect
/// anonymously without them, so nothing is opened before they do.
/// Threads: start and destroy on one thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/credentials.h"

namespace caf {
class actor_system;
}

namespace dlrun::actor {

struct SystemOptions {
  /// Absent: no network module is loaded (tests, one process).
  std::optional<security::CredentialFiles> credentials;
  security::CertKind kind = security::CertKind::kAgent;
  std::size_t threads = 2;
  Duration heartbeat = std::chrono::seconds(2);  ///< of the connection, not of the node's lease
  Duration connection_timeout = std::chrono::seconds(8);  ///< a silent peer's connection is closed
};

class System {
 public:
  /// `now`: for the validity of the certificate.
  static Result<std::unique_ptr<System>> start(const SystemOptions& options, WallTime now);
  /// Waits for the actors to end: tell them to quit first.
  ~System();
  System(const System&) = delete;
  System& operator=(const System&) = delete;
  caf::actor_system& get();

 private:
  struct Impl;
  explicit System(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::actor
