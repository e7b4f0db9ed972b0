#include "runtime/store/event_log.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include "runtime/base/rng.h"
#include "runtime/store/memory_event_log.h"
#include "runtime/store/sqlite_event_log.h"

namespace dlrun::store {
namespace {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/dlrun-store-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file() const { return path_ + "/log.db"; }

 private:
  std::string path_;
};

Record record(std::uint64_t job, std::string payload) {
  return Record{.term = 1, .at = WallTime{5}, .job = job, .payload = std::move(payload)};
}
JobRow row(std::uint64_t job, bool finished, std::string key = "") {
  return JobRow{.job = job,
                .state = static_cast<std::uint8_t>(finished ? 7 : 4),
                .finished = finished,
                .owner = "ada",
                .idempotency_key = std::move(key),
                .submitted = WallTime{1},
                .ended = WallTime{finished ? 100 : 0},
                .view = std::string("v\0w", 3)};
}
std::vector<Record> all(EventLog& log) {
  std::vector<Record> out;
  EXPECT_TRUE(log.read_from(1, [&](const Record& r) {
    out.push_back(r);
    return true;
  }));
  return out;
}

TEST(EventLog, SqliteAndMemoryGiveTheSameAnswersToTheSameCalls) {
  Folder folder;
  auto sqlite = SqliteEventLog::open(folder.file()).value();
  MemoryEventLog memory;
  SplitMix64 rng(11);
  for (int step = 0; step < 400; ++step) {
    std::vector<Record> records;
    for (std::uint64_t i = rng.below(4); i > 0; --i)
      records.push_back(
          record(rng.below(20), std::string(rng.below(30), static_cast<char>(rng.below(256)))));
    std::vector<JobRow> rows;
    for (std::uint64_t i = rng.below(3); i > 0; --i) {
      const std::uint64_t id = 1 + rng.below(20);
      rows.push_back(row(id, rng.below(2) == 0, rng.below(2) == 0 ? "k" + std::to_string(id) : ""));
    }
    ASSERT_EQ(sqlite->append(records, rows).value(), memory.append(records, rows).value());
    if (step % 50 == 49) {
      ASSERT_EQ(sqlite->retire(WallTime{200}, 3).value(), memory.retire(WallTime{200}, 3).value());
      std::vector<std::uint64_t> some;
      for (int i = 0; i < 5; ++i) some.push_back(1 + rng.below(600));
      ASSERT_TRUE(sqlite->remove(some));
      ASSERT_TRUE(memory.remove(some));
      ASSERT_EQ(all(*sqlite), all(memory));
    }
    JobFilter filter{.before = rng.below(25),
                     .limit = static_cast<std::uint32_t>(1 + rng.below(10))};
    if (rng.below(2) == 0) filter.state = 7;
    if (rng.below(3) == 0) filter.owner = rng.below(2) == 0 ? "ada" : "bob";
    ASSERT_EQ(sqlite->jobs(filter).value(), memory.jobs(filter).value());
    ASSERT_EQ(sqlite->unfinished().value(), memory.unfinished().value());
    ASSERT_EQ(sqlite->finished_count().value(), memory.finished_count().value());
    ASSERT_EQ(sqlite->finished_with_key(3).value(), memory.finished_with_key(3).value());
    const std::uint64_t id = 1 + rng.below(20);
    ASSERT_EQ(sqlite->job(id).value(), memory.job(id).value());
  }
}

TEST(EventLog, TheIdOfTheNewestJobOutlivesItsRetirement) {
  Folder folder;
  auto log = SqliteEventLog::open(folder.file()).value();
  ASSERT_TRUE(log->append({record(1, "a"), record(2, "b")}, {row(1, true), row(2, true)}));
  EXPECT_EQ(log->retire(WallTime{200}, 10).value(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(log->max_job().value(), 2u) << "else job 2 would be given again";
  EXPECT_TRUE(log->retire(WallTime{200}, 10).value().empty());
}

TEST(EventLog, AReaderSeesWhatWasAcknowledgedWhileTheWriterGoesOnAndWritesNothing) {
  Folder folder;
  auto log = SqliteEventLog::open(folder.file()).value();
  ASSERT_TRUE(log->append({record(1, "a")}, {row(1, false)}));
  auto reader = SqliteEventLog::open_reader(folder.file()).value();
  std::size_t seen = 0;
  ASSERT_TRUE(reader->read_from(1, [&](const Record&) {
    ++seen;
    // In the midst of a scan the writer is not held.
    EXPECT_TRUE(log->append({record(1, "b")}, {row(1, true)}));
    return seen < 10;
  }));
  EXPECT_EQ(seen, 1u) << "a scan is of one moment";
  EXPECT_EQ(all(*reader).size(), 2u);
  EXPECT_TRUE(reader->job(1).value()->finished);
  EXPECT_EQ(reader->append({record(1, "c")}, {}).error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(reader->remove({1}).error().code, Errc::kFailedPrecondition);
}

TEST(EventLog, ReadsBackWhatWasAppendedAfterAReopen) {
  Folder folder;
  {
    auto log = SqliteEventLog::open(folder.file()).value();
    ASSERT_EQ(
        log->append({record(0, "a"), record(3, std::string("b\0c", 3))}, {row(3, false)}).value(),
        2u);
  }
  auto log = SqliteEventLog::open(folder.file()).value();
  const auto records = all(*log);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].payload, std::string("b\0c", 3));
  EXPECT_EQ(records[1].index, 2u);
  EXPECT_EQ(log->unfinished().value(), std::vector<JobRow>{row(3, false)});
  EXPECT_EQ(log->append({record(3, "d")}, {}).value(), 3u);
}

TEST(EventLog, RefusesASecondWriterAndNamesTheFirst) {
  Folder folder;
  auto first = SqliteEventLog::open(folder.file()).value();
  auto second = SqliteEventLog::open(folder.file());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kFailedPrecondition);
  EXPECT_NE(second.error().context.find(std::to_string(getpid())), std::string::npos)
      << second.error().context;
}

TEST(EventLog, RefusesAFileOfANewerSchemaAndLeavesItAlone) {
  Folder folder;
  SqliteEventLog::open(folder.file()).value();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(folder.file().c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  auto log = SqliteEventLog::open(folder.file());
  ASSERT_FALSE(log.has_value());
  EXPECT_EQ(log.error().code, Errc::kFailedPrecondition);
  EXPECT_NE(log.error().context.find("99"), std::string::npos);
}

TEST(EventLog, RefusesAFileThatIsNoDatabase) {
  Folder folder;
  FILE* file = fopen(folder.file().c_str(), "w");
  for (int i = 0; i < 1000; ++i) fputs("not a database ", file);
  fclose(file);
  auto log = SqliteEventLog::open(folder.file());
  ASSERT_FALSE(log.has_value());
  EXPECT_EQ(log.error().code, Errc::kCorrupt);
}

// A child appends and reports each index after append() returned; the parent kills it in the
// middle.
TEST(EventLog, KeepsEveryAcknowledgedRecordThroughSigkill) {
  Folder folder;
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);  // kill(-1) would end every process
  if (child == 0) {
    close(pipes[0]);
    auto log = SqliteEventLog::open(folder.file());
    for (std::uint64_t i = 1; log; ++i) {
      const auto index = (*log)->append({record(1, "payload " + std::to_string(i))}, {});
      if (!index || write(pipes[1], &*index, sizeof *index) < 0) _exit(1);
    }
    _exit(1);
  }
  close(pipes[1]);
  std::uint64_t acknowledged = 0, index = 0;
  while (acknowledged < 60 && read(pipes[0], &index, sizeof index) == sizeof index)
    acknowledged = index;
  kill(child, SIGKILL);
  while (read(pipes[0], &index, sizeof index) == sizeof index) acknowledged = index;
  waitpid(child, nullptr, 0);
  close(pipes[0]);
  ASSERT_GE(acknowledged, 60u);
  auto log = SqliteEventLog::open(folder.file()).value();
  const auto records = all(*log);
  ASSERT_GE(records.size(), acknowledged);
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(records[i].payload, "payload " + std::to_string(i + 1));
}

}  // namespace
}  // namespace dlrun::store
