#include "runtime/security/join_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/security/credentials.h"
#include "runtime/security/openssl_raii.h"
#include "runtime/security/secret.h"

namespace dlrun::security {
namespace {

constexpr std::size_t kAnswerBytesMax = 64 * 1024;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

class Deadline {
 public:
  explicit Deadline(Duration timeout) : until_(clock_.now() + timeout) {}
  int left_ms() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until_ - clock_.now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
  }

 private:
  SystemClock clock_;
  TimePoint until_;
};

Status wait_for(int fd, short events, const Deadline& deadline) {
  pollfd p{fd, events, 0};
  for (;;) {
    const int n = ::poll(&p, 1, deadline.left_ms());
    if (n > 0) return {};
    if (n == 0) return fail(Errc::kDeadlineExceeded, "no answer in time");
    if (errno != EINTR) return fail_errno("poll");
  }
}

Result<Socket> connect_tcp(const std::string& host, std::uint16_t port, const Deadline& deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string service = std::to_string(port);
  if (const int rc = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list); rc != 0)
    return fail(Errc::kUnavailable, "cannot resolve " + host + ": " + ::gai_strerror(rc));
  const std::unique_ptr<addrinfo, Freer<::freeaddrinfo>> owner(list);
  Error last{Errc::kUnavailable, "no address of " + host};
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) continue;
    if (::connect(socket.fd(), a->ai_addr, a->ai_addrlen) != 0) {
      int error_number = errno;
      if (error_number == EINPROGRESS) {
        if (Status ok = wait_for(socket.fd(), POLLOUT, deadline); !ok) {
          last = ok.error();
          continue;
        }
        socklen_t n = sizeof error_number;
        ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error_number, &n);
      }
      if (error_number != 0) {
        last = {Errc::kUnavailable, std::generic_category().message(error_number)};
        continue;
      }
    }
    return socket;
  }
  return fail(last.code, "connect to " + host + " port " + service + ": " + last.context);
}

/// What the handshake's verifier is given and what it found.
struct Pin {
  std::string fingerprint;
  std::string problem;
};

int verify_pinned(X509_STORE_CTX* context, void* arg) {
  auto* pin = static_cast<Pin*>(arg);
  X509* leaf = X509_STORE_CTX_get0_cert(context);
  STACK_OF(X509)* chain = X509_STORE_CTX_get0_untrusted(context);
  X509* anchor = nullptr;
  for (int i = 0; leaf != nullptr && i < sk_X509_num(chain); ++i) {
    X509* candidate = sk_X509_value(chain, i);
    if (equal_constant_time(fingerprint_of(candidate), pin->fingerprint)) anchor = candidate;
  }
  if (anchor == nullptr || X509_check_ca(anchor) != 1) {
    pin->problem = "the certificate authority there does not have the fingerprint of the join line";
  } else if (Status ok = verify_with_ca(leaf, anchor, X509_PURPOSE_SSL_SERVER, 0); !ok) {
    pin->problem = ok.error().context;
  } else {
    return 1;
  }
  X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REJECTED);
  return 0;
}

class TlsClient {
 public:
  static Result<std::unique_ptr<TlsClient>> connect(const JoinTarget& target,
                                                    const CredentialFiles* identity) {
    std::unique_ptr<TlsClient> out(new TlsClient(target));
    out->context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!out->context_ || SSL_CTX_set_min_proto_version(out->context_.get(), TLS1_2_VERSION) != 1)
      return fail_openssl(Errc::kInternal, "TLS context");
    SSL_CTX_set_verify(out->context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_cert_verify_callback(out->context_.get(), &verify_pinned, &out->pin_);
    if (identity != nullptr &&
        (SSL_CTX_use_certificate_chain_file(out->context_.get(),
                                            identity->certificate_path.c_str()) != 1 ||
         SSL_CTX_use_PrivateKey_file(out->context_.get(), identity->key_path.c_str(),
                                     SSL_FILETYPE_PEM) != 1))
      return fail_openssl(Errc::kPermissionDenied, "own certificate");
    DLRUN_ASSIGN(out->socket_, connect_tcp(target.host, target.port, out->deadline_));
    out->ssl_.reset(SSL_new(out->context_.get()));
    if (!out->ssl_ || SSL_set_fd(out->ssl_.get(), out->socket_.fd()) != 1)
      return fail_openssl(Errc::kInternal, "TLS session");
    if (Status ok = out->drive([&] { return SSL_connect(out->ssl_.get()); }); !ok) {
      if (!out->pin_.problem.empty()) return fail(Errc::kPermissionDenied, out->pin_.problem);
      return fail_as("TLS handshake with " + target.host, ok);
    }
    return out;
  }

  Status write(const std::string& text) {
    return drive([&] { return SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())); });
  }

  /// Until the peer closes: requests carry "Connection: close".
  Result<std::string> read_all() {
    std::string out;
    char buffer[4096];
    for (;;) {
      int n = 0;
      Status ok = drive([&] { return n = SSL_read(ssl_.get(), buffer, sizeof buffer); });
      if (!ok && ok.error().code == Errc::kEndOfData) return out;
      if (!ok) return tl::unexpected(ok.error());
      out.append(buffer, static_cast<std::size_t>(n));
      if (out.size() > kAnswerBytesMax) return fail(Errc::kCorrupt, "the answer is too long");
    }
  }

 private:
  explicit TlsClient(const JoinTarget& target)
      : deadline_(target.timeout), pin_{target.ca_fingerprint, {}} {}

  template <class F>
  Status drive(F step) {
    for (;;) {
      ERR_clear_error();
      const int rc = step();
      if (rc > 0) return {};
      switch (SSL_get_error(ssl_.get(), rc)) {
        case SSL_ERROR_WANT_READ:
          DLRUN_TRY(wait_for(socket_.fd(), POLLIN, deadline_));
          break;
        case SSL_ERROR_WANT_WRITE:
          DLRUN_TRY(wait_for(socket_.fd(), POLLOUT, deadline_));
          break;
        case SSL_ERROR_ZERO_RETURN:
          return fail(Errc::kEndOfData, "closed");
        case SSL_ERROR_SYSCALL:
          return fail(Errc::kUnavailable, "the connection broke");
        default:
          return fail_openssl(Errc::kUnavailable, "TLS");
      }
    }
  }

  Deadline deadline_;
  Pin pin_;
  SslCtxPtr context_;
  Socket socket_;
  SslPtr ssl_;
};

