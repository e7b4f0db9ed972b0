#include "runtime/os/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "runtime/os/file_lock.h"

namespace dlrun::os {
namespace {

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dlrun_os_XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
  }
  ~Files() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }
  std::string folder;
};

TEST_F(Files, WhatWasWrittenIsReadAndNothingElseIsLeft) {
  const std::string bytes("a\0b\n", 4);
  for (const Durable durable : {Durable::kNo, Durable::kYes}) {
    ASSERT_TRUE(write_file(path("x"), bytes, durable));
    EXPECT_EQ(read_file(path("x")).value(), bytes);
    EXPECT_EQ(entries(), 1u);
  }
  struct stat st {};
  ASSERT_EQ(::stat(path("x").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(Files, AWriteThatFailsLeavesTheOldFileAndNoTemporary) {
  ASSERT_TRUE(write_file(path("x"), "old"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file(path("x"), std::string(64, 'n'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(status);
  EXPECT_EQ(read_file(path("x")).value(), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, ALongerFileThanAllowedIsRefusedByName) {
  ASSERT_TRUE(write_file(path("x"), "12345"));
  EXPECT_EQ(read_file(path("x"), 5).value(), "12345");
  const auto refused = read_file(path("x"), 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
  EXPECT_NE(refused.error().context.find(path("x")), std::string::npos);
}

TEST_F(Files, AMissingFileIsNotFoundByName) {
  const auto missing = read_file(path("none"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_NE(missing.error().context.find(path("none")), std::string::npos);
}

TEST_F(Files, APrivateFileThatOthersCanReadIsRefused) {
  ASSERT_TRUE(write_file(path("x"), "secret"));
  EXPECT_TRUE(read_private_file(path("x")));
  ASSERT_EQ(::chmod(path("x").c_str(), 0640), 0);
  const auto refused = read_private_file(path("x"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kPermissionDenied);
}

TEST_F(Files, TheTailOfALongFileIsItsLastBytes) {
  std::ofstream(path("x")) << std::string(100'000, 'a') << "end";
  EXPECT_EQ(read_tail(path("x"), 4).value(), "aend");
  EXPECT_EQ(read_tail(path("x"), 1'000'000).value().size(), 100'003u);
  EXPECT_EQ(read_file("/proc/self/comm").value().empty(), false) << "files without a size too";
}

TEST_F(Files, ALockIsHeldByOneAndNamesItsHolder) {
  auto held = FileLock::hold(path("lock"));
  ASSERT_TRUE(held) << held.error().to_string();
  const auto second = FileLock::hold(path("lock"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kFailedPrecondition);
  EXPECT_NE(second.error().context.find("(pid " + std::to_string(::getpid()) + ")"),
            std::string::npos)
      << second.error().context;
  held = FileLock::open(path("other"));
  EXPECT_TRUE(FileLock::hold(path("lock"))) << "the first owner is gone";
}

TEST_F(Files, ALockThatADeadProcessLeftWithItsForkIsWaitedFor) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    auto held = FileLock::hold(path("lock"));
    if (::fork() == 0) ::usleep(300'000);  // inherits it, and outlives the process that it names
    const char byte = held ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  ASSERT_EQ(::waitpid(holder, nullptr, 0), holder);
  const auto now = FileLock::hold(path("lock"));
  EXPECT_TRUE(now) << now.error().to_string();
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Files, SharedLocksGoTogetherAndAnExclusiveOneWaits) {
  auto a = FileLock::open(path("lock")), b = FileLock::open(path("lock"));
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(a->try_lock(FileLock::Mode::kShared));
  EXPECT_TRUE(b->try_lock(FileLock::Mode::kShared));
  EXPECT_FALSE(b->lock_within(FileLock::Mode::kExclusive, std::chrono::milliseconds(10)));
  a->unlock();
  EXPECT_TRUE(b->lock_within(FileLock::Mode::kExclusive, std::chrono::seconds(10)));
}

}  // namespace
}  // namespace dlrun::os
