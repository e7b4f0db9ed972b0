// An acknowledged append is on the disk: what kill -9 of a test cannot show, because the kernel
// keeps what was written and not yet synced.

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/store/sqlite_event_log.h"

namespace {

std::vector<std::string>* synced = nullptr;  ///< the files, one entry a call, while a test listens
std::vector<sqlite3*>* opened = nullptr;

int sync_with(long call, int fd) {
  if (synced != nullptr) {
    std::error_code gone;
    synced->push_back(
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), gone).filename());
  }
  return static_cast<int>(::syscall(call, fd));
}

int note_handle(sqlite3* db, const char**, const void*) {
  opened->push_back(db);
  return SQLITE_OK;
}

}  // namespace

// SQLite's library finds these before those of the C library.
extern "C" [[gnu::visibility("default")]] int fdatasync(int fd) {
  return sync_with(SYS_fdatasync, fd);
}
extern "C" [[gnu::visibility("default")]] int fsync(int fd) { return sync_with(SYS_fsync, fd); }

namespace dlrun::store {
namespace {

struct Durability : ::testing::Test {
  Durability() {
    char name[] = "/tmp/dlrun-store-XXXXXX";
    folder = mkdtemp(name);
  }
  ~Durability() override {
    synced = nullptr;
    std::filesystem::remove_all(folder);
  }
  std::string folder;
};

std::string pragma(sqlite3* db, const char* name) {
  std::string value;
  const auto take = [](void* out, int, char** cells, char**) {
    *static_cast<std::string*>(out) = cells[0];
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(db, (std::string("PRAGMA ") + name).c_str(), take, &value, nullptr),
            SQLITE_OK);
  return value;
}

TEST_F(Durability, TheWritersHandleIsInWalModeWithFullSync) {
  std::vector<sqlite3*> handles;
  opened = &handles;
  const auto hook = reinterpret_cast<void (*)()>(&note_handle);
  ASSERT_EQ(sqlite3_auto_extension(hook), SQLITE_OK);
  const auto log = SqliteEventLog::open(folder + "/log.db").value();
  sqlite3_cancel_auto_extension(hook);
  ASSERT_EQ(handles.size(), 1u);
  EXPECT_EQ(pragma(handles[0], "synchronous"), "2") << "FULL";
  EXPECT_EQ(pragma(handles[0], "journal_mode"), "wal");
}

TEST_F(Durability, EachAppendSyncsTheWriteAheadLogBeforeItAnswers) {
  const auto log = SqliteEventLog::open(folder + "/log.db").value();
  std::vector<std::string> files;
  synced = &files;
  for (std::size_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(log->append({Record{.term = 1, .at = {}, .job = i, .payload = "x"}}, {}));
    EXPECT_GE(std::count(files.begin(), files.end(), "log.db-wal"), static_cast<std::ptrdiff_t>(i));
  }
  synced = nullptr;
}

}  // namespace
}  // namespace dlrun::store
