#include "runtime/shim/cgroup.h"

#include <gtest/gtest.h>

namespace dlrun::shim {
namespace {

TEST(CgroupHome, HybridTreeGivesV2ForTheTreeAndV1ForMemory) {
  const auto home = parse_cgroup_home(
      "30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
      "31 30 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
      "32 30 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
      "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n",
      "9:freezer:/\n4:memory:/app/1\n0::/\n");
  EXPECT_EQ(home.v2, "/sys/fs/cgroup/unified");
  EXPECT_EQ(home.v1_tracker, "/sys/fs/cgroup/freezer");
  EXPECT_EQ(home.v1_memory, "/sys/fs/cgroup/memory/app/1");
}

TEST(CgroupHome, PureV2GivesOurOwnGroup) {
  const auto home = parse_cgroup_home("31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                                      "0::/user.slice/user-1000.slice\n");
  EXPECT_EQ(home.v2, "/sys/fs/cgroup/user.slice/user-1000.slice");
  EXPECT_EQ(home.v1_tracker, "");
  EXPECT_EQ(home.v1_memory, "");
}

TEST(CgroupHome, AMountOfASubtreeIsCutFromThePath) {
  const auto home =
      parse_cgroup_home("31 30 0:27 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
                        "3:pids:/docker/abc/x\n");
  EXPECT_EQ(home.v1_tracker, "/sys/fs/cgroup/pids/x");
}

TEST(CgroupHome, NothingMountedGivesNothing) {
  const auto home = parse_cgroup_home("junk\n\n1 2\n", "x");
  EXPECT_EQ(home.v2 + home.v1_tracker + home.v1_memory, "");
}

}  // namespace
}  // namespace dlrun::shim
