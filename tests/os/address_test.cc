#include "runtime/os/address.h"

#include <gtest/gtest.h>

namespace dlrun::os {
namespace {

TEST(Address, LoopbackIsWhatNeverLeavesTheMachine) {
  for (const char* yes : {"127.0.0.1", "127.9.9.9", "::1"}) EXPECT_TRUE(is_loopback(yes)) << yes;
  for (const char* no :
       {"10.0.0.1", "0.0.0.0", "::", "fe80::1", "localhost", "127.evil.example", ""})
    EXPECT_FALSE(is_loopback(no)) << no;
}

TEST(Address, TheInterfaceOfAnAddressIsItsNameAndOfAForeignOneNothing) {
  EXPECT_EQ(interface_of("127.0.0.1"), "lo");
  for (const char* none : {"192.0.2.7", "2001:db8::7", "localhost", ""})  // nobody has these
    EXPECT_EQ(interface_of(none), "") << none;
}

}  // namespace
}  // namespace dlrun::os
