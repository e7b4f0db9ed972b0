#include "runtime/security/certificate_book.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/security/secret.h"
#include "tests/security/temp_folder.h"

namespace dlrun::security {
namespace {

constexpr WallTime kNow{1'000'000'000'000};
WallTime in(std::int64_t seconds) { return WallTime{kNow.ns + seconds * 1'000'000'000}; }

CertInfo certificate(const std::string& serial, const std::string& node,
                     std::int64_t life_s = 100) {
  CertInfo info;
  info.serial_hex = serial;
  info.common_name = node;
  info.not_before = kNow;
  info.not_after = in(life_s);
  return info;
}

struct CertificateBookTest : ::testing::Test {
  void reopen(WallTime now = kNow) {
    book.reset();
    auto opened = CertificateBook::open(temp / "certificates", now);
    ASSERT_TRUE(opened) << opened.error().to_string();
    book = std::move(*opened);
  }
  void SetUp() override { reopen(); }
  TempFolder temp;
  std::unique_ptr<CertificateBook> book;
};

TEST_F(CertificateBookTest, WhatWasRevokedStaysRevokedAcrossRestarts) {
  ASSERT_TRUE(book->issued(certificate("ab01", "n1")));
  ASSERT_TRUE(book->issued(certificate("ab02", "n1")));
  ASSERT_TRUE(book->issued(certificate("cd01", "n2")));
  EXPECT_EQ(book->revoke("n1", kNow).value(), (std::vector<std::string>{"ab01", "ab02"}));
  EXPECT_EQ(book->revoke("n1", in(1)).value(), (std::vector<std::string>{"ab01", "ab02"}))
      << "again: the same";
  EXPECT_EQ(book->revoke("n9", kNow).error().code, Errc::kNotFound);
  for (int i = 0; i < 2; ++i, reopen()) {
    EXPECT_TRUE(book->is_revoked("ab01"));
    EXPECT_TRUE(book->is_revoked("ab02"));
    EXPECT_FALSE(book->is_revoked("cd01"));
    EXPECT_FALSE(book->is_revoked("ffff"));
    ASSERT_EQ(book->list().size(), 3u);
    EXPECT_EQ(book->list()[0].revoked, kNow) << "the first time counts";
  }
}

TEST_F(CertificateBookTest, ANameIsTakenFromItsFirstUseUntilItEndsOrIsRevoked) {
  const CertInfo first = certificate("ab01", "n1");
  ASSERT_TRUE(book->issued(first));
  EXPECT_FALSE(book->is_taken("n1", kNow));
  ASSERT_TRUE(book->seen(first));
  ASSERT_TRUE(book->seen(first));
  reopen();
  EXPECT_TRUE(book->is_taken("n1", kNow));
  EXPECT_FALSE(book->is_taken("n2", kNow));
  EXPECT_FALSE(book->is_taken("n1", in(100)));
  ASSERT_TRUE(book->revoke("n1", kNow));
  EXPECT_FALSE(book->is_taken("n1", kNow));
}

TEST_F(CertificateBookTest, OneThatTheBookDoesNotKnowIsEnteredWhenItIsShown) {
  ASSERT_TRUE(book->seen(certificate("ab01", "n1")));
  EXPECT_EQ(book->revoke("n1", kNow).value().size(), 1u);
}

TEST_F(CertificateBookTest, WhatHasEndedIsForgottenAtTheNextStart) {
  ASSERT_TRUE(book->issued(certificate("ab01", "n1", 10)));
  ASSERT_TRUE(book->issued(certificate("ab02", "n1", 1000)));
  reopen(in(11));
  ASSERT_EQ(book->list().size(), 1u);
  EXPECT_EQ(book->list()[0].serial_hex, "ab02");
}

TEST_F(CertificateBookTest, AHalfWrittenLastLineIsLeftOutAndADamagedOneIsNamed) {
  ASSERT_TRUE(book->issued(certificate("ab01", "n1")));
  book.reset();
  std::ofstream(temp / "certificates", std::ios::app) << "revoked ab01 n1 10";
  reopen();
  EXPECT_FALSE(book->is_revoked("ab01"));
  book.reset();
  std::ofstream(temp / "certificates", std::ios::app) << "what is this\n";
  const auto damaged = CertificateBook::open(temp / "certificates", kNow);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Errc::kCorrupt);
  EXPECT_NE(damaged.error().context.find("line 2"), std::string::npos) << damaged.error().context;
}

}  // namespace
}  // namespace dlrun::security
