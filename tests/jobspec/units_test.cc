#include "runtime/jobspec/units.h"

#include <gtest/gtest.h>

namespace dlrun::jobspec {
namespace {
using namespace std::chrono_literals;

TEST(Units, ReadsDurationsAsPeopleWriteThem) {
  EXPECT_EQ(*parse_duration("90"), 90s);
  EXPECT_EQ(*parse_duration("2h"), 2h);
  EXPECT_EQ(*parse_duration("1h30m"), 90min);
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(*parse_duration("500ms"), 500ms);
  EXPECT_EQ(*parse_duration("0"), 0s);
  for (const char* bad : {"", "h", "-1s", "1x", "1h30", "nan", "inf", "1e3", "9999999d", "1..2s"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Units, ReadsSizesAsPeopleWriteThem) {
  EXPECT_EQ(*parse_size("2GiB"), 2147483648);
  EXPECT_EQ(*parse_size("512MB"), 512000000);
  EXPECT_EQ(*parse_size("64k"), 64000);
  EXPECT_EQ(*parse_size("0.5 KiB"), 512);
  EXPECT_EQ(*parse_size("1024"), 1024);
  for (const char* bad : {"", "GiB", "-1", "1 XB", "99999999999TiB"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Units, ReadsCountsAndRanges) {
  EXPECT_EQ(*parse_count("4"), std::pair(4u, 4u));
  EXPECT_EQ(*parse_count("1..4"), std::pair(1u, 4u));
  for (const char* bad : {"", "0", "4..1", "-1", "1...4", "65537", "1..", "a"})
    EXPECT_FALSE(parse_count(bad)) << bad;
}

TEST(Units, FindsTheNearestWordAndNothingWhenAllAreFar) {
  EXPECT_EQ(nearest("cuont", {"count", "cwd", "cpus"}), "count");
  EXPECT_EQ(nearest("memroy", {"count", "memory"}), "memory");
  EXPECT_EQ(nearest("statsu", {"submit", "status"}), "status");
  EXPECT_EQ(nearest("xyzzy", {"count", "memory"}), "");
  EXPECT_EQ(nearest(std::string(1000, 'a'), {"count"}), "");
}

}  // namespace
}  // namespace dlrun::jobspec
