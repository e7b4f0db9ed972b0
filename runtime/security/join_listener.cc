#include "runtime/security/join_listener.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/security/openssl_raii.h"

namespace dlrun::security {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using nlohmann::json;

constexpr auto kConnectionLife = std::chrono::seconds(10);
constexpr std::uint64_t kBodyBytesMax = 64 * 1024;
constexpr std::uint32_t kHeaderBytesMax = 8 * 1024;

std::string text_of(const json& body, const char* key) {
  const auto it = body.find(key);
  return it != body.end() && it->is_string() ? it->get<std::string>() : std::string();
}

struct Answer {
  unsigned status = 200;
  json body;
};

Answer answer_of(const Result<JoinGrant>& grant) {
  if (grant)
    return {200,
            {{"certificate", grant->certificate_pem},
             {"ca", grant->ca_pem},
             {"cluster_port", grant->cluster_port}}};
  const Error& error = grant.error();
  const unsigned status = error.code == Errc::kPermissionDenied  ? 403
                          : error.code == Errc::kInvalidArgument ? 400
                                                                 : 500;
  return {status, {{"code", std::string(errc_name(error.code))}, {"detail", error.context}}};
}

/// One connection: handshake, one request, one answer. Owns itself through the handlers' shared
/// pointers.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, asio::ssl::context& context, const JoinService* service,
          std::shared_ptr<int> counted)
      : stream_(beast::tcp_stream(std::move(socket)), context),
        service_(service),
        counted_(std::move(counted)) {
    parser_.body_limit(kBodyBytesMax);
    parser_.header_limit(kHeaderBytesMax);
  }

  void run() {
    beast::get_lowest_layer(stream_).expires_after(kConnectionLife);
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [self = shared_from_this()](error_code ec) {
                              if (!ec) self->read();
                            });
  }

 private:
  void read() {
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](error_code ec, std::size_t) {
                       if (ec == http::error::body_limit || ec == http::error::header_limit)
                         return self->write({413, {{"detail", "too large"}}});
                       if (!ec) self->write(self->answer());
                     });
  }

  Answer answer() {
    const auto& request = parser_.get();
    const bool join = request.target() == "/api/v1/join";
    if (request.method() != http::verb::post || (!join && request.target() != "/api/v1/renew"))
      return {404,
              {{"code", "kNotFound"},
               {"detail", "this port answers POST /api/v1/join and /api/v1/renew"}}};
    const json body = json::parse(request.body(), nullptr, false);
    if (!body.is_object())
      return answer_of(fail(Errc::kInvalidArgument, "the body is not a JSON object"));
    if (join)
      return answer_of(
          service_->join({text_of(body, "token"), text_of(body, "node"), text_of(body, "csr")}));
    const CertPtr peer(SSL_get1_peer_certificate(stream_.native_handle()));
    if (!peer)
      return answer_of(fail(Errc::kPermissionDenied, "a renewal wants the present certificate"));
    const BioPtr bio(BIO_new(BIO_s_mem()));
    char* data = nullptr;
    if (!bio || PEM_write_bio_X509(bio.get(), peer.get()) != 1)
      return answer_of(fail(Errc::kInternal, "cannot write the peer's certificate"));
    const long n = BIO_get_mem_data(bio.get(), &data);
    return answer_of(
        service_->renew({text_of(body, "csr")}, std::string(data, static_cast<std::size_t>(n))));
  }

  void write(const Answer& answer) {
    response_.version(11);
    response_.result(answer.status);
    response_.set(http::field::content_type, "application/json");
    response_.set(http::field::connection, "close");
    response_.body() = answer.body.dump(-1, ' ', false, json::error_handler_t::replace);
    response_.prepare_payload();
    http::async_write(stream_, response_, [self = shared_from_this()](error_code ec, std::size_t) {
      if (!ec) self->stream_.async_shutdown([self](error_code) {});
    });
  }

  beast::ssl_stream<beast::tcp_stream> stream_;
  beast::flat_buffer buffer_{kBodyBytesMax + kHeaderBytesMax};
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> response_;
  const JoinService* service_;
  std::shared_ptr<int> counted_;  ///< its use count is the number of open connections
};

Status load(SSL_CTX* context, const CredentialFiles& files) {
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate_path.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, files.key_path.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail_openssl(Errc::kPermissionDenied, "load the coordinator's certificate");
  return {};
}

}  // namespace

struct JoinListener::Impl {
  explicit Impl(const JoinService* s) : service(s) {}

  void accept() {
    acceptor.async_accept([this](error_code ec, tcp::socket socket) {
      if (ec == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (ec) {  // e.g. no descriptors left: try again later, do not spin
        retry.expires_after(std::chrono::milliseconds(200));
        retry.async_wait([this](error_code stopped) {
          if (!stopped) accept();
        });
        return;
      }
      if (counter.use_count() <= kConnectionsMax)
        std::make_shared<Session>(std::move(socket), context, service, counter)->run();
      accept();
    });
  }

  const JoinService* service;
  std::shared_ptr<int> counter = std::make_shared<int>(0);
  asio::ssl::context context{asio::ssl::context::tls_server};
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer retry{io};
  std::thread thread;
};

JoinListener::JoinListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

JoinListener::~JoinListener() {
  impl_->io.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::uint16_t JoinListener::port() const {
  error_code ec;
  return impl_->acceptor.local_endpoint(ec).port();
}

Status JoinListener::reload(const CredentialFiles& files) {
  std::promise<Status> done;
  asio::post(impl_->io, [&] { done.set_value(load(impl_->context.native_handle(), files)); });
  return done.get_future().get();
}

Result<std::unique_ptr<JoinListener>> JoinListener::start(const CredentialFiles& files,
                                                          const std::string& address,
                                                          std::uint16_t port,
                                                          const JoinService* service) {
  auto impl = std::make_unique<Impl>(service);
  error_code ec;
  const auto ip = asio::ip::make_address(address, ec);
  if (ec)
    return fail(Errc::kInvalidArgument, "not a literal address to listen on: \"" + address + "\"");
  SSL_CTX* native = impl->context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  DLRUN_TRY(load(native, files));
  if (SSL_CTX_load_verify_locations(native, files.ca_path.c_str(), nullptr) != 1)
    return fail_openssl(Errc::kPermissionDenied, "load the cluster's CA");
  // A certificate is optional (joining has none yet) but a foreign one is refused.
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  const tcp::endpoint endpoint(ip, port);
  impl->acceptor.open(endpoint.protocol(), ec);
  if (!ec) impl->acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) impl->acceptor.bind(endpoint, ec);
  if (!ec) impl->acceptor.listen(64, ec);
  if (ec)
    return fail_errno("listen on " + address + " port " + std::to_string(port) + " for joining",
                      ec.value());
  impl->accept();
  impl->thread = std::thread([raw = impl.get()] { raw->io.run(); });
  return std::unique_ptr<JoinListener>(new JoinListener(std::move(impl)));
}

}  // namespace dlrun::security
