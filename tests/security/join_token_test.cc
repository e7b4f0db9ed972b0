#include "runtime/security/join_token.h"

#include <gtest/gtest.h>

#include "tests/security/temp_folder.h"

namespace dlrun::security {
namespace {

constexpr WallTime kNow{1'000'000'000'000};
WallTime after(Duration d) { return WallTime{kNow.ns + d.count()}; }
using std::chrono::minutes;

TEST(JoinTokens, TokenOpensUntilItEnds) {
  const TempFolder temp;
  auto tokens = JoinTokens::open(temp / "tokens", "sha256:aa").value();
  const std::string token = tokens->issue(minutes(10), kNow).value();
  EXPECT_TRUE(tokens->check(token, after(minutes(9))));
  EXPECT_EQ(tokens->check(token, after(minutes(10))).error().code, Errc::kPermissionDenied);
  EXPECT_FALSE(tokens->check(token + "0", kNow));
  EXPECT_FALSE(tokens->check("", kNow));
}

TEST(JoinTokens, FileHoldsNoTokenAndBelongsToOneCluster) {
  const TempFolder temp;
  const std::string token =
      JoinTokens::open(temp / "tokens", "sha256:aa").value()->issue(minutes(10), kNow).value();
  EXPECT_EQ(read_private_file(temp / "tokens").value().find(token.substr(4)), std::string::npos);
  EXPECT_TRUE(JoinTokens::open(temp / "tokens", "sha256:aa").value()->check(token, kNow));
  EXPECT_FALSE(JoinTokens::open(temp / "tokens", "sha256:bb").value()->check(token, kNow));
}

TEST(JoinTokens, NumberOfLiveTokensIsBounded) {
  const TempFolder temp;
  auto tokens = JoinTokens::open(temp / "tokens", "sha256:aa").value();
  for (std::size_t i = 0; i < JoinTokens::kTokensMax; ++i)
    ASSERT_TRUE(tokens->issue(minutes(1), kNow));
  EXPECT_EQ(tokens->issue(minutes(1), kNow).error().code, Errc::kOverloaded);
  EXPECT_TRUE(tokens->issue(minutes(1), after(minutes(2)))) << "ended tokens make room";
}

TEST(JoinTokens, DamagedFileNamesTheLine) {
  const TempFolder temp;
  ASSERT_TRUE(write_private_file(temp / "tokens", "zz 12\n"));
  const auto opened = JoinTokens::open(temp / "tokens", "sha256:aa");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kCorrupt);
  EXPECT_NE(opened.error().context.find("line 1"), std::string::npos);
}

}  // namespace
}  // namespace dlrun::security
