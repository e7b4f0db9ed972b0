#pragma once
/// runtime/store/event_log.h: the durable log that every table is derived from.
/// Implementations: SqliteEventLog (WAL, synchronous=FULL, group commit), MemoryEventLog (tests, simulator).
/// Errors: kResourceExhausted (disk full: nothing of the batch is kept), kFailedPrecondition (second writer, newer schema),
/// kCorrupt (names the record). Threads: one writer; readers have their own handle.

#include <cstdint>
#include <functional>
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
};

class EventLog {
 public:
  virtual ~EventLog() = default;
  /// Appends all or nothing, in one durable commit, and returns the index of the last. `index` of the input is ignored.
  virtual Result<std::uint64_t> append(const std::vector<Record>& records) = 0;
  /// Calls `visit` for each record with index >= first, in order, until it returns false.
  virtual Status read_from(std::uint64_t first, const std::function<bool(const Record&)>& visit) = 0;
  virtual std::uint64_t last_index() const = 0;
};

}  // namespace dlrun::store
