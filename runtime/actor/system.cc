#include "runtime/actor/system.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/manager.hpp>

#include "runtime/actor/envelope.h"
#include "runtime/actor/tls_errors.h"
#include "runtime/security/secret.h"

namespace dlrun::actor {
namespace {

struct Config : caf::actor_system_config {
  explicit Config(const SystemOptions& options) {
    add_message_types<caf::id_block::dlrun_actor>();
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", options.threads);
    set("middleman.workers", std::size_t{0});
    set("middleman.heartbeat-interval", caf::timespan(options.heartbeat));
    set("middleman.connection-timeout", caf::timespan(options.connection_timeout));
    if (options.credentials) {
      openssl_certificate = options.credentials->certificate_path;
      openssl_key = options.credentials->key_path;
      openssl_cafile = options.credentials->ca_path;
      load<caf::io::middleman>();
      load<caf::openssl::manager>();
    }
  }
};

Status check(const SystemOptions& options, WallTime now) {
  DLRUN_ASSIGN(const std::string certificate,
               security::read_private_file(options.credentials->certificate_path));
  DLRUN_ASSIGN(const std::string key, security::read_private_file(options.credentials->key_path));
  DLRUN_ASSIGN(const std::string ca, security::read_private_file(options.credentials->ca_path));
  return security::check_credentials(certificate, key, ca, options.kind, now);
}

}  // namespace

struct System::Impl {
  explicit Impl(const SystemOptions& options) : config(options), system(config) {}
  Config config;
  caf::actor_system system;
};

System::System(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
System::~System() = default;
caf::actor_system& System::get() { return impl_->system; }

Result<std::unique_ptr<System>> System::start(const SystemOptions& options, WallTime now) {
  if (options.credentials)
    if (Status ok = check(options, now); !ok) return fail_as("not starting without mutual TLS", ok);
  if (options.credentials) DLRUN_TRY(keep_tls_errors_apart());
  try {
    return std::unique_ptr<System>(new System(std::make_unique<Impl>(options)));
  } catch (const std::exception& e) {
    return fail(Errc::kInternal, std::string("actor system: ") + e.what());
  }
}

}  // namespace dlrun::actor
