#include "runtime/os/serial_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace dlrun::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SerialWorker, RunsInOrderAndWhatWasPostedBeforeItStops) {
  std::vector<int> seen;
  {
    SerialWorker worker;
    for (int i = 0; i < 100; ++i) worker.post([&seen, i] { seen.push_back(i); });
  }
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(SerialWorker, WhatIsForLaterComesLater) {
  SerialWorker worker;
  std::promise<std::chrono::steady_clock::time_point> ran;
  const auto asked = std::chrono::steady_clock::now();
  worker.post_after(milliseconds(30), [&] { ran.set_value(std::chrono::steady_clock::now()); });
  auto future = ran.get_future();
  ASSERT_EQ(future.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_GE(future.get() - asked, milliseconds(30));
}

TEST(SerialWorker, WhoPostsMoreThanItTakesWaitsForRoom) {
  std::promise<void> go_on;
  const std::shared_future<void> released = go_on.get_future().share();
  std::atomic<std::size_t> posted{0}, ran{0};
  SerialWorker worker;
  worker.post([released] { released.wait(); });
  constexpr std::size_t kAll = 2 * SerialWorker::kWaitingMax;
  std::thread flood([&] {
    for (std::size_t i = 0; i < kAll; ++i) {
      worker.post_when_room([&ran] { ++ran; });
      ++posted;
    }
  });
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (posted < SerialWorker::kWaitingMax - 1 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_LE(posted, SerialWorker::kWaitingMax);
  EXPECT_EQ(ran, 0u);
  go_on.set_value();
  flood.join();
  worker.stop();
  EXPECT_EQ(ran, kAll);
}

TEST(SerialWorker, AStopLetsGoOfWhoWaitsForRoom) {
  std::promise<void> go_on;
  const std::shared_future<void> released = go_on.get_future().share();
  SerialWorker worker;
  worker.post([released] { released.wait(); });
  std::thread flood([&] {
    for (std::size_t i = 0; i < SerialWorker::kWaitingMax + 100; ++i) worker.post_when_room([] {});
  });
  std::thread stopper([&] { worker.stop(); });
  flood.join();  // hangs when a stop does not wake it: the worker is still held
  go_on.set_value();
  stopper.join();
}

}  // namespace
}  // namespace dlrun::os
