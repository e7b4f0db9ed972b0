#pragma once
/// io/core/table_parser.h: bytes of a file, in order, in pieces of any size -> rows of a Table. How
/// the pieces are cut changes nothing in what comes out. Every typed format is one of these; who
/// reads the file and what becomes of a bad record is the caller's affair
/// (io/source/table_reader.h).
/// Errors: a BadRecord; the table is as before the record. Never throws but bad_alloc.
/// Threads: single owner. One file each: start anew for the next.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/core/bad_record.h"
#include "io/core/table.h"

namespace dlrun::io {

/// What is wrong within a record: where, from its first byte, and why.
struct Trouble {
  std::size_t at = 0;
  std::string reason;
  bool fatal = false;
};

class TableParser {
 public:
  virtual ~TableParser() = default;
  /// Makes an empty table fit for this format, as far as it is known before the first byte.
  virtual void prepare(Table& table) const = 0;
  /// Whether a place is counted in lines; else in records.
  virtual bool is_text() const { return false; }
  /// Appends the records that are whole in `bytes`, up to and with the first bad one. `bytes`
  /// begins at `offset` of the file, where the last call stopped; `last`: no more come. What is not
  /// consumed must come again with more behind it; with `last` everything is consumed, or a bad
  /// record says why not; one that is not fatal is itself consumed, in part at least. A file ends
  /// with a call with `last` that says no trouble, or a fatal one.
  virtual ParseProgress parse(std::string_view bytes, std::uint64_t offset, bool last,
                              Table& table) = 0;
};

/// A record without its frame -> one row: what TFRecord and RecordIO carry.
class PayloadDecoder {
 public:
  virtual ~PayloadDecoder() = default;
  virtual void prepare(Table& table) const = 0;
  /// Appends the values of one row; the caller counts the row, or truncates on trouble.
  virtual std::optional<Trouble> decode(std::string_view payload, Table& table) = 0;
};

/// The payload as it is, in one column of bytes.
class RawDecoder final : public PayloadDecoder {
 public:
  explicit RawDecoder(std::string column = "record") : column_(std::move(column)) {}
  void prepare(Table& table) const override {
    table.columns.clear();
    table.rows = 0;
    Column column;
    column.name = column_;
    column.type = ValueType::kBytes;
    table.columns.push_back(std::move(column));
  }
  std::optional<Trouble> decode(std::string_view payload, Table& table) override {
    table.columns[0].push_bytes(payload);
    table.columns[0].end_row();
    return std::nullopt;
  }

 private:
  std::string column_;
};

}  // namespace dlrun::io
