#include "runtime/base/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "runtime/base/constant_time.h"

namespace dlrun {
namespace {

TEST(Fnv1a, GivesThePublishedNumbers) {  // draft-eastlake-fnv, test vectors
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, ANumberIsItsEightBytesLowestFirst) {
  Fnv1a number, bytes;
  number.add(std::uint64_t{0x0102});
  bytes.add(std::string_view("\x02\x01\0\0\0\0\0\0", 8));
  EXPECT_EQ(number.value(), bytes.value());
}

TEST(ConstantTime, SeesADifferenceWhereverItIs) {
  const std::string token(32, 't');
  EXPECT_TRUE(equal_constant_time(token, std::string(32, 't')));
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] ^= 1;
    EXPECT_FALSE(equal_constant_time(token, other)) << i;
  }
  EXPECT_FALSE(equal_constant_time(token, token + "t"));
  EXPECT_TRUE(equal_constant_time(std::array<std::uint8_t, 2>{1, 255},
                                  std::array<std::uint8_t, 2>{1, 255}));
}

}  // namespace
}  // namespace dlrun
