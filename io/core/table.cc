#include "io/core/table.h"

namespace dlrun::io {

std::size_t value_bytes(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
      return 1;
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kInt64:
    case ValueType::kUint64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kBytes:
      break;
  }
  return 0;
}

const char* type_name(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
      return "uint8";
    case ValueType::kInt32:
      return "int32";
    case ValueType::kInt64:
      return "int64";
    case ValueType::kUint64:
      return "uint64";
    case ValueType::kFloat32:
      return "float32";
    case ValueType::kFloat64:
      return "float64";
    case ValueType::kBytes:
      return "bytes";
  }
  return "";
}

std::string_view Column::bytes_of(std::size_t value) const {
  DLRUN_ASSERT(type == ValueType::kBytes && value < value_ends.size());
  const auto begin = static_cast<std::size_t>(value == 0 ? 0 : value_ends[value - 1]);
  return {data.data() + begin, static_cast<std::size_t>(value_ends[value]) - begin};
}

void Column::push_bytes(std::string_view value) {
  data.insert(data.end(), value.begin(), value.end());
  value_ends.push_back(static_cast<std::int64_t>(data.size()));
}

void Column::push_zero() {
  if (type == ValueType::kBytes)
    value_ends.push_back(static_cast<std::int64_t>(data.size()));
  else
    data.resize(data.size() + value_bytes(type));
}

void Column::end_row(bool has) {
  if (width == 0) row_ends.push_back(static_cast<std::int64_t>(values()));
  if (may_miss) valid.push_back(has ? 1 : 0);
}

std::size_t Column::bytes() const {
  return data.size() + 8 * (value_ends.size() + row_ends.size()) + valid.size();
}

Column* Table::find(std::string_view name) {
  for (Column& column : columns)
    if (column.name == name) return &column;
  return nullptr;
}
const Column* Table::find(std::string_view name) const {
  return const_cast<Table*>(this)->find(name);
}

void Table::clear() { truncate(0); }

void Table::truncate(std::size_t to) {
  DLRUN_ASSERT(to <= rows);
  rows = to;
  for (Column& column : columns) {
    std::size_t values = to * static_cast<std::size_t>(column.width);
    if (column.width == 0) {
      values = to == 0 ? 0 : static_cast<std::size_t>(column.row_ends[to - 1]);
      column.row_ends.resize(to);
    }
    if (column.type == ValueType::kBytes) {
      column.data.resize(values == 0 ? 0 : static_cast<std::size_t>(column.value_ends[values - 1]));
      column.value_ends.resize(values);
    } else {
      column.data.resize(values * value_bytes(column.type));
    }
    if (column.may_miss) column.valid.resize(to);
  }
}

void Table::append(const Table& from, std::size_t row) {
  DLRUN_ASSERT(columns.size() == from.columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Column& source = from.columns[i];
    Column& to = columns[i];
    const std::size_t begin = source.first_value(row), end = source.first_value(row + 1);
    if (source.type == ValueType::kBytes) {
      for (std::size_t value = begin; value < end; ++value) to.push_bytes(source.bytes_of(value));
    } else {
      const std::size_t each = value_bytes(source.type);
      to.data.insert(to.data.end(), source.data.begin() + static_cast<std::ptrdiff_t>(begin * each),
                     source.data.begin() + static_cast<std::ptrdiff_t>(end * each));
    }
    to.end_row(!source.may_miss || source.valid[row] != 0);
  }
  ++rows;
}

std::size_t Table::bytes() const {
  std::size_t n = 0;
  for (const Column& column : columns) n += column.bytes();
  return n;
}

}  // namespace dlrun::io
