#include "runtime/base/ids.h"

#include <gtest/gtest.h>

namespace dlrun {
namespace {

TEST(Ids, PrintsATaskAsPeopleSeeItAndReadsItBack) {
  const TaskId id{JobId(12), "worker", 3, Generation(2)};
  EXPECT_EQ(to_string(id), "j12:worker/3#2");
  EXPECT_EQ(parse_task_id(to_string(id)).value(), id);
}

TEST(Ids, RefusesWhatIsNoJobId) {
  for (const char* text : {"", "j", "j0", "jx", "12x", "-1", "j18446744073709551616"})
    EXPECT_FALSE(parse_job_id(text).has_value()) << text;
  EXPECT_EQ(parse_job_id("12").value(), JobId(12));
}

TEST(Ids, OrdersEpochsByTermFirst) {
  EXPECT_LT((Epoch{1, 9}), (Epoch{2, 0}));
  EXPECT_LT((Epoch{2, 0}), (Epoch{2, 1}));
}

TEST(Ids, RefusesATaskWithoutRoleOrRank) {
  for (const char* text :
       {"j1", "j1:", "j1:worker", "j1:/0", "j1:worker/", "j1:worker/0#", "j1:worker/x"})
    EXPECT_FALSE(parse_task_id(text).has_value()) << text;
}

}  // namespace
}  // namespace dlrun
