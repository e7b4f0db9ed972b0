#pragma once
/// runtime/store/event_log.h: the durable log that every table is derived from, and the one table
/// that is kept beside it.
/// Implementations: SqliteEventLog (WAL, synchronous=FULL), MemoryEventLog (tests, simulator).
/// Errors: kResourceExhausted (disk full: nothing of the batch is kept), kFailedPrecondition
/// (second writer, newer schema), kCorrupt (names the record).
/// Threads: single owner; a reader opens a handle of its own.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::store {

/// `payload` is a Cap'n Proto message of runtime/wire/event.capnp.
struct Record {
  std::uint64_t index = 0;  ///< dense, from 1
  std::uint64_t term = 0;
  WallTime at;
  std::uint64_t job = 0;  ///< 0 = cluster
  std::string payload;
  friend bool operator==(const Record&, const Record&) = default;
};

/// A job as lists show it, folded from its records. `view` is an encoded cluster::JobView.
struct JobRow {
  std::uint64_t job = 0;
  std::uint8_t state = 0;  ///< cluster::JobState
  bool finished = false;
  std::string owner;
  std::string idempotency_key;
  WallTime submitted;
  WallTime ended;
  std::string view;
  friend bool operator==(const JobRow&, const JobRow&) = default;
};

struct JobFilter {
  std::optional<std::uint8_t> state;
  std::string owner;         ///< "" = all
  std::uint64_t before = 0;  ///< job ids below this; 0 = from the newest
  std::uint32_t limit = 50;
};

class EventLog {
 public:
  virtual ~EventLog() = default;
  /// Appends the records (their `index` is ignored) and replaces the rows, all or nothing, in one
  /// durable commit. Returns the index of the last record. An empty call is no commit.
  virtual Result<std::uint64_t> append(const std::vector<Record>& records,
                                       const std::vector<JobRow>& rows) = 0;
  /// Calls `visit` for each record with index >= first, in order, until it returns false.
  virtual Status read_from(std::uint64_t first,
                           const std::function<bool(const Record&)>& visit) = 0;
  /// Same, of one job (0 = the cluster's own). O(records of the job).
  virtual Status read_job(std::uint64_t job, std::uint64_t first,
                          const std::function<bool(const Record&)>& visit) = 0;

  virtual Result<std::optional<JobRow>> job(std::uint64_t id) = 0;
  virtual Result<std::vector<JobRow>> jobs(const JobFilter& filter) = 0;  ///< newest first
  virtual Result<std::vector<JobRow>> unfinished() = 0;                   ///< oldest first
  virtual Result<std::uint64_t> finished_count() = 0;
  virtual Result<std::uint64_t> max_job() = 0;  ///< 0 when there is none
  /// Ids of finished jobs that came with an idempotency key, newest first.
  virtual Result<std::vector<std::uint64_t>> finished_with_key(std::uint32_t limit) = 0;
  /// Forgets the finished jobs that ended before `ended_before`, with their records; at most
  /// `jobs_max` a call, so that a call is short. Returns which went. The newest job of all stays:
  /// its id must not be given again.
  virtual Result<std::vector<std::uint64_t>> retire(WallTime ended_before,
                                                    std::uint32_t jobs_max) = 0;
  /// Forgets single records, all or none; the newest of all stays, so that indexes stay dense.
  virtual Status remove(const std::vector<std::uint64_t>& indexes) = 0;
};

}  // namespace dlrun::store
