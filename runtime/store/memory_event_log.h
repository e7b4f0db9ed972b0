#pragma once
/// runtime/store/memory_event_log.h: EventLog without a disk, for tests and the simulator: the same
/// answers, nothing durable. `copy` it to model what was on disk at a crash.

#include <map>

#include "runtime/store/event_log.h"

namespace dlrun::store {

class MemoryEventLog final : public EventLog {
 public:
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

  /// The next appends fail with kResourceExhausted, as on a full disk.
  void set_full(bool full) { full_ = full; }

 private:
  std::map<std::uint64_t, Record> records_;
  std::map<std::uint64_t, JobRow> rows_;
  std::uint64_t last_ = 0;
  bool full_ = false;
};

}  // namespace dlrun::store
