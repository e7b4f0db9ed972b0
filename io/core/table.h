#pragma once
/// io/core/table.h: records as named, typed columns that grow: what the parsers of typed formats
/// fill. Arrow-shaped, so that a batch can be cut from it without another decode.
/// Shapes: a column of width w has w values a row; of width 0 a list: values of row r are
///         [row_ends[r-1], row_ends[r]). kBytes: value i is bytes [value_ends[i-1], value_ends[i])
///         of data. valid: one byte a row where a row may miss, else empty; a missing row of width
///         w holds w zeros, of a list nothing.
/// Cleared, not freed: recycled.
/// Threads: single owner.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/core/batch.h"
#include "runtime/base/assert.h"

namespace dlrun::io {

/// Bytes of a value; kBytes: 0.
std::size_t value_bytes(ValueType type);
const char* type_name(ValueType type);  ///< "int64"

struct Column {
  std::string name;
  ValueType type = ValueType::kFloat32;
  std::uint64_t width = 1;  ///< values of a row; 0 = varies
  bool may_miss = false;

  std::vector<char> data;
  std::vector<std::int64_t> value_ends;  ///< kBytes: [values]
  std::vector<std::int64_t> row_ends;    ///< width 0: [rows]
  std::vector<std::uint8_t> valid;       ///< may_miss: [rows]

  std::size_t values() const {
    return type == ValueType::kBytes ? value_ends.size() : data.size() / value_bytes(type);
  }
  template <class T>
  std::span<const T> as() const {
    DLRUN_ASSERT(type != ValueType::kBytes && sizeof(T) == value_bytes(type));
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  std::string_view bytes_of(std::size_t value) const;  ///< kBytes

  template <class T>
  void push(T value) {
    const std::size_t at = data.size();
    data.resize(at + sizeof value);
    std::memcpy(data.data() + at, &value, sizeof value);
  }
  void push_bytes(std::string_view value);
  void push_zero();               ///< one value
  void end_row(bool has = true);  ///< a row's values are there
  /// Of the first value of a row; `row` may be one past the last.
  std::size_t first_value(std::size_t row) const {
    if (width != 0) return row * static_cast<std::size_t>(width);
    return row == 0 ? 0 : static_cast<std::size_t>(row_ends[row - 1]);
  }
  /// kBytes: where a value begins in data; `value` may be one past the last.
  std::size_t first_byte(std::size_t value) const {
    return value == 0 ? 0 : static_cast<std::size_t>(value_ends[value - 1]);
  }
  std::size_t bytes() const;  ///< in use
};

struct Table {
  std::vector<Column> columns;
  std::size_t rows = 0;

  Column* find(std::string_view name);
  const Column* find(std::string_view name) const;
  void clear();  ///< keeps columns and capacity
  /// Copies one row of a table of the same columns.
  void append(const Table& from, std::size_t row);
  /// Drops the rows from `to` on, half-read ones too.
  void truncate(std::size_t to);
  std::size_t bytes() const;
};

}  // namespace dlrun::io
