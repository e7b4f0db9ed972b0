#include "runtime/shim/log_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/base/rng.h"

namespace dlrun::shim {
namespace {

class LogFiles : public testing::Test {
 protected:
  LogFiles() {
    char name[] = "/tmp/dlrun-logs-XXXXXX";
    dir_ = ::mkdtemp(name);
  }
  ~LogFiles() override { std::filesystem::remove_all(dir_); }

  std::string read_all(std::uint64_t from, std::size_t step) {
    std::string all;
    for (;;) {
      const auto bytes = read_log(dir_, "stdout", from, step);
      EXPECT_TRUE(bytes);
      if (!bytes || bytes->bytes.empty()) return all;
      EXPECT_EQ(bytes->offset, from);
      all += bytes->bytes;
      from = bytes->offset + bytes->bytes.size();
    }
  }
  std::string dir_;
};

std::string noise(std::size_t n) {
  SplitMix64 rng(n);
  std::string s;
  while (s.size() < n) s.push_back(static_cast<char>(rng.next()));
  return s;
}

TEST_F(LogFiles, BytesAreExactAcrossSegmentsAndFromAnyOffset) {
  const std::string bytes = noise(100'000);
  {
    LogWriter writer(dir_, "stdout", 4096, 1 << 20);
    ASSERT_TRUE(writer.open());
    SplitMix64 rng(1);
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t n = std::min<std::size_t>(1 + rng.below(9000), bytes.size() - at);
      writer.write(std::string_view(bytes).substr(at, n));
      at += n;
    }
    EXPECT_EQ(writer.end(), bytes.size());
  }
  EXPECT_GT(list_segments(dir_, "stdout")->size(), 20u);
  EXPECT_EQ(read_all(0, 1000), bytes);
  EXPECT_EQ(read_all(4097, 70'000), bytes.substr(4097));
}

TEST_F(LogFiles, TheOldestGoesAndTheOffsetsStay) {
  const std::string bytes = noise(200'000);
  LogWriter writer(dir_, "stdout", 4096, 20'000);
  ASSERT_TRUE(writer.open());
  writer.write(bytes);
  std::uintmax_t disk = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir_)) disk += file.file_size();
  EXPECT_LE(disk, 20'000u);
  EXPECT_GE(disk, 10'000u);
  const auto first = read_log(dir_, "stdout", 0, 10);
  ASSERT_TRUE(first);
  EXPECT_GT(first->offset, 0u);
  EXPECT_EQ(first->end, bytes.size());
  EXPECT_EQ(first->bytes, bytes.substr(first->offset, 10));
  EXPECT_EQ(read_all(first->offset, 5000), bytes.substr(first->offset));
}

TEST_F(LogFiles, ANewWriterContinuesAtTheEnd) {
  for (const char* part : {"abc", "def", ""}) {
    LogWriter writer(dir_, "stdout", 1 << 20, 1 << 22);
    ASSERT_TRUE(writer.open());
    writer.write(part);
  }
  EXPECT_EQ(read_all(0, 100), "abcdef");
  EXPECT_EQ(read_log(dir_, "stdout", 6, 10)->bytes, "");
  EXPECT_EQ(read_log(dir_, "stdout", 6, 10)->end, 6u);
}

TEST_F(LogFiles, WhatCannotBeWrittenIsLostAndCountedAndLeavesAGap) {
  LogWriter writer(dir_, "stdout", 4096, 1 << 20);
  ASSERT_TRUE(writer.open());
  writer.write(std::string(4096, 'a'));
  const std::string moved = dir_ + ".away";
  std::filesystem::rename(dir_, moved);  // the next segment cannot be made
  writer.write(std::string(100, 'b'));
  std::filesystem::rename(moved, dir_);
  writer.write(std::string(50, 'c'));
  EXPECT_EQ(writer.lost_bytes(), 100u);
  EXPECT_EQ(writer.end(), 4246u);
  const auto bytes = read_log(dir_, "stdout", 4096, 1000);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->offset, 4196u);
  EXPECT_EQ(bytes->bytes, std::string(50, 'c'));
}

}  // namespace
}  // namespace dlrun::shim
