#include "runtime/node/security_desk.h"

#include <gtest/gtest.h>

#include "runtime/security/pki.h"
#include "runtime/security/secret.h"
#include "tests/security/temp_folder.h"

namespace dlrun::node {
namespace {

using security::PemPair;

class HandClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::nanoseconds(wall_.ns)); }
  WallTime wall() const override { return wall_; }
  void advance(Duration by) { wall_.ns += by.count(); }

 private:
  WallTime wall_ = SystemClock().wall();
};

struct Desk : ::testing::Test {
  void SetUp() override { open(); }
  void open() {
    desk.reset();
    SecurityDesk::Options options;
    options.folder = temp / "data";
    options.clock = &clock;
    options.certificate_life = std::chrono::hours(30);
    options.cut = [this](const NodeId& node, const std::string&) { cut.push_back(node.value); };
    ASSERT_TRUE(security::make_private_folder(options.folder));
    auto opened = SecurityDesk::open(std::move(options));
    ASSERT_TRUE(opened) << opened.error().to_string();
    desk = std::move(*opened);
  }
  /// A hello of `node` with a certificate for `name` from `ca`.
  wire::LinkHello hello(const PemPair& ca, const std::string& name, const std::string& node) {
    const std::string key = security::make_key().value();
    const std::string csr = security::make_csr(key, name).value();
    wire::LinkHello out{wire::kLinkVersion, NodeId(node), Incarnation(7), "", "", "log key"};
    out.certificate_pem =
        security::sign_csr(ca, csr,
                           {security::CertKind::kAgent, name, std::chrono::hours(1), clock.wall()})
            .value();
    out.signature = security::sign_statement(key, wire::link_statement(out)).value();
    return out;
  }
  const PemPair& ca() const { return desk->credentials().ca; }

  security::TempFolder temp;
  HandClock clock;
  std::unique_ptr<SecurityDesk> desk;
  std::vector<std::string> cut;
};

TEST_F(Desk, LetsInWhoHoldsTheKeyOfACertificateForItsName) {
  EXPECT_TRUE(desk->verify(hello(ca(), "n0", "n0")));
  EXPECT_TRUE(desk->is_member(NodeId("n0")));
}

TEST_F(Desk, RefusesAnotherName) {
  EXPECT_EQ(desk->verify(hello(ca(), "n0", "n1")).error().code, Errc::kPermissionDenied);
  EXPECT_FALSE(desk->is_member(NodeId("n1")));
}

TEST_F(Desk, RefusesAForeignCaAndAForeignSignature) {
  const PemPair foreign = security::make_ca("dlrun cluster", clock.wall()).value();
  EXPECT_EQ(desk->verify(hello(foreign, "n0", "n0")).error().code, Errc::kPermissionDenied);
  wire::LinkHello copied = hello(ca(), "n0", "n0");
  copied.incarnation = Incarnation(8);  // somebody else's hello, said again by another process
  EXPECT_EQ(desk->verify(copied).error().code, Errc::kPermissionDenied);
  EXPECT_TRUE(desk->certificates().empty());
}

TEST_F(Desk, RefusesACertificateThatHasEnded) {
  const wire::LinkHello early = hello(ca(), "n0", "n0");
  clock.advance(std::chrono::hours(2));
  EXPECT_EQ(desk->verify(early).error().code, Errc::kPermissionDenied);
}

TEST_F(Desk, ARevokedNodeIsCutAndStaysOutAfterARestart) {
  const wire::LinkHello node = hello(ca(), "n0", "n0");
  ASSERT_TRUE(desk->verify(node));
  const auto token = desk->issue_join_token(std::chrono::hours(1));
  ASSERT_TRUE(token);
  ASSERT_TRUE(desk->revoke("n0"));
  EXPECT_EQ(cut, std::vector<std::string>{"n0"});
  EXPECT_FALSE(desk->is_member(NodeId("n0")));
  for (int i = 0; i < 2; ++i, open()) {
    const Status refused = desk->verify(node);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().context.find("revoked"), std::string::npos);
  }
  EXPECT_EQ(desk->revoke("n9").error().code, Errc::kNotFound);
}

TEST_F(Desk, TheTokenFileHoldsAGoodOneAndARestartKeepsIt) {
  ASSERT_TRUE(desk->renew_join_token());
  const std::string first = security::read_file(desk->join_token_file()).value();
  open();
  ASSERT_TRUE(desk->renew_join_token());
  EXPECT_EQ(security::read_file(desk->join_token_file()).value(), first);
  clock.advance(std::chrono::minutes(31));
  ASSERT_TRUE(desk->renew_join_token());
  EXPECT_NE(security::read_file(desk->join_token_file()).value(), first);
}

TEST_F(Desk, RenewsTheCoordinatorsCertificateInTime) {
  EXPECT_FALSE(desk->renew_if_due().value());
  clock.advance(std::chrono::hours(21));
  EXPECT_TRUE(desk->renew_if_due().value());
  EXPECT_FALSE(desk->renew_if_due().value());
  EXPECT_GT(desk->credentials().renew_at, clock.wall());
}

}  // namespace
}  // namespace dlrun::node
