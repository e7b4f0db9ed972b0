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
  EXPECT_EQ(in_quotes("xx\xc3\xa9", 3), "'xx\\xc3'...") << "cut within a character";
}

}  // namespace
}  // namespace dlrun
