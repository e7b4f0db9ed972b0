#include "io/core/batch.h"

#include <cstring>
#include <string>

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
  const std::uint64_t used = header.bytes;
  if (header.rows == 0 || header.rows > used) return bad("rows");
  if (!take(slot, used, header.labels, header.rows, view.labels)) return bad("labels");
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
  std::int64_t last = 0;
  if (view.offsets[0] != 0) return bad("first offset");
  for (const std::int64_t offset : view.offsets) {
    if (offset < last) return bad("offsets fall");
    last = offset;
  }
  if (static_cast<std::uint64_t>(last) != entries) return bad("last offset");
  return view;
}

}  // namespace dlrun::io
