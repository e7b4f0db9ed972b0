#include "scheduler/core/scheduler_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace dlrun::sched {
namespace {

using ::testing::HasSubstr;

NodeCapacity node(std::string name, std::int64_t cpus, int gpus = 0, int ports = 10,
                  Labels labels = {}) {
  NodeCapacity c{
      NodeId(name), cpus * 1000, 16ll << 30, {}, PortRange{7000, static_cast<std::uint16_t>(ports)},
      labels};
  for (int i = 0; i < gpus; ++i) c.gpu_uuids.push_back("GPU-" + name + "-" + std::to_string(i));
  return c;
}

GangRequest gang(std::uint64_t job, int tasks, Resources need, std::int32_t priority = 0,
                 std::int64_t submitted = 0) {
  GangRequest g{JobId(job), Generation(1), priority, TimePoint(Duration(submitted)), {}};
  for (int i = 0; i < tasks; ++i)
    g.tasks.push_back(TaskDemand{"worker", static_cast<std::uint32_t>(i), need, {}});
  return g;
}

TEST(SchedulerCore, PlacesAGangWholeOrNotAtAll) {
  SchedulerCore core;
  core.add_node(node("n1", 2));
  ASSERT_TRUE(core.submit(gang(1, 3, {.cpu_milli = 1000})));
  EXPECT_FALSE(core.next());
  EXPECT_EQ(core.usage(NodeId("n1")).cpu_milli_used, 0);
  core.add_node(node("n2", 1));
  const auto placed = core.next();
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->slots.size(), 3u);
  EXPECT_EQ(core.usage(NodeId("n1")).cpu_milli_used, 2000);
  EXPECT_EQ(core.usage(NodeId("n2")).cpu_milli_used, 1000);
}

TEST(SchedulerCore, GoesBackWhenTheEasyWayIsADeadEnd) {
  SchedulerCore core;
  // The CPU-heavy task would first take n1, the only node with enough memory for the other.
  core.add_node(NodeCapacity{NodeId("n1"), 4000, 8ll << 30, {}, {}, {}});
  core.add_node(NodeCapacity{NodeId("n2"), 4000, 1ll << 30, {}, {}, {}});
  GangRequest g = gang(1, 1, {.cpu_milli = 3000, .memory_bytes = 1 << 30});
  g.tasks.push_back(TaskDemand{"ps", 0, {.cpu_milli = 2000, .memory_bytes = 4ll << 30}, {}});
  ASSERT_TRUE(core.submit(g));
  const auto placed = core.next();
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->slots[0].node, NodeId("n2"));
  EXPECT_EQ(placed->slots[1].node, NodeId("n1"));
}

TEST(SchedulerCore, ServesByPriorityThenTimeThenJobId) {
  SchedulerCore core;
  ASSERT_TRUE(core.submit(gang(4, 1, {}, 0, 5)));
  ASSERT_TRUE(core.submit(gang(3, 1, {}, 0, 5)));
  ASSERT_TRUE(core.submit(gang(2, 1, {}, 0, 1)));
  ASSERT_TRUE(core.submit(gang(9, 1, {}, 7, 9)));
  core.add_node(node("n1", 8));
  for (const std::uint64_t job : {9, 2, 3, 4}) EXPECT_EQ(core.next()->job, JobId(job));
  EXPECT_FALSE(core.next());
}

TEST(SchedulerCore, AHeadThatDoesNotFitLetsThoseBehindPass) {
  SchedulerCore core;
  core.add_node(node("n1", 2));
  ASSERT_TRUE(core.submit(gang(1, 1, {.cpu_milli = 4000}, 9)));
  ASSERT_TRUE(core.submit(gang(2, 1, {.cpu_milli = 2000}, 0)));
  EXPECT_EQ(core.next()->job, JobId(2));
  EXPECT_FALSE(core.next());
}

