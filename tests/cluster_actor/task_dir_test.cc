#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/cluster/actor/task_dir.h"
#include "runtime/os/files.h"
#include "runtime/security/secret.h"
#include "tests/security/temp_folder.h"

namespace dlrun::cluster {
namespace {

using security::TempFolder;

PrepareTask some_task() {
  PrepareTask task;
  task.task = TaskId{JobId(12), "worker", 3, Generation(1)};
  task.epoch = Epoch{2, 7};
  task.owner = "ann";
  task.argv = {"/bin/true", "", std::string("a\nb")};
  task.env = {{"A", "x=y|z\n\xff"}};
  task.token[0] = 9;
  return task;
}

TEST(TaskDir, ALaterAgentFindsWhatWasPreparedAndStarted) {
  const TempFolder temp;
  const PrepareTask task = some_task();
  const std::string dir = temp / task_dir_name(task.task);
  ASSERT_TRUE(make_task_dir(dir, task));
  std::vector<std::string> broken;
  auto found = scan_task_dirs(temp / "", &broken);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found.task.task, task.task);
  EXPECT_EQ(found[0].found.task.env, task.env);
  EXPECT_EQ(found[0].found.task.argv, task.argv);
  EXPECT_FALSE(found[0].found.start);
  EXPECT_FALSE(found[0].found.end);

  StartTask start;
  start.task = task.task;
  start.epoch = task.epoch;
  ASSERT_TRUE(write_start(dir, start));
  ASSERT_TRUE(write_ready(dir, task.task, {"tcp://h:1", "/s"}));
  found = scan_task_dirs(temp / "", &broken);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_TRUE(found[0].found.start);
  ASSERT_TRUE(found[0].found.ready);
  EXPECT_EQ(found[0].found.ready->tcp, "tcp://h:1");
  ASSERT_TRUE(found[0].found.end) << "asked to start, but no shim was started: it never will be";
  EXPECT_EQ(found[0].found.end->cause, Cause::kStartFailed);
  EXPECT_TRUE(broken.empty());
}

TEST(TaskDir, FilesOfAFrameworkLieInTheWorkDirectoryAndNowhereElse) {
  const TempFolder temp;
  const std::string dir = temp / task_dir_name(some_task().task);
  ASSERT_TRUE(make_task_dir(dir, some_task()));
  const TaskFile list{"list.txt", std::string("10.0.0.1 1\n\0", 12), {"LIST"}};
  ASSERT_TRUE(write_task_files(dir, {list, list}));
  EXPECT_EQ(task_file_path(dir, list), dir + "/work/list.txt");
  const auto bytes = os::read_file(task_file_path(dir, list));
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, list.bytes);
  for (const char* name : {"", ".", "..", "../task", "/etc/x", "a/b"}) {
    const Status written = write_task_files(dir, {TaskFile{name, "x", {}}});
    ASSERT_FALSE(written) << name;
    EXPECT_EQ(written.error().code, Errc::kInvalidArgument) << name;
  }
}

TEST(TaskDir, TheMarkOfACleanedTaskDoesNotWaitForTheRemovalOfWhatItLeft) {
  const TempFolder temp;
  const std::string dir = temp / task_dir_name(some_task().task);
  ASSERT_TRUE(make_task_dir(dir, some_task()));
  ASSERT_TRUE(security::write_private_file(dir + "/work/large", "x"));
  ASSERT_TRUE(mark_cleaned(dir));
  EXPECT_TRUE(std::filesystem::exists(dir + "/work/large"));
  const auto found = scan_task_dirs(temp / "", nullptr);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].cleaned);
  remove_work(dir);
  EXPECT_FALSE(std::filesystem::exists(dir + "/work"));
  EXPECT_EQ(scan_task_dirs(temp / "", nullptr).size(), 1u) << "its logs may not be shipped yet";
}

TEST(TaskDir, HalfMadeDirectoryIsRemovedAndADamagedOneIsNamed) {
  const TempFolder temp;
  const std::string half = temp / "j1.worker.0.g1";
  ASSERT_EQ(::mkdir(half.c_str(), 0700), 0);
  const std::string damaged = temp / "j2.worker.0.g1";
  ASSERT_TRUE(make_task_dir(damaged, some_task()));
  ASSERT_TRUE(security::write_private_file(damaged + "/task", "rubbish"));
  std::vector<std::string> broken;
  EXPECT_TRUE(scan_task_dirs(temp / "", &broken).empty());
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_NE(broken[0].find(damaged), std::string::npos) << broken[0];
  EXPECT_FALSE(std::filesystem::exists(half));
  EXPECT_TRUE(std::filesystem::exists(damaged));
}

}  // namespace
}  // namespace dlrun::cluster
