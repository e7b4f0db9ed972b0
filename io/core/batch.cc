#include "io/core/batch.h"

#include <cstring>
#include <string>

#include "io/core/table.h"

namespace dlrun::io {

namespace {

tl::unexpected<Error> bad(const std::string& what) {
  return fail(Errc::kCorrupt, "batch in shared memory: " + what);
}

template <class T>
bool take(std::span<const std::byte> slot, std::uint64_t used, ColumnRef column,
          std::uint64_t count, std::span<const T>& out) {
  if (column.count != count || column.offset_bytes % kColumnAlign != 0) return false;
  if (column.offset_bytes < sizeof(BatchHeader) || column.offset_bytes > used) return false;
  if (count > (used - column.offset_bytes) / sizeof(T)) return false;
  out = {reinterpret_cast<const T*>(slot.data() + column.offset_bytes),
         static_cast<std::size_t>(count)};
  return true;
}

/// Offsets into `count` things, from 0, that never fall.
bool sound(std::span<const std::int64_t> offsets, std::uint64_t count) {
  std::int64_t last = 0;
  if (offsets.empty() || offsets[0] != 0) return false;
  for (const std::int64_t offset : offsets) {
    if (offset < last) return false;
    last = offset;
  }
  return static_cast<std::uint64_t>(last) == count;
}

Result<ColumnView> open_column(std::span<const std::byte> slot, std::uint64_t used,
                               std::uint64_t rows, const TableColumn& column) {
  ColumnView view;
  std::span<const char> name;
  if (!take(slot, used, column.name, column.name.count, name)) return bad("name of a column");
  view.name = {name.data(), name.size()};
  if (column.type < static_cast<std::uint32_t>(ValueType::kUint8) ||
      column.type > static_cast<std::uint32_t>(ValueType::kBytes))
    return bad("type of a column");
  view.type = static_cast<ValueType>(column.type);
  view.width = column.width;
  if (!take(slot, used, column.data, column.data.count, view.data)) return bad("data of a column");
  if (column.valid.offset_bytes != 0 && !take(slot, used, column.valid, rows, view.valid))
    return bad("valid of a column");
  if (view.type == ValueType::kBytes) {
    if (column.value_offsets.count == 0 ||
        !take(slot, used, column.value_offsets, column.value_offsets.count, view.value_offsets) ||
        !sound(view.value_offsets, view.data.size()))
      return bad("value offsets of a column");
    view.values = view.value_offsets.size() - 1;
  } else {
    view.values = view.data.size() / value_bytes(view.type);
    if (view.data.size() % value_bytes(view.type) != 0) return bad("data of a column");
  }
  if (view.width == 0) {
    if (!take(slot, used, column.row_offsets, rows + 1, view.row_offsets) ||
        !sound(view.row_offsets, view.values))
      return bad("row offsets of a column");
  } else if (view.width > used || view.values != rows * view.width) {
    return bad("values of a column");
  }
  return view;
}

Status open_table(std::span<const std::byte> slot, const BatchHeader& header, BatchView& view) {
  std::span<const TableColumn> columns;
  if (!take(slot, header.bytes, header.table, header.table.count, columns)) return bad("columns");
  view.columns.reserve(columns.size());
  for (const TableColumn& shared : columns) {
    TableColumn column;  // a copy, as the header
    std::memcpy(&column, &shared, sizeof column);
    DLRUN_ASSIGN(const ColumnView opened, open_column(slot, header.bytes, header.rows, column));
    view.columns.push_back(opened);
  }
  return {};
}

}  // namespace

Result<BatchView> open_batch(std::span<const std::byte> slot) {
  if (slot.size() < sizeof(BatchHeader)) return bad("slot shorter than a header");
  if (reinterpret_cast<std::uintptr_t>(slot.data()) % kColumnAlign != 0)
    return bad("slot not aligned");
  BatchHeader header;  // a copy: what is checked is what is used
  std::memcpy(&header, slot.data(), sizeof header);
  if (header.magic != kBatchMagic) return bad("magic");
  if (header.version != kBatchVersion)
    return fail(Errc::kUnsupported, "batch layout of version " + std::to_string(header.version));
  if (header.bytes > slot.size()) return bad("longer than its slot");

  BatchView view;
  view.kind = header.kind;
  view.pass = header.pass;
  view.rows = header.rows;
  if (header.has_lane != 0) view.lane = header.lane;
  const std::uint64_t used = header.bytes;
  if (header.rows == 0 || header.rows > used) return bad("rows");
  if (header.kind != BatchKind::kTable &&
      !take(slot, used, header.labels, header.rows, view.labels))
    return bad("labels");
  if (header.pieces.offset_bytes != 0) {
    if (header.pieces.count > header.rows ||
        !take(slot, used, header.pieces, header.pieces.count, view.pieces))
      return bad("pieces");
    std::uint64_t rows = 0;
    for (const SplitPiece& piece : view.pieces) {
      if (piece.rows > header.rows - rows) return bad("rows of the pieces");
      rows += piece.rows;
    }
    if (rows != header.rows) return bad("rows of the pieces");
  }
  if (header.kind == BatchKind::kTable) {
    DLRUN_TRY(open_table(slot, header, view));
    return view;
  }
  if (header.kind == BatchKind::kDense) {
    if (header.cols > used) return bad("cols");
    view.cols = header.cols;
    if (!take(slot, used, header.values, header.rows * header.cols, view.values))
      return bad("values");
    return view;
  }
  if (header.kind != BatchKind::kCsr) return bad("kind");
  if (!take(slot, used, header.offsets, header.rows + 1, view.offsets)) return bad("offsets");
  const std::uint64_t entries = header.ids.count;
  if (!take(slot, used, header.ids, entries, view.ids)) return bad("ids");
  if (!take(slot, used, header.values, entries, view.values)) return bad("values");
  if (header.fields.offset_bytes != 0 && !take(slot, used, header.fields, entries, view.fields))
    return bad("fields");
  if (!sound(view.offsets, entries)) return bad("offsets fall, or do not end with the entries");
  return view;
}

}  // namespace dlrun::io
