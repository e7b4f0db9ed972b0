#include "runtime/store/sqlite_event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/os/file_lock.h"
#include "runtime/store/sqlite.h"

namespace dlrun::store {
namespace {

// WAL: a reader waits for nobody but a checkpoint that starts the log anew
constexpr int kReaderWaitMs = 2000;

constexpr const char* kSchema = R"sql(
CREATE TABLE event (idx INTEGER PRIMARY KEY, term INTEGER NOT NULL, at_ns INTEGER NOT NULL, job INTEGER NOT NULL,
                    payload BLOB NOT NULL);
CREATE INDEX event_by_job ON event (job, idx);
CREATE TABLE job (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, finished INTEGER NOT NULL, owner TEXT NOT NULL,
                  idempotency_key TEXT, submitted_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, view BLOB NOT NULL);
CREATE INDEX job_unfinished ON job (id) WHERE finished = 0;
CREATE INDEX job_ended ON job (ended_ns) WHERE finished = 1;
CREATE UNIQUE INDEX job_key ON job (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
)sql";

/// Added since the first version; the schema's version does not change for them.
constexpr const char* kIndexes =
    "CREATE INDEX IF NOT EXISTS job_keyed ON job (id) WHERE finished = 1 AND idempotency_key IS "
    "NOT NULL";

constexpr const char* kRowColumns =
    "id, state, finished, owner, coalesce(idempotency_key, ''), submitted_ns, ended_ns, view";

Record read_record(const Statement& s) {
  return Record{.index = s.integer(0),
                .term = s.integer(1),
                .at = WallTime{static_cast<std::int64_t>(s.integer(2))},
                .job = s.integer(3),
                .payload = s.text(4)};
}

JobRow read_row(const Statement& s) {
  return JobRow{.job = s.integer(0),
                .state = static_cast<std::uint8_t>(s.integer(1)),
                .finished = s.integer(2) != 0,
                .owner = s.text(3),
                .idempotency_key = s.text(4),
                .submitted = WallTime{static_cast<std::int64_t>(s.integer(5))},
                .ended = WallTime{static_cast<std::int64_t>(s.integer(6))},
                .view = s.text(7)};
}

Result<std::vector<JobRow>> read_rows(Statement& s) {
  std::vector<JobRow> rows;
  for (;;) {
    DLRUN_ASSIGN(const bool more, s.step());
    if (!more) return rows;
    rows.push_back(read_row(s));
  }
}

Result<std::vector<std::uint64_t>> read_integers(Statement& s) {
  std::vector<std::uint64_t> out;
  for (;;) {
    DLRUN_ASSIGN(const bool more, s.step());
    if (!more) return out;
    out.push_back(s.integer(0));
  }
}

/// Of a statement without rows; reset even when it fails.
Status run_once(Statement& s) {
  const auto stepped = s.step();
  s.reset();
  if (!stepped) return tl::unexpected(stepped.error());
  return {};
}

Status prepare(sqlite3* db, std::optional<Statement>& out, const char* sql) {
  DLRUN_ASSIGN(Statement statement, Statement::prepare(db, sql));
  out.emplace(std::move(statement));
  return {};
}

Result<std::uint64_t> single_integer(sqlite3* db, const char* sql) {
  DLRUN_ASSIGN(Statement s, Statement::prepare(db, sql));
  DLRUN_ASSIGN(const bool row, s.step());
  return row ? s.integer(0) : 0;
}

}  // namespace

struct SqliteEventLog::Impl {
  std::optional<os::FileLock> lock;
  Database db;
  std::optional<Statement> insert_event, upsert_job, read_from, read_job;
  std::uint64_t last = 0;

  /// Opens the file; returns its schema's version, which is not above ours.
  Result<std::uint64_t> connect(const std::string& path, int mode) {
    sqlite3* raw = nullptr;
    const int rc = sqlite3_open_v2(path.c_str(), &raw, mode | SQLITE_OPEN_NOMUTEX, nullptr);
    db.reset(raw);
    if (rc != SQLITE_OK) return sqlite_fail(raw, "open " + path);
    sqlite3_busy_timeout(raw, mode == SQLITE_OPEN_READONLY ? kReaderWaitMs : 0);
    DLRUN_ASSIGN(const std::uint64_t version, single_integer(raw, "PRAGMA user_version"));
    if (version > kSchemaVersion)
      return fail(Errc::kFailedPrecondition, path + " was written by a newer dlrun (schema " +
                                                 std::to_string(version) + ", this one knows " +
                                                 std::to_string(kSchemaVersion) + ")");
    return version;
  }

  Status prepare_reads() {
    DLRUN_TRY(prepare(db.get(), read_from, "SELECT * FROM event WHERE idx >= ? ORDER BY idx"));
    return prepare(db.get(), read_job,
                   "SELECT * FROM event WHERE job = ? AND idx >= ? ORDER BY idx");
  }

