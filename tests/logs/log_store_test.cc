#include "runtime/logs/log_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "runtime/base/rng.h"

namespace dlrun::logs {
namespace {

class Store : public testing::Test {
 protected:
  Store() {
    char name[] = "/tmp/dlrun-store-XXXXXX";
    dir_ = ::mkdtemp(name);
    limits_.segment_bytes = 1000;
    reopen();
  }
  ~Store() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  void reopen() {
    store_.reset();
    auto store = LogStore::open(dir_, limits_);
    ASSERT_TRUE(store) << store.error().to_string();
    store_ = std::move(*store);
  }
  std::string all(const StreamId& id, std::uint64_t from = 0, std::size_t step = 333) {
    std::string bytes;
    for (;;) {
      const auto chunk = store_->read(id, from, step);
      if (!chunk || chunk->bytes.empty()) return bytes;
      EXPECT_EQ(chunk->next, chunk->offset + chunk->bytes.size());
      bytes += chunk->bytes;
      from = chunk->next;
    }
  }
  std::uintmax_t disk() const {
    std::uintmax_t sum = 0;
    for (const auto& f : std::filesystem::recursive_directory_iterator(dir_))
      sum += f.is_regular_file() ? f.file_size() : 0;
    return sum;
  }
  static std::string noise(std::size_t n) {
    SplitMix64 rng(n);
    std::string s;
    while (s.size() < n) s.push_back(static_cast<char>(rng.next()));
    return s;
  }

