#pragma once
/// runtime/store/sqlite.h: the few lines of SQLite's C API that the store needs, with its errors as
/// Result.

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun::store {

struct SqliteCloser {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, SqliteCloser>;

/// SQLITE_FULL and SQLITE_IOERR with ENOSPC: kResourceExhausted; SQLITE_CORRUPT, SQLITE_NOTADB:
/// kCorrupt; the rest kIo.
tl::unexpected<Error> sqlite_fail(sqlite3* db, std::string what);
Status exec(sqlite3* db, const char* sql);

/// A prepared statement, reused. bind() numbers from 1, column() from 0.
class Statement {
 public:
  static Result<Statement> prepare(sqlite3* db, const char* sql);
  void reset();
  void bind(int i, std::uint64_t value);
  void bind(int i, std::string_view value, bool blob);  ///< `value` must outlive the next step()
  void bind_null(int i);
  /// true: a row is there; false: done.
  Result<bool> step();
  std::uint64_t integer(int column) const;
  bool is_null(int column) const;
  std::string text(int column) const;  ///< text or blob, bytes exact

 private:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, SqliteCloser> statement_;
};

}  // namespace dlrun::store
