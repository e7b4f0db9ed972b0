#include "runtime/security/pki.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/security/credentials.h"
#include "runtime/security/secret.h"
#include "tests/security/temp_folder.h"

namespace dlrun::security {
namespace {

WallTime now() { return SystemClock().wall(); }
WallTime in_days(int days) {
  return WallTime{now().ns + std::int64_t{days} * 86400 * 1'000'000'000};
}

struct Agent {
  std::string key, certificate;
};
Agent make_agent(const PemPair& ca, const std::string& name, CertKind kind = CertKind::kAgent) {
  Agent out;
  out.key = make_key().value();
  out.certificate =
      sign_csr(ca, make_csr(out.key, name).value(), {kind, name, std::chrono::hours(24), now()})
          .value();
  return out;
}

TEST(Pki, SignedCertificatePassesTheCheckOfItsKind) {
  const PemPair ca = make_ca("test", now()).value();
  const Agent agent = make_agent(ca, "node-1");
  EXPECT_TRUE(
      check_credentials(agent.certificate, agent.key, ca.certificate_pem, CertKind::kAgent, now()));
  const CertInfo info = describe_certificate(agent.certificate).value();
  EXPECT_EQ(info.common_name, "node-1");
  EXPECT_EQ(info.serial_hex.size(), 32u);
  EXPECT_FALSE(info.is_ca);
}

TEST(Pki, AgentCertificateCannotPoseAsTheCoordinator) {
  const PemPair ca = make_ca("test", now()).value();
  const Agent agent = make_agent(ca, "coordinator");
  const Status refused = check_credentials(agent.certificate, agent.key, ca.certificate_pem,
                                           CertKind::kCoordinator, now());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kPermissionDenied);
}

TEST(Pki, RefusesForeignCaExpiredCertificateAndStrangeKey) {
  const PemPair ca = make_ca("test", now()).value();
  const PemPair foreign = make_ca("test", now()).value();
  const Agent agent = make_agent(ca, "node-1");
  EXPECT_FALSE(check_credentials(agent.certificate, agent.key, foreign.certificate_pem,
                                 CertKind::kAgent, now()));
  EXPECT_FALSE(check_credentials(agent.certificate, agent.key, ca.certificate_pem, CertKind::kAgent,
                                 in_days(2)));
  EXPECT_FALSE(check_credentials(agent.certificate, make_key().value(), ca.certificate_pem,
                                 CertKind::kAgent, now()));
  EXPECT_FALSE(
      check_credentials("rubbish", agent.key, ca.certificate_pem, CertKind::kAgent, now()));
}

TEST(Pki, RequestForAnotherNameOrWithABrokenSignatureIsRefused) {
  const PemPair ca = make_ca("test", now()).value();
  const std::string key = make_key().value();
  const std::string csr = make_csr(key, "node-1").value();
  EXPECT_EQ(
      sign_csr(ca, csr, {CertKind::kAgent, "node-2", std::chrono::hours(1), now()}).error().code,
      Errc::kInvalidArgument);
  EXPECT_EQ(make_csr(key, "../etc").error().code, Errc::kInvalidArgument);
  EXPECT_EQ(sign_csr(ca, "rubbish", {CertKind::kAgent, "node-1", std::chrono::hours(1), now()})
                .error()
                .code,
            Errc::kInvalidArgument);
}

TEST(Pki, FingerprintIsOfTheCaOnly) {
  const PemPair ca = make_ca("test", now()).value();
  const std::string fingerprint = ca_fingerprint(ca.certificate_pem).value();
  EXPECT_EQ(fingerprint.rfind("sha256:", 0), 0u);
  EXPECT_EQ(fingerprint.size(), 7u + 64u);
  EXPECT_NE(fingerprint, ca_fingerprint(make_ca("test", now()).value().certificate_pem).value());
  EXPECT_FALSE(ca_fingerprint(make_agent(ca, "node-1").certificate));
}

TEST(Credentials, FirstStartMakesPrivateFilesAndTheSecondFindsTheSameCa) {
  const TempFolder temp;
  const std::string folder = temp / "tls";
  const CoordinatorCredentials first = open_or_make_cluster(folder, now()).value();
  for (const char* name : {"ca.pem", "ca.key", "node/node.pem", "node/node.key"}) {
    struct stat st {};
    ASSERT_EQ(::stat((folder + "/" + name).c_str(), &st), 0) << name;
    EXPECT_EQ(st.st_mode & 0777, 0600u) << name;
  }
  EXPECT_EQ(open_or_make_cluster(folder, now()).value().ca_fingerprint, first.ca_fingerprint);
}

TEST(Credentials, CoordinatorCertificateIsRenewedBeforeItEnds) {
  const TempFolder temp;
  const std::string folder = temp / "tls";
  ASSERT_TRUE(open_or_make_cluster(folder, now()));
  const std::string before = read_file(folder + "/node/node.pem").value();
  const auto later = open_or_make_cluster(folder, in_days(70));
  ASSERT_TRUE(later) << later.error().to_string();
  EXPECT_NE(read_file(folder + "/node/node.pem").value(), before);
}

TEST(Credentials, KeyThatOthersCanReadIsRefused) {
  const TempFolder temp;
  const std::string folder = temp / "tls";
  ASSERT_TRUE(open_or_make_cluster(folder, now()));
  ::chmod((folder + "/node/node.key").c_str(), 0644);
  EXPECT_EQ(open_or_make_cluster(folder, now()).error().code, Errc::kPermissionDenied);
}

TEST(Credentials, NodeThatNeverJoinedIsToldSo) {
  const TempFolder temp;
  EXPECT_EQ(open_node(temp / "tls", CertKind::kAgent, now()).error().code, Errc::kNotFound);
}

TEST(Credentials, StatementIsAcceptedFromItsKeyOnly) {
  const PemPair ca = make_ca("test", now()).value();
  const Agent agent = make_agent(ca, "node-1");
  const std::string signature = sign_statement(agent.key, "node-1 42").value();
  const auto verified =
      verify_statement(ca.certificate_pem, agent.certificate, "node-1 42", signature, now());
  ASSERT_TRUE(verified) << verified.error().to_string();
  EXPECT_EQ(verified->common_name, "node-1");
  EXPECT_FALSE(
      verify_statement(ca.certificate_pem, agent.certificate, "node-1 43", signature, now()));
  const Agent other = make_agent(ca, "node-2");
  EXPECT_FALSE(
      verify_statement(ca.certificate_pem, other.certificate, "node-1 42", signature, now()));
  EXPECT_FALSE(verify_statement(make_ca("x", now()).value().certificate_pem, agent.certificate,
                                "node-1 42", signature, now()));
}

}  // namespace
}  // namespace dlrun::security
