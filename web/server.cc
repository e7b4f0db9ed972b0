#include "web/server.h"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <future>
#include <thread>

#include "web/engine.h"
#include "web/parse.h"

namespace dlrun::web {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kTokenBytesMin = 16;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

struct RestServer::Impl {
  Engine engine;
  std::optional<tcp::acceptor> acceptor;
  std::shared_ptr<void> accept_again;
  std::uint16_t port = 0;
  std::thread thread;
  bool stopped = false;

  void accept() {
    acceptor->async_accept([this](ErrorCode error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor->is_open()) return;
      if (!error) {
        start_connection(engine, std::move(socket));
        return accept();
      }
      // Out of descriptors or memory: leave the rest time to close some.
      accept_again = engine.loop->after(kAcceptPause, [this] { accept(); });
    });
  }

  void run() {
    const auto work = asio::make_work_guard(engine.loop->io);
    for (;;) {
      try {
        engine.loop->io.run();
        return;
      } catch (const std::exception& error) {
        // A request that needed more than there is. Its connection ends at its time limit; the
        // others go on.
        std::fprintf(stderr, "dlrun: REST request failed: %s\n", error.what());
      }
    }
  }
};

RestServer::RestServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<RestServer>> RestServer::start(ServerOptions options,
                                                      cluster::ControlApi& control, LogSource& logs,
                                                      MetricsSource& metrics,
                                                      SecurityAdmin* security) {
  if (options.bearer_token.size() < kTokenBytesMin)
    return fail(Errc::kInvalidArgument,
                fmt::format("the bearer token needs at least {} characters", kTokenBytesMin));
  ErrorCode error;
  const auto address = asio::ip::make_address(options.listen_address, error);
  if (error)
    return fail(Errc::kInvalidArgument,
                fmt::format("REST: '{}' is not an IP address", options.listen_address));
  const bool tls = !options.tls_cert_path.empty();
  if (!tls && !is_loopback(options.listen_address))
    return fail(Errc::kInvalidArgument,
                fmt::format("REST: {} is not a loopback address, so a TLS certificate is needed",
                            options.listen_address));

  auto impl = std::make_unique<Impl>();
  Engine& engine = impl->engine;
  engine.options = std::move(options);
  if (tls) {
    using Tls = asio::ssl::context;
    engine.tls.emplace(Tls::tls_server);
    engine.tls->set_options(
        Tls::default_workarounds | Tls::no_sslv2 | Tls::no_sslv3 | Tls::no_tlsv1 | Tls::no_tlsv1_1,
        error);
    if (!error) engine.tls->use_certificate_chain_file(engine.options.tls_cert_path, error);
    if (error)
      return fail(
          Errc::kInvalidArgument,
          fmt::format("REST certificate {}: {}", engine.options.tls_cert_path, error.message()));
    engine.tls->use_private_key_file(engine.options.tls_key_path, Tls::pem, error);
    if (error)
      return fail(Errc::kInvalidArgument,
                  fmt::format("REST key {}: {}", engine.options.tls_key_path, error.message()));
  }

  const tcp::endpoint endpoint(address, engine.options.port);
  impl->acceptor.emplace(engine.loop->io);
  impl->acceptor->open(endpoint.protocol(), error);
  if (!error) impl->acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) impl->acceptor->bind(endpoint, error);
  if (!error) impl->acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    const Errc code = error == asio::error::address_in_use  ? Errc::kAlreadyExists
                      : error == asio::error::access_denied ? Errc::kPermissionDenied
                                                            : Errc::kIo;
    return fail(code,
                fmt::format("REST: listening on {} port {}: {}", engine.options.listen_address,
                            engine.options.port, error.message()));
  }
  impl->port = impl->acceptor->local_endpoint(error).port();

  engine.hub = std::make_shared<Hub>(engine.loop, control);
  engine.handlers = std::make_unique<Handlers>(
      Context{engine.loop, control, logs, engine.hub, engine.options, security}, metrics,
      DLRUN_VERSION_TEXT);
  engine.handlers->set_gauges([&engine] {
    return std::pair<std::uint64_t, std::uint64_t>(engine.connections.size(), engine.streams);
  });
  engine.hub->start();
  impl->accept();
  impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<RestServer>(new RestServer(std::move(impl)));
}

RestServer::~RestServer() { stop(); }

std::uint16_t RestServer::port() const { return impl_->port; }

std::string RestServer::url() const {
  const auto& options = impl_->engine.options;
  const bool v6 = options.listen_address.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", options.tls_cert_path.empty() ? "http" : "https",
                     v6 ? "[" : "", options.listen_address, v6 ? "]" : "", impl_->port);
}

Status RestServer::reload_certificate() {
  Engine& engine = impl_->engine;
  if (!engine.tls || impl_->stopped) return {};
  std::promise<Status> done;
  engine.loop->post([&] {
    ErrorCode error;
    engine.tls->use_certificate_chain_file(engine.options.tls_cert_path, error);
    if (!error)
      engine.tls->use_private_key_file(engine.options.tls_key_path, asio::ssl::context::pem, error);
    done.set_value(
        error ? fail(Errc::kInvalidArgument,
                     "REST certificate " + engine.options.tls_cert_path + ": " + error.message())
              : Status{});
  });
  return done.get_future().get();
}

void RestServer::stop() {
  if (std::exchange(impl_->stopped, true)) return;
  Engine& engine = impl_->engine;
  engine.loop->post([this, &engine] {
    ErrorCode ignored;
    impl_->acceptor->close(ignored);
    impl_->accept_again.reset();
    engine.hub->stop();
    while (!engine.connections.empty()) {
      const auto connection = *engine.connections.begin();
      connection->close();
    }
    engine.loop->io.stop();
  });
  impl_->thread.join();
}

}  // namespace dlrun::web
