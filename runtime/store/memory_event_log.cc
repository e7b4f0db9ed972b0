#include "runtime/store/memory_event_log.h"

namespace dlrun::store {

Result<std::uint64_t> MemoryEventLog::append(const std::vector<Record>& records, const std::vector<JobRow>& rows) {
  if (full_) return fail(Errc::kResourceExhausted, "event log: disk full");
  for (Record record : records) {
    record.index = ++last_;
    records_.emplace(last_, std::move(record));
  }
  for (const JobRow& row : rows) rows_[row.job] = row;
  return last_;
}

Status MemoryEventLog::read_from(std::uint64_t first, const std::function<bool(const Record&)>& visit) {
  for (auto it = records_.lower_bound(first); it != records_.end(); ++it)
    if (!visit(it->second)) break;
  return {};
}

Status MemoryEventLog::read_job(std::uint64_t job, std::uint64_t first,
                                const std::function<bool(const Record&)>& visit) {
  for (auto it = records_.lower_bound(first); it != records_.end(); ++it)
    if (it->second.job == job && !visit(it->second)) break;
  return {};
}

Result<std::optional<JobRow>> MemoryEventLog::job(std::uint64_t id) {
  const auto it = rows_.find(id);
  if (it == rows_.end()) return std::optional<JobRow>();
  return std::optional<JobRow>(it->second);
}

Result<std::vector<JobRow>> MemoryEventLog::jobs(const JobFilter& filter) {
  std::vector<JobRow> out;
  for (auto it = rows_.rbegin(); it != rows_.rend() && out.size() < filter.limit; ++it) {
    const JobRow& row = it->second;
    if (filter.before != 0 && row.job >= filter.before) continue;
    if (filter.state && row.state != *filter.state) continue;
    if (!filter.owner.empty() && row.owner != filter.owner) continue;
    out.push_back(row);
  }
  return out;
}

Result<std::vector<JobRow>> MemoryEventLog::unfinished() {
  std::vector<JobRow> out;
  for (const auto& [id, row] : rows_)
    if (!row.finished) out.push_back(row);
  return out;
}

Result<std::uint64_t> MemoryEventLog::finished_count() {
  std::uint64_t n = 0;
  for (const auto& [id, row] : rows_) n += row.finished ? 1 : 0;
  return n;
}

Result<std::uint64_t> MemoryEventLog::max_job() { return rows_.empty() ? 0 : rows_.rbegin()->first; }

Result<std::optional<std::uint64_t>> MemoryEventLog::job_by_key(const std::string& owner,
                                                                const std::string& idempotency_key) {
  for (const auto& [id, row] : rows_)
    if (!idempotency_key.empty() && row.idempotency_key == idempotency_key && row.owner == owner)
      return std::optional<std::uint64_t>(id);
  return std::optional<std::uint64_t>();
}

Result<std::uint32_t> MemoryEventLog::retire(WallTime ended_before, std::uint32_t jobs_max) {
  std::uint32_t gone = 0;
  for (auto it = rows_.begin(); it != rows_.end() && gone < jobs_max;) {
    if (!it->second.finished || it->second.ended >= ended_before) {
      ++it;
      continue;
    }
    std::erase_if(records_, [&](const auto& entry) { return entry.second.job == it->first; });
    it = rows_.erase(it);
    ++gone;
  }
  return gone;
}

}  // namespace dlrun::store
