#include "runtime/jobspec/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/base/utf8.h"

namespace dlrun::jobspec {
namespace {

TEST(Base64, MatchesTheVectorsOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : vectors) {
    EXPECT_EQ(base64_encode(plain), coded);
    EXPECT_EQ(*base64_decode(coded), plain);
  }
}

TEST(Base64, ComesBackForAnyBytesAndRefusesWhatIsNotBase64) {
  SplitMix64 rng(7);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(rng.below(100), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.next());
    EXPECT_EQ(*base64_decode(base64_encode(bytes)), bytes);
  }
  for (const char* bad :
       {"A", "AA", "AAA", "A===", "====", "AA=A", "AB==", "AAB=", "A*AA", "AAAA AAA"})
    EXPECT_FALSE(base64_decode(bad)) << bad;
}

TEST(Utf8, AcceptsAllOfUnicodeAndRefusesOverlongSurrogateAndCut) {
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xFF"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(Json, WritesBytesThatAreNotUtf8AsBase64) {
  EXPECT_EQ(dump(bytes_to_json("a=b|c\n")), "\"a=b|c\\n\"");
  EXPECT_EQ(dump(bytes_to_json("\xFF")), "{\"base64\":\"/w==\"}");
  EXPECT_EQ(*bytes_from_json(bytes_to_json("\xFF\x01")), "\xFF\x01");
  EXPECT_FALSE(bytes_from_json(Json(3)));
}

TEST(Json, WritesTimesWithNanosecondsInUtc) {
  EXPECT_EQ(rfc3339(WallTime{0}), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(rfc3339(WallTime{1'700'000'000'123'456'789}), "2023-11-14T22:13:20.123456789Z");
}

TEST(Json, DoesNotShowTheSubmittersEnvironmentInAView) {
  cluster::JobView view;
  view.id = JobId{3};
  view.spec.submit_env = {{"SECRET", "s3cr3t"}};
  EXPECT_EQ(dump(to_json(view)).find("s3cr3t"), std::string::npos);
}

TEST(Json, LeavesOpenWhatIsNotKnownYet) {
  cluster::JobView view;
  view.id = JobId{3};
  view.state = cluster::JobState::kPending;
  const Json json = to_json(view);
  EXPECT_TRUE(json["started"].is_null());
  EXPECT_TRUE(json["exit_code"].is_null());
  EXPECT_TRUE(json["progress"].is_null());
  EXPECT_EQ(json["state"], "PENDING");
  EXPECT_EQ(json["id"], "j3");
}

}  // namespace
}  // namespace dlrun::jobspec