Result<JoinGrant> parse_answer(const std::string& answer) {
  const std::size_t body_at = answer.find("\r\n\r\n");
  if (answer.rfind("HTTP/1.1 ", 0) != 0 || answer.size() < 12 || body_at == std::string::npos)
    return fail(Errc::kCorrupt, "the answer is not HTTP");
  const nlohmann::json body = nlohmann::json::parse(answer.substr(body_at + 4), nullptr, false);
  if (!body.is_object()) return fail(Errc::kCorrupt, "the answer is not JSON");
  auto text = [&](const char* key) {
    const auto it = body.find(key);
    return it != body.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  if (answer.compare(9, 3, "200") != 0) {
    const std::string status = answer.substr(9, 3);
    const Errc code = status == "403"    ? Errc::kPermissionDenied
                      : status[0] == '4' ? Errc::kInvalidArgument
                                         : Errc::kUnavailable;
    return fail(code, "the coordinator refuses: " + text("detail"));
  }
  JoinGrant grant;
  grant.certificate_pem = text("certificate");
  grant.ca_pem = text("ca");
  const auto port = body.find("cluster_port");
  if (port == body.end() || !port->is_number_unsigned() || port->get<std::uint64_t>() > 65535)
    return fail(Errc::kCorrupt, "the answer has no cluster_port");
  grant.cluster_port = port->get<std::uint16_t>();
  return grant;
}

Result<JoinGrant> post(const JoinTarget& target, const CredentialFiles* identity,
                       const std::string& path, const nlohmann::json& body) {
  DLRUN_ASSIGN(const std::unique_ptr<TlsClient> client, TlsClient::connect(target, identity));
  const std::string text = body.dump();
  DLRUN_TRY(client->write(
      "POST " + path + " HTTP/1.1\r\nHost: dlrun\r\nContent-Type: application/json\r\n" +
      "Connection: close\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text));
  DLRUN_ASSIGN(const std::string answer, client->read_all());
  return parse_answer(answer);
}

Result<std::uint16_t> store_grant(const JoinTarget& target, const JoinGrant& grant,
                                  const std::string& key, const std::string& folder, WallTime now) {
  DLRUN_ASSIGN(const std::string fingerprint, ca_fingerprint(grant.ca_pem));
  if (fingerprint != target.ca_fingerprint)
    return fail(Errc::kPermissionDenied,
                "the answer's CA does not have the fingerprint of the join line");
  DLRUN_TRY(check_credentials(grant.certificate_pem, key, grant.ca_pem, CertKind::kAgent, now));
  DLRUN_TRY(store_node(folder, key, grant.certificate_pem, grant.ca_pem));
  return grant.cluster_port;
}

}  // namespace

Result<JoinTarget> parse_host_port(const std::string& text) {
  JoinTarget out;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return fail(Errc::kInvalidArgument, "\"" + text + "\" is not HOST:PORT");
  out.host = text.substr(0, colon);
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return fail(Errc::kInvalidArgument,
                "write an IPv6 address as [ADDRESS]:PORT, not \"" + text + "\"");
  }
  const char* end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data() + colon + 1, end, out.port);
  if (ec != std::errc() || at != end || out.port == 0 || out.host.empty())
    return fail(Errc::kInvalidArgument,
                "\"" + text + "\" is not HOST:PORT with a port from 1 to 65535");
  return out;
}

Result<std::uint16_t> join_cluster(const JoinTarget& target, const std::string& token,
                                   const std::string& node, const std::string& folder,
                                   WallTime now) {
  DLRUN_ASSIGN(const std::string key, make_key());
  DLRUN_ASSIGN(const std::string csr, make_csr(key, node));
  DLRUN_ASSIGN(const JoinGrant grant, post(target, nullptr, "/api/v1/join",
                                           {{"token", token}, {"node", node}, {"csr", csr}}));
  return store_grant(target, grant, key, folder, now);
}

Result<std::uint16_t> renew_certificate(const JoinTarget& target, const std::string& folder,
                                        WallTime now) {
  DLRUN_ASSIGN(const NodeCredentials current, open_node(folder, CertKind::kAgent, now));
  DLRUN_ASSIGN(const std::string key, make_key());
  DLRUN_ASSIGN(const std::string csr, make_csr(key, current.info.common_name));
  DLRUN_ASSIGN(const JoinGrant grant,
               post(target, &current.files, "/api/v1/renew", {{"csr", csr}}));
  return store_grant(target, grant, key, folder, now);
}

std::string join_line(const std::string& host_port, const std::string& fingerprint,
                      const std::string& token_file) {
  return "dlrun agent --join " + host_port + " --token-file " + token_file + " --ca-fingerprint " +
         fingerprint;
}

}  // namespace dlrun::security
