#include "runtime/store/memory_event_log.h"

namespace dlrun::store {

Result<std::uint64_t> MemoryEventLog::append(const std::vector<Record>& records,
                                             const std::vector<JobRow>& rows) {
  if (full_) return fail(Errc::kResourceExhausted, "event log: disk full");
  for (Record record : records) {
    record.index = ++last_;
    records_.emplace(last_, std::move(record));
  }
  for (const JobRow& row : rows) rows_[row.job] = row;
  return last_;
}

Status MemoryEventLog::read_from(std::uint64_t first,
                                 const std::function<bool(const Record&)>& visit) {
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

Result<std::uint64_t> MemoryEventLog::max_job() {
  return rows_.empty() ? 0 : rows_.rbegin()->first;
}

Result<std::vector<std::uint64_t>> MemoryEventLog::finished_with_key(std::uint32_t limit) {
  std::vector<std::uint64_t> ids;
  for (auto it = rows_.rbegin(); it != rows_.rend() && ids.size() < limit; ++it)
    if (it->second.finished && !it->second.idempotency_key.empty()) ids.push_back(it->first);
  return ids;
}

Result<std::vector<std::uint64_t>> MemoryEventLog::retire(WallTime ended_before,
                                                          std::uint32_t jobs_max) {
  std::vector<std::uint64_t> gone;
  for (const auto& [id, row] : rows_) {
    const bool newest = id == rows_.rbegin()->first;
    if (gone.size() < jobs_max && row.finished && row.ended < ended_before && !newest)
      gone.push_back(id);
  }
  for (const std::uint64_t id : gone) {
    std::erase_if(records_, [&](const auto& entry) {
      return entry.second.job == id && entry.first != last_;
    });
    rows_.erase(id);
  }
  return gone;
}

Status MemoryEventLog::remove(const std::vector<std::uint64_t>& indexes) {
  for (const std::uint64_t index : indexes)
    if (index != last_) records_.erase(index);
  return {};
}

}  // namespace dlrun::store