  std::string dir_;
  StoreLimits limits_;
  std::unique_ptr<LogStore> store_;
  const StreamId id_{{JobId{12}, "worker", 3, Generation{1}}, Stream::kStdout};
};

TEST_F(Store, KeepsBytesExactAcrossSegmentsAndARestart) {
  const std::string bytes = noise(10'000);
  std::uint64_t at = 0;
  while (at < bytes.size())
    at = store_->append(id_, at, std::string_view(bytes).substr(at, 700)).value();
  EXPECT_TRUE(all(id_) == bytes);
  reopen();
  EXPECT_EQ(store_->end_of(id_).value(), bytes.size());
  EXPECT_TRUE(all(id_, 4321) == bytes.substr(4321));
  EXPECT_EQ(store_->append(id_, bytes.size(), "more").value(), bytes.size() + 4);
  EXPECT_TRUE(all(id_) == bytes + "more");
}

TEST_F(Store, ARepeatedAppendAppliesOnceAndAHoleIsNotTaken) {
  EXPECT_EQ(store_->append(id_, 0, "hello").value(), 5u);
  EXPECT_EQ(store_->append(id_, 0, "hello").value(), 5u);
  EXPECT_EQ(store_->append(id_, 3, "lo wor").value(), 9u);  // the overlap is ignored
  EXPECT_EQ(store_->append(id_, 20, "later").value(), 9u);
  EXPECT_EQ(all(id_), "hello wor");
}

TEST_F(Store, ADeclaredGapMovesReadersOn) {
  EXPECT_EQ(store_->append(id_, 0, "abc").value(), 3u);
  EXPECT_EQ(store_->append(id_, 100, "xyz", true).value(), 103u);
  const auto first = store_->read(id_, 0, 100).value();
  EXPECT_EQ(first.bytes, "abc");
  const auto second = store_->read(id_, first.next, 100).value();
  EXPECT_EQ(second.offset, 100u);
  EXPECT_EQ(second.bytes, "xyz");
  EXPECT_EQ(second.next, 103u);
  reopen();
  EXPECT_EQ(all(id_), "abcxyz");
}

TEST_F(Store, TellsWhatIsThereAndWhatIsOver) {
  EXPECT_EQ(store_->read(id_, 0, 10).error().code, Errc::kNotFound);
  EXPECT_EQ(store_->end_of(id_).value(), 0u);
  ASSERT_TRUE(store_->append(id_, 0, "abc"));
  auto chunk = store_->read(id_, 3, 10).value();
  EXPECT_EQ(chunk.bytes, "");
  EXPECT_FALSE(chunk.finished);
  ASSERT_TRUE(store_->finish(id_));
  ASSERT_TRUE(store_->finish(id_));
  EXPECT_EQ(store_->append(id_, 3, "late").value(), 3u);
  EXPECT_FALSE(store_->read(id_, 0, 2)->finished);
  EXPECT_TRUE(store_->read(id_, 0, 3)->finished);
  reopen();
  EXPECT_TRUE(store_->read(id_, 3, 10)->finished);
  EXPECT_EQ(store_->read(id_, 999, 10)->next, 3u);  // beyond the end: back to it
  const StreamId silent{id_.task, Stream::kStderr};
  ASSERT_TRUE(store_->finish(silent));
  EXPECT_TRUE(store_->read(silent, 0, 10)->finished);
}

TEST_F(Store, ListsTheStreamsOfAJobWithOddRoleNames) {
  for (const std::string role : {"ps", "../../x", "a.b", "w\xff"}) {
    for (std::uint32_t rank : {1u, 0u}) {
      StreamId id{{JobId{5}, role, rank, Generation{2}}, Stream::kStderr};
      ASSERT_TRUE(store_->append(id, 0, role));
    }
  }
  const auto streams = store_->list(JobId{5}).value();
  ASSERT_EQ(streams.size(), 8u);
  EXPECT_EQ(streams[0].id.task.role, "../../x");
  EXPECT_EQ(streams[0].id.task.rank, 0u);
  EXPECT_EQ(streams[7].id.task.role, "w\xff");
  EXPECT_EQ(streams[7].end, 2u);
  EXPECT_TRUE(store_->list(JobId{6})->empty());
  ASSERT_TRUE(store_->drop_job(JobId{5}));
  EXPECT_TRUE(store_->list(JobId{5})->empty());
  EXPECT_EQ(store_->read(streams[0].id, 0, 10).error().code, Errc::kNotFound);
}

TEST_F(Store, AJobOverItsBudgetLosesItsOldest) {
  limits_.job_bytes = 5000;
  reopen();
  const std::string bytes = noise(20'000);
  std::uint64_t at = 0;
  while (at < bytes.size())
    at = store_->append(id_, at, std::string_view(bytes).substr(at, 500)).value();
  EXPECT_LE(disk(), 5000u);
  const auto chunk = store_->read(id_, 0, 100).value();
  EXPECT_GE(chunk.oldest, 15'000u);
  EXPECT_EQ(chunk.offset, chunk.oldest);
  EXPECT_EQ(chunk.end, 20'000u);
  EXPECT_TRUE(all(id_) == bytes.substr(chunk.oldest));
}

TEST_F(Store, AboveTheTotalTheJobsWrittenLongestAgoGo) {
  limits_.total_bytes = 10'000;
  reopen();
  const std::string bytes = noise(3000);
  for (std::uint64_t job = 1; job <= 6; ++job) {
    ASSERT_TRUE(store_->append({{JobId{job}, "w", 0, Generation{1}}, Stream::kStdout}, 0, bytes));
    // the order is the directories' time stamps
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (disk() > 10'000 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(disk(), 10'000u);
  EXPECT_TRUE(all({{JobId{6}, "w", 0, Generation{1}}, Stream::kStdout}) == bytes);
  EXPECT_EQ(all({{JobId{1}, "w", 0, Generation{1}}, Stream::kStdout}), "");
}

TEST_F(Store, ListenersHearAppendsAndFinishesUntilTheyLeave) {
  std::vector<StreamInfo> heard;
  auto handle = store_->subscribe([&](const StreamInfo& info) { heard.push_back(info); });
  ASSERT_TRUE(store_->append(id_, 0, "abc"));
  ASSERT_TRUE(store_->append(id_, 0, "abc"));  // nothing new
  ASSERT_TRUE(store_->finish(id_));
  handle.reset();
  ASSERT_TRUE(store_->finish({id_.task, Stream::kStderr}));
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].end, 3u);
  EXPECT_FALSE(heard[0].finished);
  EXPECT_TRUE(heard[1].finished);
}

}  // namespace
}  // namespace dlrun::logs
