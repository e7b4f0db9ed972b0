#pragma once
/// runtime/store/sqlite_event_log.h: EventLog in one SQLite file. The schema is in README.md of
/// this folder.
/// Durability: WAL with synchronous=FULL: `append` returns after the commit's fsync. The caller
/// groups records of many requests into one append (group commit).
/// One writer: `<path>.lock` is held with flock for the life of the object; a second open is
/// kFailedPrecondition with the holder's pid. A file of a newer schema is kFailedPrecondition and
/// stays untouched.

#include <memory>
#include <string>

#include "runtime/store/event_log.h"

namespace dlrun::store {

class SqliteEventLog final : public EventLog {
 public:
  static constexpr int kSchemaVersion = 1;

  /// Creates the file (0600) when it is not there.
  static Result<std::unique_ptr<SqliteEventLog>> open(const std::string& path);
  /// A second handle on the file of an open log, for another thread: it sees each commit that was
  /// acknowledged before the call, and never holds the writer. append, retire and remove are
  /// kFailedPrecondition.
  static Result<std::unique_ptr<SqliteEventLog>> open_reader(const std::string& path);
  ~SqliteEventLog() override;

  Result<std::uint64_t> append(const std::vector<Record>& records,
                               const std::vector<JobRow>& rows) override;
  Status read_from(std::uint64_t first, const std::function<bool(const Record&)>& visit) override;
  Status read_job(std::uint64_t job, std::uint64_t first,
                  const std::function<bool(const Record&)>& visit) override;
  Result<std::optional<JobRow>> job(std::uint64_t id) override;
  Result<std::vector<JobRow>> jobs(const JobFilter& filter) override;
  Result<std::vector<JobRow>> unfinished() override;
  Result<std::uint64_t> finished_count() override;
  Result<std::uint64_t> max_job() override;
  Result<std::vector<std::uint64_t>> finished_with_key(std::uint32_t limit) override;
  Result<std::vector<std::uint64_t>> retire(WallTime ended_before, std::uint32_t jobs_max) override;
  Status remove(const std::vector<std::uint64_t>& indexes) override;

 private:
  struct Impl;
  explicit SqliteEventLog(std::unique_ptr<Impl> impl);
  /// BEGIN, `work`, COMMIT; ROLLBACK when one of them fails.
  template <class Work>
  Status in_transaction(const std::string& what, Work work);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::store
