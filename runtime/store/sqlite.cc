#include "runtime/store/sqlite.h"

#include <cerrno>

namespace dlrun::store {

tl::unexpected<Error> sqlite_fail(sqlite3* db, std::string what) {
  const int code = sqlite3_errcode(db);
  Errc errc = Errc::kIo;
  if (code == SQLITE_FULL || sqlite3_system_errno(db) == ENOSPC)
    errc = Errc::kResourceExhausted;
  else if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    errc = Errc::kCorrupt;
  else if (code == SQLITE_READONLY || code == SQLITE_CANTOPEN)
    errc = Errc::kPermissionDenied;
  return fail(errc, std::move(what) + ": " + sqlite3_errmsg(db));
}

Status exec(sqlite3* db, const char* sql) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return sqlite_fail(db, sql);
  return {};
}

Result<Statement> Statement::prepare(sqlite3* db, const char* sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr) != SQLITE_OK)
    return sqlite_fail(db, sql);
  return Statement(raw);
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

void Statement::bind(int i, std::uint64_t value) {
  sqlite3_bind_int64(statement_.get(), i, static_cast<sqlite3_int64>(value));
}

void Statement::bind(int i, std::string_view value, bool blob) {
  if (blob) {
    sqlite3_bind_blob64(statement_.get(), i, value.empty() ? "" : value.data(), value.size(),
                        SQLITE_STATIC);
  } else {
    sqlite3_bind_text64(statement_.get(), i, value.empty() ? "" : value.data(), value.size(),
                        SQLITE_STATIC, SQLITE_UTF8);
  }
}

void Statement::bind_null(int i) { sqlite3_bind_null(statement_.get(), i); }

Result<bool> Statement::step() {
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return sqlite_fail(sqlite3_db_handle(statement_.get()), sqlite3_sql(statement_.get()));
  }
}

std::uint64_t Statement::integer(int column) const {
  return static_cast<std::uint64_t>(sqlite3_column_int64(statement_.get(), column));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::string Statement::text(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

}  // namespace dlrun::store
