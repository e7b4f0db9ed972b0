// Strangers at every port of a coordinator get nothing.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/security/credentials.h"
#include "runtime/security/pki.h"
#include "tests/node/process.h"

namespace dlrun::node {
namespace {

int connect_to(const std::string& host_port) {
  const auto colon = host_port.rfind(':');
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval limit{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(host_port.substr(colon + 1))));
  ::inet_pton(AF_INET, host_port.substr(0, colon).c_str(), &to.sin_addr);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

/// Handshakes with what `files` holds ("" = nothing) and asks for a byte: the number of bytes that
/// came.
int bytes_from(const std::string& host_port, const security::CredentialFiles* files) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (files != nullptr) {
    SSL_CTX_use_certificate_chain_file(context, files->certificate_path.c_str());
    SSL_CTX_use_PrivateKey_file(context, files->key_path.c_str(), SSL_FILETYPE_PEM);
  }
  SSL* ssl = SSL_new(context);
  const int fd = connect_to(host_port);
  SSL_set_fd(ssl, fd);
  int got = 0;
  char byte = 'x';
  // TLS 1.3: the client's side of the handshake ends before the server has judged its certificate;
  // the read tells.
  if (SSL_connect(ssl) == 1) {
    SSL_write(ssl, &byte, 1);
    got = SSL_read(ssl, &byte, 1);
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  ERR_clear_error();
  ::close(fd);
  return got;
}

struct Strangers : ::testing::Test {
  void SetUp() override { cluster.start_coordinator(); }
  TestCluster cluster;
};

TEST_F(Strangers, WithoutACertificateNoByteComesFromTheClusterPort) {
  EXPECT_LE(bytes_from(cluster.cluster().at("cluster"), nullptr), 0);
}

TEST_F(Strangers, ForeignCaGetsNoByteFromTheClusterPort) {
  const auto foreign = security::open_or_make_cluster(cluster / "foreign", SystemClock().wall());
  ASSERT_TRUE(foreign);
  EXPECT_LE(bytes_from(cluster.cluster().at("cluster"), &foreign->files), 0);
}

TEST_F(Strangers, RestWantsTheTokenAndTheRightHost) {
  EXPECT_EQ(cluster.http("GET", "/api/v1/jobs", "").status, 200);
  EXPECT_EQ(cluster.http("GET", "/api/v1/jobs", "", "wrong-token-wrong-token").status, 401);
  const int status = cluster.http("GET", "/api/v1/jobs", "", "", "evil.example").status;
  EXPECT_GE(status, 400);
  EXPECT_LT(status, 500);
}

TEST_F(Strangers, PlainBytesAtTheTlsPortsAreDropped) {
  for (const char* port : {"cluster", "join"}) {
    const int fd = connect_to(cluster.cluster().at(port));
    const std::string rubbish(4096, 'A');
    (void)!::send(fd, rubbish.data(), rubbish.size(), MSG_NOSIGNAL);
    char buffer[256];
    std::string got;
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
      got.append(buffer, static_cast<std::size_t>(n));
    ::close(fd);
    EXPECT_LE(got.size(), 16u) << port << ": at most a TLS alert";
  }
  EXPECT_EQ(cluster.http("GET", "/api/v1/jobs", "").status, 200) << "and the coordinator lives";
}

}  // namespace
}  // namespace dlrun::node
