#include "runtime/device/allreduce.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>

namespace dlrun::device {
namespace {

using namespace std::chrono_literals;

enum class Kind { kCpu, kNccl };

class AllreduceTest : public ::testing::TestWithParam<Kind> {
 protected:
  /// nullopt-like: empty, after the test was marked as skipped.
  AllreduceGroup group(std::uint32_t world) {
    auto made = GetParam() == Kind::kCpu ? make_cpu_allreduce(world) : make_nccl_allreduce(world);
    if (made) return std::move(*made);
    EXPECT_EQ(made.error().code, Errc::kNoDevice) << made.error().to_string();
    EXPECT_TRUE(made.error().context.starts_with("no GPU")) << made.error().context;
    missing_ = made.error().context;
    return {};
  }

  template <class F>
  static void on_each(AllreduceGroup& ranks, F f) {
    std::vector<std::thread> threads;
    for (auto& rank : ranks) threads.emplace_back([&rank, &f] { f(*rank); });
    for (auto& thread : threads) thread.join();
  }

  std::string missing_;
};

TEST_P(AllreduceTest, EveryRankGetsTheSumManyTimesOver) {
  for (const std::uint32_t world : {1u, 2u, 5u}) {
    AllreduceGroup ranks = group(world);
    if (ranks.empty()) GTEST_SKIP() << missing_;
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{10'001}}) {
      on_each(ranks, [n, world](Allreduce& rank) {
        for (int round = 0; round < 20; ++round) {
          std::vector<float> data(n);
          for (std::size_t i = 0; i < n; ++i)
            data[i] = static_cast<float>((i % 100) * (rank.rank() + 1));
          ASSERT_TRUE(rank.sum(data, 30s));
          const auto weight = static_cast<float>(world * (world + 1) / 2);
          for (std::size_t i = 0; i < n; ++i)
            ASSERT_EQ(data[i], static_cast<float>(i % 100) * weight);
        }
      });
    }
  }
}

TEST_P(AllreduceTest, DifferentLengthsAreRefusedOnEveryRankAndTheGroupLivesOn) {
  AllreduceGroup ranks = group(2);
  if (ranks.empty()) GTEST_SKIP() << missing_;
  on_each(ranks, [](Allreduce& rank) {
    std::vector<float> data(3 + rank.rank(), 1.0f);
    const Status status = rank.sum(data, 30s);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::kInvalidArgument);
    data.assign(3, 1.0f);
    ASSERT_TRUE(rank.sum(data, 30s));
    EXPECT_EQ(data, std::vector<float>(3, 2.0f));
  });
}

TEST_P(AllreduceTest, ARankThatWaitsInVainIsToldAndTheGroupIsBroken) {
  AllreduceGroup ranks = group(2);
  if (ranks.empty()) GTEST_SKIP() << missing_;
  std::vector<float> data(4, 1.0f);
  EXPECT_EQ(ranks[0]->sum(data, 50ms).error().code, Errc::kDeadlineExceeded);
  EXPECT_EQ(ranks[0]->sum(data, 50ms).error().code, Errc::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(All, AllreduceTest, ::testing::Values(Kind::kCpu, Kind::kNccl),
                         [](const auto& info) {
                           return info.param == Kind::kCpu ? "Cpu" : "Nccl";
                         });

TEST(CpuAllreduce, ARankThatLeavesWakesTheOthers) {
  AllreduceGroup ranks = make_cpu_allreduce(2).value();
  std::thread waiter([&] {
    std::vector<float> data(4, 1.0f);
    EXPECT_EQ(ranks[0]->sum(data, 60s).error().code, Errc::kUnavailable);
  });
  ranks[1].reset();
  waiter.join();
}

TEST(CpuAllreduce, RefusesAGroupOfNone) {
  EXPECT_EQ(make_cpu_allreduce(0).error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace dlrun::device
