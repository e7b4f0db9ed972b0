#include <gtest/gtest.h>

#include "runtime/security/join_client.h"
#include "runtime/security/join_listener.h"
#include "runtime/security/secret.h"
#include "tests/security/temp_folder.h"

namespace dlrun::security {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

struct JoinTest : ::testing::Test {
  void SetUp() override {
    cluster = open_or_make_cluster(temp / "coordinator", clock.wall()).value();
    tokens = JoinTokens::open(temp / "tokens", cluster.ca_fingerprint).value();
    book = CertificateBook::open(temp / "certificates", clock.wall()).value();
    service = std::make_unique<JoinService>(cluster.ca, tokens.get(), book.get(), &clock, 4711);
    auto started = JoinListener::start(cluster.files, "127.0.0.1", 0, service.get());
    ASSERT_TRUE(started) << started.error().to_string();
    listener = std::move(*started);
    target = {"127.0.0.1", listener->port(), cluster.ca_fingerprint, seconds(10)};
  }

  TempFolder temp;
  SystemClock clock;
  CoordinatorCredentials cluster;
  std::unique_ptr<JoinTokens> tokens;
  std::unique_ptr<CertificateBook> book;
  std::unique_ptr<JoinService> service;
  std::unique_ptr<JoinListener> listener;
  JoinTarget target;
};

TEST_F(JoinTest, RightTokenGetsACertificateThatChecks) {
  const std::string token = tokens->issue(minutes(5), clock.wall()).value();
  const auto joined = join_cluster(target, token, "node-1", temp / "agent", clock.wall());
  ASSERT_TRUE(joined) << joined.error().to_string();
  EXPECT_EQ(*joined, 4711);
  const auto node = open_node(temp / "agent", CertKind::kAgent, clock.wall());
  ASSERT_TRUE(node) << node.error().to_string();
  EXPECT_EQ(node->info.common_name, "node-1");
  EXPECT_GT(node->renew_at, clock.wall());
  EXPECT_LT(node->renew_at, node->info.not_after);
}

TEST_F(JoinTest, WrongOrExpiredTokenGetsNothing) {
  EXPECT_EQ(join_cluster(target, "dlj-00", "node-1", temp / "agent", clock.wall()).error().code,
            Errc::kPermissionDenied);
  const std::string expired = tokens->issue(Duration(1), WallTime{clock.wall().ns - 1000}).value();
  EXPECT_EQ(join_cluster(target, expired, "node-1", temp / "agent", clock.wall()).error().code,
            Errc::kPermissionDenied);
  EXPECT_EQ(open_node(temp / "agent", CertKind::kAgent, clock.wall()).error().code,
            Errc::kNotFound);
}

TEST_F(JoinTest, WrongFingerprintSendsNothing) {
  const std::string token = tokens->issue(minutes(5), clock.wall()).value();
  target.ca_fingerprint =
      ca_fingerprint(make_ca("other", clock.wall()).value().certificate_pem).value();
  const auto refused = join_cluster(target, token, "node-1", temp / "agent", clock.wall());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kPermissionDenied);
  EXPECT_NE(refused.error().context.find("fingerprint"), std::string::npos)
      << refused.error().context;
}

TEST_F(JoinTest, RenewalKeepsTheNameAndARevokedCertificateIsRefused) {
  const std::string token = tokens->issue(minutes(5), clock.wall()).value();
  ASSERT_TRUE(join_cluster(target, token, "node-1", temp / "agent", clock.wall()));
  const auto before = open_node(temp / "agent", CertKind::kAgent, clock.wall()).value();
  const auto renewed = renew_certificate(target, temp / "agent", clock.wall());
  ASSERT_TRUE(renewed) << renewed.error().to_string();
  const auto after = open_node(temp / "agent", CertKind::kAgent, clock.wall()).value();
  EXPECT_EQ(after.info.common_name, "node-1");
  EXPECT_NE(after.info.serial_hex, before.info.serial_hex);
  EXPECT_EQ(book->list().size(), 2u);
  ASSERT_TRUE(book->revoke("node-1", clock.wall()));
  EXPECT_EQ(renew_certificate(target, temp / "agent", clock.wall()).error().code,
            Errc::kPermissionDenied);
}

TEST_F(JoinTest, ForeignCertificateIsRefusedInTheHandshake) {
  const PemPair foreign = make_ca("foreign", clock.wall()).value();
  const std::string key = make_key().value();
  const std::string certificate = sign_csr(foreign, make_csr(key, "node-1").value(),
                                           {CertKind::kAgent, "node-1", minutes(60), clock.wall()})
                                      .value();
  ASSERT_TRUE(store_node(temp / "agent", key, certificate, foreign.certificate_pem));
  EXPECT_FALSE(renew_certificate(target, temp / "agent", clock.wall()));
}

TEST_F(JoinTest, NobodyListeningIsUnavailable) {
  listener.reset();
  EXPECT_EQ(join_cluster(target, "dlj-00", "node-1", temp / "agent", clock.wall()).error().code,
            Errc::kUnavailable);
}

TEST_F(JoinTest, CoordinatorsNameIsNotForAgents) {
  const std::string token = tokens->issue(minutes(5), clock.wall()).value();
  EXPECT_EQ(join_cluster(target, token, "coordinator", temp / "agent", clock.wall()).error().code,
            Errc::kInvalidArgument);
}

TEST(ParseHostPort, TakesNamesAndBracketedAddresses) {
  EXPECT_EQ(parse_host_port("host:12")->host, "host");
  EXPECT_EQ(parse_host_port("[::1]:12")->host, "::1");
  for (const char* bad : {"host", "host:", "host:0", "host:70000", ":12", "::1:12", "host:12x"})
    EXPECT_FALSE(parse_host_port(bad)) << bad;
}

TEST_F(JoinTest, ATokenDoesNotTakeTheNameOfANodeThatUsesIt) {
  const std::string token = tokens->issue(minutes(5), clock.wall()).value();
  ASSERT_TRUE(join_cluster(target, token, "node-1", temp / "agent", clock.wall()));
  // Handed out and never used: an answer that was lost must not lock the machine out.
  ASSERT_TRUE(join_cluster(target, token, "node-1", temp / "agent", clock.wall()));
  const auto own = open_node(temp / "agent", CertKind::kAgent, clock.wall()).value();
  ASSERT_TRUE(book->seen(own.info));
  const auto refused = join_cluster(target, token, "node-1", temp / "thief", clock.wall());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kPermissionDenied);
  EXPECT_NE(refused.error().context.find("dlrun revoke node-1"), std::string::npos)
      << refused.error().context;
  ASSERT_TRUE(book->revoke("node-1", clock.wall()));
  EXPECT_TRUE(join_cluster(target, token, "node-1", temp / "again", clock.wall()));
}

TEST_F(JoinTest, TheListenerTakesARenewedCertificateWithoutAPause) {
  const std::string before = read_file(cluster.files.certificate_path).value();
  const auto renewed =
      open_or_make_cluster(temp / "coordinator", WallTime{cluster.renew_at.ns + 1}).value();
  ASSERT_NE(read_file(cluster.files.certificate_path).value(), before);
  EXPECT_GT(renewed.renew_at, cluster.renew_at);
  ASSERT_TRUE(listener->reload(renewed.files));
  const std::string token = tokens->issue(minutes(5), clock.wall()).value();
  // The renewed one begins near the end of the first: at today's clock it does not count, so a
  // client that sees it refuses.
  EXPECT_EQ(join_cluster(target, token, "node-1", temp / "agent", clock.wall()).error().code,
            Errc::kPermissionDenied);
}

}  // namespace
}  // namespace dlrun::security