  Status visit_all(Statement& s, const std::function<bool(const Record&)>& visit) {
    for (;;) {
      auto more = s.step();
      if (!more) {
        s.reset();
        return tl::unexpected(more.error());
      }
      if (!*more || !visit(read_record(s))) break;
    }
    s.reset();
    return {};
  }

  Status insert_all(const std::vector<Record>& records, const std::vector<JobRow>& rows) {
    std::uint64_t index = last;
    for (const Record& r : records) {
      auto& s = *insert_event;
      s.reset();
      s.bind(1, ++index);
      s.bind(2, r.term);
      s.bind(3, static_cast<std::uint64_t>(r.at.ns));
      s.bind(4, r.job);
      s.bind(5, r.payload, true);
      DLRUN_TRY(s.step());
    }
    for (const JobRow& r : rows) {
      auto& s = *upsert_job;
      s.reset();
      s.bind(1, r.job);
      s.bind(2, std::uint64_t{r.state});
      s.bind(3, std::uint64_t{r.finished});
      s.bind(4, r.owner, false);
      if (r.idempotency_key.empty())
        s.bind_null(5);
      else
        s.bind(5, r.idempotency_key, false);
      s.bind(6, static_cast<std::uint64_t>(r.submitted.ns));
      s.bind(7, static_cast<std::uint64_t>(r.ended.ns));
      s.bind(8, r.view, true);
      DLRUN_TRY(s.step());
    }
    return {};
  }
};

SqliteEventLog::SqliteEventLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteEventLog::~SqliteEventLog() = default;

Result<std::unique_ptr<SqliteEventLog>> SqliteEventLog::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  DLRUN_ASSIGN(impl->lock, os::FileLock::hold(path + ".lock"));
  const os::Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!made) return fail_errno("open " + path);
  DLRUN_ASSIGN(const std::uint64_t version, impl->connect(path, SQLITE_OPEN_READWRITE));
  sqlite3* db = impl->db.get();
  DLRUN_TRY(exec(db, "PRAGMA journal_mode=WAL"));
  DLRUN_TRY(exec(db, "PRAGMA synchronous=FULL"));
  DLRUN_TRY(exec(db, "PRAGMA cache_size=-4096"));
  if (version == 0) {
    DLRUN_TRY(exec(db, "BEGIN IMMEDIATE"));
    DLRUN_TRY(exec(db, kSchema));
    DLRUN_TRY(exec(db, "PRAGMA user_version=1"));
    DLRUN_TRY(exec(db, "COMMIT"));
  }
  DLRUN_TRY(exec(db, kIndexes));
  DLRUN_ASSIGN(impl->last, single_integer(db, "SELECT coalesce(max(idx), 0) FROM event"));
  DLRUN_TRY(prepare(db, impl->insert_event, "INSERT INTO event VALUES (?, ?, ?, ?, ?)"));
  DLRUN_TRY(
      prepare(db, impl->upsert_job, "INSERT OR REPLACE INTO job VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  DLRUN_TRY(impl->prepare_reads());
  return std::unique_ptr<SqliteEventLog>(new SqliteEventLog(std::move(impl)));
}

Result<std::unique_ptr<SqliteEventLog>> SqliteEventLog::open_reader(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  DLRUN_TRY(impl->connect(path, SQLITE_OPEN_READONLY));
  DLRUN_TRY(exec(impl->db.get(), "PRAGMA cache_size=-1024"));
  DLRUN_TRY(impl->prepare_reads());
  return std::unique_ptr<SqliteEventLog>(new SqliteEventLog(std::move(impl)));
}

template <class Work>
Status SqliteEventLog::in_transaction(const std::string& what, Work work) {
  if (!impl_->lock) return fail(Errc::kFailedPrecondition, what + ": this handle only reads");
  sqlite3* db = impl_->db.get();
  DLRUN_TRY(exec(db, "BEGIN IMMEDIATE"));
  Status done = work();
  if (done) done = exec(db, "COMMIT");
  if (done) return {};
  sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
  return fail_as(what, done);
}

Result<std::uint64_t> SqliteEventLog::append(const std::vector<Record>& records,
                                             const std::vector<JobRow>& rows) {
  if (records.empty() && rows.empty()) return impl_->last;
  const Status done = in_transaction("event log", [&]() -> Status {
    Status inserted = impl_->insert_all(records, rows);
    impl_->insert_event->reset();
    impl_->upsert_job->reset();
    return inserted;
  });
  if (!done) return tl::unexpected(done.error());
  impl_->last += records.size();
  return impl_->last;
}

Status SqliteEventLog::read_from(std::uint64_t first,
                                 const std::function<bool(const Record&)>& visit) {
  impl_->read_from->bind(1, first);
  return impl_->visit_all(*impl_->read_from, visit);
}

Status SqliteEventLog::read_job(std::uint64_t job, std::uint64_t first,
                                const std::function<bool(const Record&)>& visit) {
  impl_->read_job->bind(1, job);
  impl_->read_job->bind(2, first);
  return impl_->visit_all(*impl_->read_job, visit);
}

Result<std::optional<JobRow>> SqliteEventLog::job(std::uint64_t id) {
  const std::string sql = std::string("SELECT ") + kRowColumns + " FROM job WHERE id = ?";
  DLRUN_ASSIGN(Statement s, Statement::prepare(impl_->db.get(), sql.c_str()));
  s.bind(1, id);
  DLRUN_ASSIGN(const bool found, s.step());
  if (!found) return std::optional<JobRow>();
  return std::optional<JobRow>(read_row(s));
}

Result<std::vector<JobRow>> SqliteEventLog::jobs(const JobFilter& filter) {
  std::string sql = std::string("SELECT ") + kRowColumns + " FROM job WHERE 1";
  if (filter.before != 0) sql += " AND id < ?1";
  if (filter.state) sql += " AND state = ?2";
  if (!filter.owner.empty()) sql += " AND owner = ?3";
  sql += " ORDER BY id DESC LIMIT ?4";
  DLRUN_ASSIGN(Statement s, Statement::prepare(impl_->db.get(), sql.c_str()));
  if (filter.before != 0) s.bind(1, filter.before);
  if (filter.state) s.bind(2, std::uint64_t{*filter.state});
  if (!filter.owner.empty()) s.bind(3, filter.owner, false);
  s.bind(4, std::uint64_t{filter.limit});
  return read_rows(s);
}

Result<std::vector<JobRow>> SqliteEventLog::unfinished() {
  const std::string sql =
      std::string("SELECT ") + kRowColumns + " FROM job WHERE finished = 0 ORDER BY id";
  DLRUN_ASSIGN(Statement s, Statement::prepare(impl_->db.get(), sql.c_str()));
  return read_rows(s);
}

Result<std::uint64_t> SqliteEventLog::finished_count() {
  return single_integer(impl_->db.get(), "SELECT count(*) FROM job WHERE finished = 1");
}

Result<std::uint64_t> SqliteEventLog::max_job() {
  return single_integer(impl_->db.get(), "SELECT coalesce(max(id), 0) FROM job");
}

Result<std::vector<std::uint64_t>> SqliteEventLog::finished_with_key(std::uint32_t limit) {
  DLRUN_ASSIGN(
      Statement s,
      Statement::prepare(impl_->db.get(),
                         "SELECT id FROM job WHERE finished = 1 AND idempotency_key IS NOT NULL "
                         "ORDER BY id DESC LIMIT ?"));
  s.bind(1, std::uint64_t{limit});
  return read_integers(s);
}

Result<std::vector<std::uint64_t>> SqliteEventLog::retire(WallTime ended_before,
                                                          std::uint32_t jobs_max) {
  sqlite3* db = impl_->db.get();
  DLRUN_ASSIGN(Statement s,
               Statement::prepare(db,
                                  "SELECT id FROM job WHERE finished = 1 AND ended_ns < ? AND "
                                  "id < (SELECT max(id) FROM job) ORDER BY ended_ns, id LIMIT ?"));
  s.bind(1, static_cast<std::uint64_t>(ended_before.ns));
  s.bind(2, std::uint64_t{jobs_max});
  DLRUN_ASSIGN(std::vector<std::uint64_t> ids, read_integers(s));
  s.reset();
  if (ids.empty()) return ids;
  // The newest record stays, so that indexes stay dense after a restart.
  DLRUN_ASSIGN(Statement events,
               Statement::prepare(db, "DELETE FROM event WHERE job = ? AND idx < ?"));
  DLRUN_ASSIGN(Statement jobs, Statement::prepare(db, "DELETE FROM job WHERE id = ?"));
  DLRUN_TRY(in_transaction("event log: retire", [&]() -> Status {
    for (const std::uint64_t id : ids) {
      events.bind(1, id);
      events.bind(2, impl_->last);
      DLRUN_TRY(run_once(events));
      jobs.bind(1, id);
      DLRUN_TRY(run_once(jobs));
    }
    return {};
  }));
  return ids;
}

Status SqliteEventLog::remove(const std::vector<std::uint64_t>& indexes) {
  if (indexes.empty()) return {};
  DLRUN_ASSIGN(Statement s,
               Statement::prepare(impl_->db.get(), "DELETE FROM event WHERE idx = ? AND idx < ?"));
  return in_transaction("event log: remove", [&]() -> Status {
    for (const std::uint64_t index : indexes) {
      s.bind(1, index);
      s.bind(2, impl_->last);
      DLRUN_TRY(run_once(s));
    }
    return {};
  });
}

}  // namespace dlrun::store
