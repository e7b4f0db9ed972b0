#include "io/core/record_block.h"

#include <cstring>

#include "runtime/base/assert.h"

namespace dlrun::io {

namespace {

constexpr std::uint64_t align_up(std::uint64_t n) {
  return (n + kColumnAlign - 1) & ~std::uint64_t{kColumnAlign - 1};
}

BatchHeader layout(BatchKind kind, bool with_fields, std::uint64_t rows, std::uint64_t entries,
                   std::uint64_t pieces) {
  BatchHeader header;
  header.kind = kind;
  header.rows = rows;
  std::uint64_t at = align_up(sizeof(BatchHeader));
  const auto place = [&at](ColumnRef& column, std::uint64_t count, std::uint64_t width) {
    column = ColumnRef{at, count};
    at = align_up(at + count * width);
  };
  if (pieces > 0) place(header.pieces, pieces, sizeof(SplitPiece));
  place(header.labels, rows, sizeof(float));
  if (kind == BatchKind::kCsr) {
    place(header.offsets, rows + 1, sizeof(std::int64_t));
    place(header.ids, entries, sizeof(std::uint64_t));
  }
  place(header.values, entries, sizeof(float));
  if (kind == BatchKind::kCsr && with_fields) place(header.fields, entries, sizeof(std::uint32_t));
  header.bytes = at;
  return header;
}

template <class T>
void copy_to(std::byte*& to, const T* from, std::size_t count) {
  if (count == 0) return;
  std::memcpy(to, from, count * sizeof(T));
  to += count * sizeof(T);
}

}  // namespace

std::size_t RecordBlock::bytes() const {
  return labels.size() * sizeof(float) + offsets.size() * sizeof(std::int64_t) +
         ids.size() * sizeof(std::uint64_t) + values.size() * sizeof(float) +
         fields.size() * sizeof(std::uint32_t);
}

void RecordBlock::clear() {
  labels.clear();
  offsets.assign(1, 0);
  ids.clear();
  values.clear();
  fields.clear();
}

void RecordBlock::truncate(std::size_t rows) {
  labels.resize(rows);
  offsets.resize(rows + 1);
  const auto entries = static_cast<std::size_t>(offsets[rows]);
  values.resize(entries);
  if (kind == BatchKind::kCsr) ids.resize(entries);
  if (with_fields) fields.resize(entries);
}

void RecordBlock::append(const RecordBlock& from, std::size_t row) {
  const auto begin = from.offsets[row];
  const auto end = from.offsets[row + 1];
  labels.push_back(from.labels[row]);
  values.insert(values.end(), from.values.begin() + begin, from.values.begin() + end);
  if (kind == BatchKind::kCsr)
    ids.insert(ids.end(), from.ids.begin() + begin, from.ids.begin() + end);
  if (with_fields)
    fields.insert(fields.end(), from.fields.begin() + begin, from.fields.begin() + end);
  offsets.push_back(static_cast<std::int64_t>(values.size()));
}

std::uint64_t batch_bytes(BatchKind kind, bool with_fields, std::uint64_t rows,
                          std::uint64_t entries, std::uint64_t pieces) {
  return layout(kind, with_fields, rows, entries, pieces).bytes;
}

std::uint64_t write_batch(const RecordBlock& block, std::span<const std::uint32_t> order,
                          std::uint32_t pass, std::span<const SplitPiece> pieces,
                          std::span<std::byte> slot) {
  std::uint64_t entries = 0;
  for (const std::uint32_t row : order) entries += block.entries(row);
  BatchHeader header = layout(block.kind, block.with_fields, order.size(), entries, pieces.size());
  header.pass = pass;
  if (block.kind == BatchKind::kDense) header.cols = block.cols;
  DLRUN_ASSERT(header.bytes <= slot.size());
  DLRUN_ASSERT(reinterpret_cast<std::uintptr_t>(slot.data()) % kColumnAlign == 0);

  std::memcpy(slot.data(), &header, sizeof header);
  std::byte* at = slot.data() + header.pieces.offset_bytes;
  copy_to(at, pieces.data(), pieces.size());
  std::byte* labels = slot.data() + header.labels.offset_bytes;
  std::byte* offsets = slot.data() + header.offsets.offset_bytes;
  std::byte* ids = slot.data() + header.ids.offset_bytes;
  std::byte* values = slot.data() + header.values.offset_bytes;
  std::byte* fields = slot.data() + header.fields.offset_bytes;
  std::int64_t end = 0;
  if (block.kind == BatchKind::kCsr) copy_to(offsets, &end, 1);
  for (const std::uint32_t row : order) {
    const std::size_t begin = static_cast<std::size_t>(block.offsets[row]);
    const std::size_t count = block.entries(row);
    copy_to(labels, &block.labels[row], 1);
    copy_to(values, block.values.data() + begin, count);
    if (block.kind != BatchKind::kCsr) continue;
    end += static_cast<std::int64_t>(count);
    copy_to(offsets, &end, 1);
    copy_to(ids, block.ids.data() + begin, count);
    if (block.with_fields) copy_to(fields, block.fields.data() + begin, count);
  }
  return header.bytes;
}

}  // namespace dlrun::io