TEST(SchedulerCore, APileOfLowPriorityNeitherBlocksAHighOneNorCostsATryEach) {
  SchedulerCore core;
  core.add_node(node("n1", 4));
  for (std::uint64_t job = 1; job <= 5000; ++job)
    ASSERT_TRUE(core.submit(gang(job, 1, {.cpu_milli = 8000}, -1, static_cast<std::int64_t>(job))));
  ASSERT_TRUE(core.submit(gang(9000, 1, {.cpu_milli = 4000}, 5)));
  EXPECT_EQ(core.next()->job, JobId(9000));
  EXPECT_FALSE(core.next());
  for (int i = 0; i < 100; ++i) {
    core.release(JobId(9000 + static_cast<std::uint64_t>(i)));
    ASSERT_TRUE(core.submit(gang(9001 + static_cast<std::uint64_t>(i), 1, {.cpu_milli = 4000}, 5)));
    ASSERT_TRUE(core.next());
    EXPECT_FALSE(core.next());
  }
  EXPECT_LE(core.failed_tries(), 210u);
}

TEST(SchedulerCore, NamesGpusAndLeasesEachOnce) {
  SchedulerCore core;
  core.add_node(node("cpu", 64));
  core.add_node(node("gpu", 64, 4));
  ASSERT_TRUE(core.submit(gang(1, 2, {.gpus = 2})));
  const auto placed = core.next();
  ASSERT_TRUE(placed);
  std::set<std::string> seen;
  for (const Slot& slot : placed->slots) {
    EXPECT_EQ(slot.node, NodeId("gpu"));
    seen.insert(slot.gpu_uuids.begin(), slot.gpu_uuids.end());
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(SchedulerCore, KeepsTasksWithoutGpusOffGpuNodesWhileOthersHaveRoom) {
  SchedulerCore core;
  core.add_node(node("a-gpu", 4, 2));
  core.add_node(node("z-cpu", 1));
  ASSERT_TRUE(core.submit(gang(1, 2, {})));
  const auto placed = core.next();
  EXPECT_EQ(placed->slots[0].node, NodeId("z-cpu"));
  EXPECT_EQ(placed->slots[1].node, NodeId("a-gpu"));
}

TEST(SchedulerCore, APortJustReleasedIsTheLastToBeLeasedAgain) {
  SchedulerCore core;
  core.add_node(node("n1", 8, 0, 3));
  std::vector<std::uint16_t> ports;
  for (std::uint64_t job = 1; job <= 4; ++job) {
    ASSERT_TRUE(core.submit(gang(job, 1, {.ports = 1})));
    ports.push_back(core.next()->slots[0].ports.at(0));
    core.release(JobId(job));
  }
  EXPECT_EQ(ports, (std::vector<std::uint16_t>{7000, 7001, 7002, 7000}));
}

TEST(SchedulerCore, WhatAGangHoldsOutlivesItsNodeUntilReleased) {
  SchedulerCore core;
  core.add_node(node("n1", 2, 0, 2));
  ASSERT_TRUE(core.submit(gang(1, 1, {.cpu_milli = 2000, .ports = 2})));
  ASSERT_TRUE(core.next());
  core.remove_node(NodeId("n1"));
  core.add_node(node("n1", 2, 0, 2));
  ASSERT_TRUE(core.submit(gang(2, 1, {.cpu_milli = 1000, .ports = 1})));
  EXPECT_FALSE(core.next());
  core.release(JobId(1));
  EXPECT_TRUE(core.next());
}

TEST(SchedulerCore, AdoptsWhatRunsAndRefusesWhatOverlaps) {
  SchedulerCore core;
  const Placement held{JobId(1), Generation(1), {Slot{NodeId("n1"), {7001}, {}}}};
  ASSERT_TRUE(core.adopt(gang(1, 1, {.ports = 1}), held));  // before its node has joined again
  core.add_node(node("n1", 8, 0, 2));
  EXPECT_EQ(core.usage(NodeId("n1")).ports_used, 1);
  EXPECT_EQ(core.adopt(gang(2, 1, {.ports = 1}), held).error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(core.adopt(gang(1, 1, {.ports = 1}), held).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(core.adopt(gang(3, 2, {.ports = 1}), held).error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(core.submit(gang(4, 1, {.ports = 1})));
  EXPECT_EQ(core.next()->slots[0].ports, std::vector<std::uint16_t>{7000});
}

TEST(SchedulerCore, RefusesWhatIsNoGang) {
  SchedulerCore core;
  EXPECT_EQ(core.submit(gang(0, 1, {})).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(core.submit(gang(1, 0, {})).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(core.submit(gang(1, 1, {.cpu_milli = -1})).error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(core.submit(gang(1, 1, {})));
  EXPECT_EQ(core.submit(gang(1, 1, {})).error().code, Errc::kAlreadyExists);
}

TEST(SchedulerCore, SaysWhyInCountsAndWords) {
  SchedulerCore core;
  core.add_node(node("n1", 2));
  core.add_node(node("n2", 4, 1));
  core.add_node(node("n3", 8));
  core.set_schedulable(NodeId("n3"), false, "draining by ann");
  ASSERT_TRUE(core.submit(gang(1, 2, {.cpu_milli = 3000, .gpus = 1})));
  EXPECT_FALSE(core.next());
  const auto lines = core.why(JobId(1));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].constraint, "node");
  EXPECT_THAT(lines[0].detail, HasSubstr("n3: draining by ann"));
  EXPECT_EQ(lines[1].constraint, "gpu");
  EXPECT_EQ(lines[1].nodes_failing, 2u);
  EXPECT_EQ(lines[1].nodes_total, 3u);
  EXPECT_EQ(lines[2].constraint, "cpu");
  EXPECT_EQ(lines[2].nodes_failing, 1u);
  EXPECT_THAT(
      lines[2].detail,
      HasSubstr(
          "worker/0 (and 1 like it) needs 3 CPUs, the most free on one node is 8 CPUs on n3"));
  EXPECT_EQ(lines[3].constraint, "gang");
  EXPECT_THAT(lines[3].detail, HasSubstr("only 1 of 2 tasks"));
  EXPECT_TRUE(core.why(JobId(77)).empty());
}

TEST(SchedulerCore, TellsWhatCanNeverFit) {
  SchedulerCore core;
  EXPECT_THAT(core.impossible(gang(1, 1, {})).value_or(""), HasSubstr("no node has joined"));
  core.add_node(node("n1", 4, 4, 10, {{"zone", "a"}}));
  core.add_node(node("n2", 8));
  EXPECT_EQ(core.impossible(gang(1, 1, {.gpus = 8})),
            "worker/0 needs 8 GPUs, the most any node has is 4 GPUs");
  EXPECT_THAT(core.impossible(gang(1, 1, {.cpu_milli = 8000, .gpus = 1})).value_or(""),
              HasSubstr("everything together"));
  EXPECT_THAT(core.impossible(gang(1, 13, {})).value_or(""),
              HasSubstr("all nodes together have 12 CPUs"));
  GangRequest labelled = gang(1, 1, {});
  labelled.tasks[0].require["zone"] = "b";
  EXPECT_THAT(core.impossible(labelled).value_or(""), HasSubstr("zone=b, which no node has"));
  EXPECT_EQ(core.impossible(gang(1, 12, {})), std::nullopt);
}

TEST(SchedulerCore, FindsRoomAmongManyNodes) {
  SchedulerCore core;
  for (int i = 0; i < 1000; ++i) core.add_node(node("n" + std::to_string(i), 1 + i % 3, 0, 1));
  ASSERT_TRUE(core.submit(gang(1, 333, {.cpu_milli = 3000})));
  ASSERT_TRUE(core.next());
  ASSERT_TRUE(core.submit(gang(2, 1, {.cpu_milli = 3000})));
  EXPECT_FALSE(core.next());
  ASSERT_TRUE(core.submit(gang(3, 333, {.cpu_milli = 2000})));
  ASSERT_TRUE(core.next());
}

}  // namespace
}  // namespace dlrun::sched
