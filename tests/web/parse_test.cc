#include "web/parse.h"

#include <gtest/gtest.h>

#include <string>

namespace dlrun::web {
namespace {

TEST(Target, DecodesSegmentsAndParameters) {
  const auto target = parse_target("/api/v1/jobs/j%31?a=b%20c+d&e");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (std::vector<std::string>{"api", "v1", "jobs", "j1"}));
  EXPECT_EQ(target->param("a"), "b c d");
  EXPECT_EQ(target->param("e"), "");
  EXPECT_EQ(target->param("x"), std::nullopt);
}

TEST(Target, KeepsAnEncodedSlashInsideItsSegmentAndDoesNotResolveDots) {
  EXPECT_EQ(parse_target("/a%2Fb/..")->segments, (std::vector<std::string>{"a/b", ".."}));
}

TEST(Target, RefusesWhatIsMalformed) {
  for (const char* bad :
       {"", "api", "http://x/", "/%", "/%2", "/%zz", "/%00", "/a?b=%0", "/a#b", "/a?b=1&b=2", "*"})
    EXPECT_FALSE(parse_target(bad)) << bad;
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "/a";
  EXPECT_FALSE(parse_target(deep));
}

TEST(Range, ReadsTheThreeFormsAndNothingElse) {
  EXPECT_EQ(parse_range("bytes=0-9")->last, 9u);
  EXPECT_EQ(parse_range("bytes=5-")->first, 5u);
  EXPECT_EQ(parse_range("bytes=5-")->last, std::nullopt);
  EXPECT_EQ(parse_range("bytes=-7")->last, 7u);
  for (const char* bad : {"", "bytes=", "bytes=-", "lines=1-2", "bytes=9-1", "bytes=1-2,4-5",
                          "bytes=a-b", "bytes=99999999999999999999-", "bytes=+1-2"})
    EXPECT_FALSE(parse_range(bad)) << bad;
}

TEST(Host, TakesThePortOff) {
  EXPECT_EQ(host_name("LocalHost:80"), "localhost");
  EXPECT_EQ(host_name("[::1]:80"), "::1");
  EXPECT_EQ(host_name("10.0.0.1"), "10.0.0.1");
  for (const char* bad : {"", "a:b", "[::1", "a:123456", "[::1]x"})
    EXPECT_EQ(host_name(bad), "") << bad;
  EXPECT_EQ(origin_host("https://a.example:1"), "a.example");
  EXPECT_EQ(origin_host("null"), "");
  EXPECT_EQ(origin_host("file://x"), "");
}

TEST(Bearer, WantsTheWholeTokenAndTheScheme) {
  EXPECT_TRUE(bearer_matches("Bearer abc", "abc"));
  EXPECT_TRUE(bearer_matches("bearer abc", "abc"));
  for (const char* bad : {"", "abc", "Basic abc", "Bearer ab", "Bearer abcd", "Bearer abd",
                          "Bearer ", "Bearerabc", "Bearer  abc"})
    EXPECT_FALSE(bearer_matches(bad, "abc")) << bad;
  EXPECT_FALSE(bearer_matches("Bearer ", ""));
}

TEST(Loopback, IsOnlyLoopback) {
  for (const char* yes : {"127.0.0.1", "127.9.9.9", "::1"}) EXPECT_TRUE(is_loopback(yes)) << yes;
  for (const char* no : {"0.0.0.0", "::", "10.0.0.1", "localhost", "128.0.0.1", ""})
    EXPECT_FALSE(is_loopback(no)) << no;
}

}  // namespace
}  // namespace dlrun::web
