#include "io/core/row_store.h"

#include <cstring>

#include "runtime/base/assert.h"

namespace dlrun::io {

namespace {

constexpr std::uint64_t align_up(std::uint64_t n) {
  return (n + kColumnAlign - 1) & ~std::uint64_t{kColumnAlign - 1};
}

/// What every row of a column takes, whatever is in it.
std::uint64_t fixed_bytes(const Column& column) {
  std::uint64_t n = column.may_miss ? 1 : 0;
  if (column.width == 0) return n + sizeof(std::int64_t);
  const std::uint64_t each =
      column.type == ValueType::kBytes ? sizeof(std::int64_t) : value_bytes(column.type);
  return n + column.width * each;
}

/// Parts of a slot of a column, at most; each may need up to kColumnAlign - 1 bytes before it.
constexpr std::uint64_t kPartsOfColumn = 5;

class Writer {
 public:
  Writer(std::span<const std::uint32_t> order, std::span<std::byte> slot, std::uint64_t at)
      : order_(order), slot_(slot), at_(at) {
    in_a_row_ = true;
    for (std::size_t i = 1; i < order.size(); ++i)
      in_a_row_ = in_a_row_ && order[i] == order[i - 1] + 1;
  }

  TableColumn put(const Column& column) {
    TableColumn out;
    out.type = static_cast<std::uint32_t>(column.type);
    out.width = column.width;
    out.name = begin(column.name.size());
    append(column.name.data(), column.name.size());
    if (column.may_miss) {
      out.valid = begin(order_.size());
      for (const std::uint32_t row : order_) append(&column.valid[row], 1);
    }
    if (column.width == 0) {
      out.row_offsets = begin(order_.size() + 1);
      std::int64_t end = 0;
      append(&end, sizeof end);
      for (const std::uint32_t row : order_) {
        end += static_cast<std::int64_t>(column.first_value(row + 1) - column.first_value(row));
        append(&end, sizeof end);
      }
    }
    if (column.type == ValueType::kBytes) {
      out.value_offsets = begin(0);
      std::int64_t end = 0;
      append(&end, sizeof end);
      for (const std::uint32_t row : order_)
        for (std::size_t v = column.first_value(row); v < column.first_value(row + 1); ++v) {
          end += column.value_ends[v] - static_cast<std::int64_t>(column.first_byte(v));
          append(&end, sizeof end);
        }
      out.value_offsets.count = (at_ - out.value_offsets.offset_bytes) / sizeof end;
    }
    out.data = begin(0);
    put_data(column);
    out.data.count = at_ - out.data.offset_bytes;
    return out;
  }

  std::uint64_t end() const { return align_up(at_); }

 private:
  ColumnRef begin(std::uint64_t count) {
    at_ = align_up(at_);
    return {at_, count};
  }
  void append(const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    DLRUN_ASSERT(bytes <= slot_.size() - at_);
    std::memcpy(slot_.data() + at_, from, bytes);
    at_ += bytes;
  }
  static std::size_t data_begin(const Column& column, std::size_t row) {
    const std::size_t value = column.first_value(row);
    return column.type == ValueType::kBytes ? column.first_byte(value)
                                            : value * value_bytes(column.type);
  }
  void put_data(const Column& column) {
    if (order_.empty()) return;
    if (in_a_row_) {
      const std::size_t from = data_begin(column, order_.front());
      return append(column.data.data() + from, data_begin(column, order_.back() + 1) - from);
    }
    if (column.width == 1 && column.type != ValueType::kBytes) {
      switch (value_bytes(column.type)) {
        case 4:
          return gather<std::uint32_t>(column);
        case 8:
          return gather<std::uint64_t>(column);
        default:
          return gather<std::uint8_t>(column);
      }
    }
    for (const std::uint32_t row : order_) {
      const std::size_t from = data_begin(column, row);
      append(column.data.data() + from, data_begin(column, row + 1) - from);
    }
  }
  template <class T>
  void gather(const Column& column) {
    DLRUN_ASSERT(order_.size() <= (slot_.size() - at_) / sizeof(T));
    std::byte* to = slot_.data() + at_;
    for (const std::uint32_t row : order_) {
      std::memcpy(to, column.data.data() + row * sizeof(T), sizeof(T));
      to += sizeof(T);
    }
    at_ += order_.size() * sizeof(T);
  }

