#include "launcher/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace dlrun::launcher {
namespace {
using namespace std::chrono_literals;

class Process : public testing::Test {
 protected:
  Process()
      : dir_(std::filesystem::temp_directory_path() /
             ("process_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(dir_);
  }
  ~Process() override { std::filesystem::remove_all(dir_); }
  std::string path(const char* name) { return dir_ / name; }
  std::filesystem::path dir_;
};

TEST_F(Process, SpawnsRecognisesAndEnds) {
  const auto mark =
      spawn({.argv = {"/bin/sleep", "100"}, .log_path = path("log"), .own_session = true});
  ASSERT_TRUE(mark) << mark.error().context;
  EXPECT_TRUE(alive(*mark));
  EXPECT_FALSE(alive({mark->pid, mark->start_ticks + 1})) << "the same pid, another process";
  EXPECT_TRUE(end_process(*mark, 5s));
  EXPECT_FALSE(alive(*mark));
  EXPECT_TRUE(end_process(*mark, 5s)) << "ending it twice is no error";
}

TEST_F(Process, KillsWhatIgnoresTerm) {
  const auto mark =
      spawn({.argv = {"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"},
             .log_path = path("log")});
  ASSERT_TRUE(mark);
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (tail_of(path("log"), 100) != "ready" && std::chrono::steady_clock::now() < until)
    ::usleep(2000);
  EXPECT_TRUE(end_process(*mark, 100ms));
}

TEST_F(Process, NeverSignalsAnotherProcessWithTheSamePid) {
  const auto mark = spawn({.argv = {"/bin/sleep", "100"}, .log_path = path("log")});
  ASSERT_TRUE(mark);
  EXPECT_TRUE(end_process({mark->pid, mark->start_ticks + 1}, 1s));
  EXPECT_TRUE(alive(*mark));
  end_process(*mark, 5s);
}

TEST_F(Process, TellsWhyAProgramCannotStart) {
  EXPECT_EQ(spawn({.argv = {"/nonexistent/x"}, .log_path = path("log")}).error().code,
            Errc::kNotFound);
  std::ofstream(path("text")) << "not a program";
  EXPECT_EQ(spawn({.argv = {path("text")}, .log_path = path("log")}).error().code,
            Errc::kPermissionDenied);
  EXPECT_FALSE(spawn({.argv = {"/bin/true"}, .log_path = "/nonexistent/log"}));
}

TEST_F(Process, LocksExcludeAndShare) {
  auto a = FileLock::open(path("lock")), b = FileLock::open(path("lock")),
       c = FileLock::open(path("lock"));
  ASSERT_TRUE(a && b && c);
  EXPECT_TRUE(a->try_lock(FileLock::Mode::kShared));
  EXPECT_TRUE(b->try_lock(FileLock::Mode::kShared));
  EXPECT_FALSE(c->try_lock(FileLock::Mode::kExclusive));
  a->unlock(), b->unlock();
  EXPECT_TRUE(c->try_lock(FileLock::Mode::kExclusive));
  EXPECT_FALSE(a->lock_within(FileLock::Mode::kShared, 20ms));
}

TEST_F(Process, WritesWholeFilesThatOnlyTheOwnerReads) {
  ASSERT_TRUE(write_file(path("f"), "one"));
  ASSERT_TRUE(write_file(path("f"), "two"));
  EXPECT_EQ(*read_file(path("f")), "two");
  EXPECT_EQ(std::filesystem::status(path("f")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(write_file("/nonexistent/f", "x"));
  EXPECT_TRUE(make_folders(path("a") + "/b/c"));
  EXPECT_TRUE(std::filesystem::is_directory(path("a") + "/b/c"));
}

}  // namespace
}  // namespace dlrun::launcher
