#include "runtime/cluster/actor/control_log.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "runtime/wire/event_codec.h"

namespace dlrun::cluster {
namespace {

constexpr std::uint32_t kJobsListMax = 1000;
constexpr std::uint32_t kEventsListMax = 10'000;
/// Records looked at for one answer: those that are for no person cost time too.
constexpr std::uint32_t kEventsScanMax = 20'000;
constexpr std::size_t kRetireRecordsMax = 10'000;
constexpr std::size_t kForgetRecords = 4096;  // and what the last job brings

store::JobRow row_of(const JobSubmitted& event) {
  JobView view;
  view.id = event.job;
  view.spec = event.spec;
  view.spec.submit_env.clear();
  view.submitted = event.at;
  store::JobRow row;
  row.job = event.job.value;
  row.state = static_cast<std::uint8_t>(JobState::kPending);
  row.owner = event.spec.owner;
  if (const auto newline = event.key.find('\n'); newline != std::string::npos)
    row.idempotency_key = event.key.substr(newline + 1);
  row.submitted = event.at;
  row.view = wire::encode(view);
  return row;
}

Result<Event> decode(const store::Record& record) {
  Result<Event> event = wire::decode_event(record.payload);
  if (!event) return fail_as("record " + std::to_string(record.index) + " of the log", event);
  return event;
}

}  // namespace

Result<store::JobRow> ControlLog::row_of(const JobEnded& event) {
  store::JobRow row;
  row.job = event.view.id.value;
  row.state = static_cast<std::uint8_t>(event.view.state);
  row.finished = true;
  row.owner = event.view.spec.owner;
  row.submitted = event.view.submitted;
  row.ended = event.view.ended;
  row.view = wire::encode(event.view);
  DLRUN_ASSIGN(const auto before, log_->job(row.job));
  if (before) row.idempotency_key = before->idempotency_key;
  return row;
}

Result<std::uint64_t> ControlLog::append(const std::vector<Event>& events, std::uint64_t term,
                                         WallTime at) {
  std::vector<store::Record> records;
  std::vector<store::JobRow> rows;
  records.reserve(events.size());
  for (const Event& event : events) {
    records.push_back({0, term, at, job_of(event).value, wire::encode(event)});
    if (const auto* submitted = std::get_if<JobSubmitted>(&event))
      rows.push_back(cluster::row_of(*submitted));
    if (const auto* ended = std::get_if<JobEnded>(&event)) {
      DLRUN_ASSIGN(store::JobRow row, row_of(*ended));
      for (const store::JobRow& earlier : rows)
        if (earlier.job == row.job) row.idempotency_key = earlier.idempotency_key;
      rows.push_back(std::move(row));
    }
  }
  DLRUN_ASSIGN(const std::uint64_t last, log_->append(records, rows));
  for (std::size_t i = 0; i < events.size(); ++i) note(events[i], last - (events.size() - 1 - i));
  return last;
}

void ControlLog::note_commit(const InputsCommitted& commit, std::uint64_t index) {
  std::uint64_t& last = commits_[commit.job][commit.role];
  if (last >= index) return;
  if (last != 0) superseded_[commit.job].commits.push_back(last);
  last = index;
}

void ControlLog::note(const Event& event, std::uint64_t index) {
  const JobId job = job_of(event);
  if (const auto* commit = std::get_if<InputsCommitted>(&event)) return note_commit(*commit, index);
  if (const auto it = commits_.find(job);
      it != commits_.end() && std::holds_alternative<JobEnded>(event)) {
    for (const auto& [role, last] : it->second) superseded_[job].commits.push_back(last);
    commits_.erase(it);
  }
  if (supersedes(event)) {
    // Most jobs have nothing that can be: they are not read for it.
    if (const auto it = growing_.find(job); it != growing_.end()) {
      const bool by_end = is_superseded(InputFilesSet{job, {}, "", {}}, event);
      Superseded& noted = superseded_[job];
      if (noted.from.files == 0) noted.from.files = it->second.files;
      if (noted.from.rest == 0) noted.from.rest = it->second.rest;
      (by_end ? noted.by_end : noted.by_snapshot) = index;
      it->second.rest = 0;
      if (by_end) growing_.erase(it);
    }
  }
  if (!is_superseded(event, GenerationEnded{job, {}, {}, "", {}})) return;
  Growing& growing = growing_[job];
  std::uint64_t& first =
      std::holds_alternative<InputFilesSet>(event) ? growing.files : growing.rest;
  if (first == 0) first = index;
}

Status ControlLog::forget_superseded() {
  std::vector<std::uint64_t> gone;
  std::vector<JobId> jobs;
  for (const auto& [job, what] : superseded_) {
    DLRUN_TRY(collect(job, what, gone));
    jobs.push_back(job);
    if (gone.size() >= kForgetRecords) break;
  }
  if (!gone.empty()) DLRUN_TRY(log_->remove(gone));
  for (const JobId job : jobs) superseded_.erase(job);
  return {};
}

Status ControlLog::collect(JobId job, const Superseded& what, std::vector<std::uint64_t>& gone) {
  const Event by_end = GenerationEnded{job, {}, {}, "", {}};
  const Event by_snapshot = JobSnapshot{job, {}, {}, {}, {}};
  gone.insert(gone.end(), what.commits.begin(), what.commits.end());
  std::uint64_t first = what.from.rest;
  if (what.by_end != 0 && what.from.files != 0)  // else they stay, and are no place to begin at
    first = first == 0 ? what.from.files : std::min(first, what.from.files);
  if (first == 0) return {};
  const std::uint64_t end = std::max(what.by_end, what.by_snapshot);
  return log_->read_job(job.value, first, [&](const store::Record& record) {
    if (record.index >= end) return false;
    if (const Result<Event> event = wire::decode_event(record.payload);
        event && ((record.index < what.by_end && is_superseded(*event, by_end)) ||
                  (record.index < what.by_snapshot && is_superseded(*event, by_snapshot))))
      gone.push_back(record.index);
    return true;
  });
}

Status ControlLog::replay(std::size_t keys_max, const std::function<void(const Event&)>& visit) {
  Baseline baseline;
  DLRUN_ASSIGN(const std::uint64_t last_job, log_->max_job());
  DLRUN_ASSIGN(baseline.jobs_finished, log_->finished_count());
  baseline.last_job = JobId(last_job);
  DLRUN_ASSIGN(const std::vector<std::uint64_t> keyed,
               log_->finished_with_key(static_cast<std::uint32_t>(keys_max)));
  for (const std::uint64_t job : keyed)
    DLRUN_TRY(log_->read_job(job, 0, [&](const store::Record& record) {
      if (Result<SeenKey> key = wire::decode_submit_key(record.payload); key && !key->key.empty())
        baseline.keys.push_back(std::move(*key));
      return false;  // the first record only
    }));
  std::reverse(baseline.keys.begin(), baseline.keys.end());
  visit(baseline);

  Status broken;
  auto pass_on = [&](const store::Record& record) {
    const Result<Event> event = decode(record);
    if (!event) {
      broken = tl::unexpected(event.error());
      return false;
    }
    note(*event, record.index);
    visit(*event);
    return true;
  };
  DLRUN_TRY(log_->read_job(0, 0, pass_on));
  DLRUN_TRY(broken);
  DLRUN_ASSIGN(const std::vector<store::JobRow> unfinished, log_->unfinished());
  for (const store::JobRow& row : unfinished) {
    DLRUN_TRY(log_->read_job(row.job, 0, pass_on));
    DLRUN_TRY(broken);
  }
  return {};
}

Result<ApiReply> ControlLog::read(const ReadJob& query) {
  DLRUN_ASSIGN(const auto row, log_->job(query.job.value));
  if (!row) return fail(Errc::kNotFound, "no job " + to_string(query.job));
  DLRUN_ASSIGN(JobView view, wire::decode_job_view(row->view));
  return ApiReply(std::move(view));
}

Result<ApiReply> ControlLog::read(const ReadJobs& query) {
  const std::uint32_t limit = std::clamp<std::uint32_t>(query.query.limit, 1, kJobsListMax);
  JobList list;
  list.jobs = query.live;
  store::JobFilter filter;
  if (query.query.state) filter.state = static_cast<std::uint8_t>(*query.query.state);
  filter.owner = query.query.owner;
  filter.before = query.query.before.value;
  filter.limit = limit;
  DLRUN_ASSIGN(const std::vector<store::JobRow> rows, log_->jobs(filter));
  for (const store::JobRow& row : rows) {
    // Unfinished rows are stale by design: the core knows those jobs better. One that it just ended
    // may be in both.
    if (!row.finished) continue;
    const bool known = std::any_of(query.live.begin(), query.live.end(),
                                   [&](const JobView& v) { return v.id.value == row.job; });
    if (known) continue;
    DLRUN_ASSIGN(JobView view, wire::decode_job_view(row.view));
    view.tasks.clear();
    list.jobs.push_back(std::move(view));
  }
  std::sort(list.jobs.begin(), list.jobs.end(),
            [](const JobView& a, const JobView& b) { return a.id > b.id; });
  if (list.jobs.size() > limit) list.jobs.resize(limit);
  return ApiReply(std::move(list));
}

Result<ApiReply> ControlLog::read(const ReadEvents& query) {
  const std::uint32_t limit = std::clamp<std::uint32_t>(query.query.limit, 1, kEventsListMax);
  EventList list;
  list.last = query.query.after;
  Status broken;
  std::uint32_t scanned = 0;
  auto take = [&](const store::Record& record) {
    const Result<Event> event = decode(record);
    const bool more = ++scanned < kEventsScanMax;
    if (!event &&
        event.error().code == Errc::kUnsupported) {  // a newer build wrote it, or a much older
      list.last = record.index;
      return more;
    }
    if (!event) {
      broken = tl::unexpected(event.error());
      return false;
    }
    list.last = record.index;
    if (is_for_people(*event))
      list.events.push_back({record.index, record.at, JobId(record.job),
                             std::string(kind_of(*event)), text_of(*event)});
    return more && list.events.size() < limit;
  };
  if (query.query.after == std::numeric_limits<std::uint64_t>::max())
    return ApiReply(std::move(list));  // nothing comes after it; + 1 would begin anew
  const std::uint64_t first = query.query.after + 1;
  if (query.query.job.value != 0)
    DLRUN_TRY(log_->read_job(query.query.job.value, first, take));
  else
    DLRUN_TRY(log_->read_from(first, take));
  DLRUN_TRY(broken);
  return ApiReply(std::move(list));
}

Result<ControlLog::Retired> ControlLog::retire(WallTime before, std::uint32_t jobs_max) {
  Retired retired;
  DLRUN_ASSIGN(retired.jobs, log_->retire(before, jobs_max));
  // What a replay needs of the cluster's own records: the last term, and the last that each node
  // joined with.
  std::vector<std::uint64_t> old;
  std::map<NodeId, std::uint64_t> joined;
  std::optional<std::uint64_t> term;
  DLRUN_TRY(log_->read_job(0, 0, [&](const store::Record& record) {
    if (record.at >= before || old.size() >= kRetireRecordsMax) return false;
    const Result<Event> event = wire::decode_event(record.payload);
    std::optional<std::uint64_t> superseded;
    if (!event) return true;  // a newer build's, or damaged: not ours to judge
    if (std::holds_alternative<TermStarted>(*event)) {
      superseded = std::exchange(term, record.index);
    } else if (const auto* node = std::get_if<NodeJoined>(&*event)) {
      if (const auto it = joined.find(node->node); it != joined.end()) superseded = it->second;
      joined[node->node] = record.index;
    } else if (std::holds_alternative<NodeStateChanged>(*event)) {
      superseded = record.index;
    }
    if (superseded) old.push_back(*superseded);
    return true;
  }));
  DLRUN_TRY(log_->remove(old));
  retired.cluster_records = old.size();
  retired.more = retired.jobs.size() == jobs_max || old.size() == kRetireRecordsMax;
  return retired;
}

}  // namespace dlrun::cluster