  const std::span<const std::uint32_t> order_;
  const std::span<std::byte> slot_;
  std::uint64_t at_;
  bool in_a_row_ = true;  ///< the rows lie one behind the other
};

}  // namespace

void BlockStore::keep(std::span<const std::uint32_t> rows) {
  if (rows.empty()) return block_.clear();
  spare_.clear();
  spare_.kind = block_.kind;
  spare_.with_fields = block_.with_fields;
  spare_.cols = block_.cols;
  for (const std::uint32_t row : rows) spare_.append(block_, row);
  std::swap(block_, spare_);
}

void TableStore::keep(std::span<const std::uint32_t> rows) {
  if (rows.empty()) return table_.clear();
  spare_.clear();
  for (const std::uint32_t row : rows) spare_.append(table_, row);
  std::swap(table_, spare_);
}

std::uint64_t TableStore::row_weight(const Table& table, std::size_t row) {
  std::uint64_t n = 0;
  for (const Column& column : table.columns) {
    if (column.width != 0 && column.type != ValueType::kBytes) continue;
    const std::size_t begin = column.first_value(row), end = column.first_value(row + 1);
    if (column.type != ValueType::kBytes) {
      n += (end - begin) * value_bytes(column.type);
      continue;
    }
    n += column.first_byte(end) - column.first_byte(begin);
    if (column.width == 0) n += (end - begin) * sizeof(std::int64_t);
  }
  return n;
}

std::uint64_t TableStore::table_batch_bytes(const Table& form, std::uint64_t rows,
                                            std::uint64_t weight, std::uint64_t pieces) {
  std::uint64_t n = align_up(sizeof(BatchHeader)) + align_up(pieces * sizeof(SplitPiece)) +
                    align_up(form.columns.size() * sizeof(TableColumn));
  for (const Column& column : form.columns)
    n += rows * fixed_bytes(column) + column.name.size() + 2 * sizeof(std::int64_t) +
         kPartsOfColumn * kColumnAlign;
  return align_up(n + weight);
}

std::uint64_t TableStore::write_table(const Table& table, std::span<const std::uint32_t> order,
                                      std::uint32_t pass, std::span<const SplitPiece> pieces,
                                      std::span<std::byte> slot) {
  DLRUN_ASSERT(reinterpret_cast<std::uintptr_t>(slot.data()) % kColumnAlign == 0);
  BatchHeader header;
  header.kind = BatchKind::kTable;
  header.pass = pass;
  header.rows = order.size();
  header.pieces = {align_up(sizeof(BatchHeader)), pieces.size()};
  header.table = {align_up(header.pieces.offset_bytes + pieces.size() * sizeof(SplitPiece)),
                  table.columns.size()};
  const std::uint64_t columns_end =
      header.table.offset_bytes + table.columns.size() * sizeof(TableColumn);
  DLRUN_ASSERT(columns_end <= slot.size());
  if (!pieces.empty())
    std::memcpy(slot.data() + header.pieces.offset_bytes, pieces.data(),
                pieces.size() * sizeof(SplitPiece));
  Writer writer(order, slot, columns_end);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const TableColumn column = writer.put(table.columns[i]);
    std::memcpy(slot.data() + header.table.offset_bytes + i * sizeof column, &column,
                sizeof column);
  }
  header.bytes = writer.end();
  DLRUN_ASSERT(header.bytes <= slot.size());
  std::memcpy(slot.data(), &header, sizeof header);
  return header.bytes;
}

}  // namespace dlrun::io
