#include "runtime/os/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <vector>

namespace dlrun::os {
namespace {

using std::chrono::milliseconds;
constexpr auto kLimit = std::chrono::seconds(20);

TEST(EventLoop, RunsCallsInTheirOrderOnOneThread) {
  EventLoop loop;
  ASSERT_TRUE(loop.start({}));
  std::vector<int> seen;
  std::promise<std::thread::id> first, last;
  loop.post([&] { first.set_value(std::this_thread::get_id()); });
  for (int i = 0; i < 100; ++i) loop.post([&seen, i] { seen.push_back(i); });
  loop.post([&] { last.set_value(std::this_thread::get_id()); });
  auto end = last.get_future();
  ASSERT_EQ(end.wait_for(kLimit), std::future_status::ready);
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  const auto id = end.get();
  EXPECT_EQ(first.get_future().get(), id);
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST(EventLoop, ACallMayPostAnother) {
  EventLoop loop;
  ASSERT_TRUE(loop.start({}));
  std::promise<void> done;
  loop.post([&] { loop.post([&] { done.set_value(); }); });
  EXPECT_EQ(done.get_future().wait_for(kLimit), std::future_status::ready);
}

TEST(EventLoop, TellsWhichDescriptorIsReadyAndForWhat) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd read_end(ends[0]), write_end(ends[1]);
  std::promise<std::pair<std::uint64_t, std::uint32_t>> heard;
  EventLoop loop;
  ASSERT_TRUE(loop.start({[&](std::uint64_t key, std::uint32_t events) {
                            char byte;
                            if (::read(read_end.get(), &byte, 1) == 1)
                              heard.set_value({key, events});
                          },
                          {}}));
  loop.post([&] { loop.watch(read_end.get(), 0, EPOLLIN); });
  ASSERT_EQ(::write(write_end.get(), "x", 1), 1);
  auto future = heard.get_future();
  ASSERT_EQ(future.wait_for(kLimit), std::future_status::ready);
  const auto [key, events] = future.get();
  EXPECT_EQ(key, 0u);
  EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLIN));
}

TEST(EventLoop, WakesAtTheTimeThatWasNamed) {
  std::promise<TimePoint> woken;
  bool told = false;
  std::optional<TimePoint> at;
  EventLoop loop;
  ASSERT_TRUE(loop.start({[](std::uint64_t, std::uint32_t) {},
                          [&](TimePoint now) -> std::optional<TimePoint> {
                            if (told) return std::nullopt;
                            if (!at) at = now + milliseconds(30);
                            if (now < *at) return at;
                            told = true;
                            woken.set_value(now);
                            return std::nullopt;
                          }}));
  auto future = woken.get_future();
  ASSERT_EQ(future.wait_for(kLimit), std::future_status::ready) << "nothing else wakes it";
  EXPECT_GE(future.get(), *at);
}

TEST(EventLoop, StopsWhileItSleepsAndDropsWhatComesAfter) {
  auto kept = std::make_shared<int>(0);
  {
    EventLoop loop;
    ASSERT_TRUE(loop.start({}));
    loop.stop();
    loop.post([kept] { *kept = 1; });
    loop.stop();
  }
  EXPECT_EQ(*kept, 0);
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace dlrun::os
