#include "runtime/base/utf8.h"

#include <gtest/gtest.h>

namespace dlrun {
namespace {

TEST(Utf8, AnyTextCanBeQuoted) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a b\xc3\xa9\xf0\x9f\x98\x80"), "'a b\xc3\xa9\xf0\x9f\x98\x80'");
  EXPECT_EQ(in_quotes("a\n\x1b[31m\x7f"), "'a\\x0a\\x1b[31m\\x7f'");
  EXPECT_EQ(in_quotes("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_EQ(in_quotes(std::string(1, '\0')), "'\\x00'");
  EXPECT_EQ(in_quotes(std::string(100, 'x'), 3), "'xxx'...");
  EXPECT_EQ(in_quotes("xx\xc3\xa9", 4), "'xx\xc3\xa9'");
}

// Its first byte was shown as \xc3, as if the text were not UTF-8.
TEST(Utf8, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(in_quotes("xx\xc3\xa9", 3), "'xx'...");
  EXPECT_EQ(in_quotes("x\xf0\x9f\x98\x80", 4), "'x'...");
  EXPECT_EQ(in_quotes("x\xf0\x9f\x98\x80y", 5), "'x\xf0\x9f\x98\x80'...");
  EXPECT_EQ(in_quotes("xx\xc3", 3), "'xx\\xc3'") << "this one is not";
}

TEST(Utf8, TakesWhatRfc3629TakesAndNothingElse) {
  // Brute force over two bytes, then the edges of the longer forms.
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b) {
      const std::string two{static_cast<char>(a), static_cast<char>(b)};
      const bool good = (a < 0x80 && b < 0x80) || (a >= 0xC2 && a < 0xE0 && b >= 0x80 && b < 0xC0);
      EXPECT_EQ(is_utf8(two), good) << a << " " << b;
    }
  for (const char* good : {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(utf8_length(good), std::string_view(good).size());
  for (const char* bad :
       {"\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xc0\x80", "\xe1\x80", "\xf1\x80\x80", "\xe1\x80\x41", "\xf1\x80\x80\x41", "\x80"})
    EXPECT_EQ(utf8_length(bad), 0u) << bad;
  EXPECT_EQ(utf8_length(""), 0u);
}

}  // namespace
}  // namespace dlrun
