#pragma once
/// io/core/batch.h: a batch of records as Arrow-shaped columns, in one flat piece of memory that
/// two processes share. A slot starts with a BatchHeader; columns follow, each 64-byte aligned,
/// found by offsets from the slot's start.
/// Shapes: labels [rows] f32.
///         CSR: offsets [rows + 1] i64, ids [nnz] u64, values [nnz] f32, fields [nnz] u32 (libffm).
///         Dense: values [rows, cols] f32 row-major. pieces [splits]: whose rows they are.
///         Table: no labels; named columns as in table.h, but for offsets in place of ends:
///         row_offsets [rows + 1], value_offsets [values + 1], both from 0.
/// Units:  offsets in the header are bytes; offsets of the column are elements of ids and values.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::io {

enum class BatchKind : std::uint32_t { kNone = 0, kCsr = 1, kDense = 2, kTable = 3 };

enum class ValueType : std::uint8_t {
  kUint8 = 1,
  kInt32,
  kInt64,
  kUint64,
  kFloat32,
  kFloat64,
  kBytes
};

inline constexpr std::uint32_t kBatchMagic = 0x48425444;  ///< "DTBH"
inline constexpr std::uint32_t kBatchVersion = 1;
inline constexpr std::size_t kColumnAlign = 64;

/// Where a column lies in its slot; count 0 = the column is not there.
struct ColumnRef {
  std::uint64_t offset_bytes = 0;
  std::uint64_t count = 0;
};

/// Rows of one split within a batch. In order of the rows.
struct SplitPiece {
  std::uint64_t split_id = 0;
  std::uint64_t rows = 0;
  std::uint32_t pass = 0;
  std::uint32_t last = 0;  ///< 1: with these the split is out
};
static_assert(sizeof(SplitPiece) == 24);

/// A named column of a table.
struct TableColumn {
  ColumnRef name;           ///< bytes
  ColumnRef data;           ///< bytes
  ColumnRef value_offsets;  ///< kBytes
  ColumnRef row_offsets;    ///< width 0
  ColumnRef valid;          ///< where a row may miss
  std::uint64_t width = 1;
  std::uint32_t type = 0;  ///< ValueType
  std::uint32_t reserved = 0;
};
static_assert(sizeof(TableColumn) == 96);

/// Plain bytes, the same in every process of a machine. Append only, within the version.
struct BatchHeader {
  std::uint32_t magic = kBatchMagic;
  std::uint32_t version = kBatchVersion;
  BatchKind kind = BatchKind::kNone;
  std::uint32_t pass = 0;
  std::uint64_t bytes = 0;  ///< header and columns together
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;  ///< dense only
  ColumnRef labels;
  ColumnRef offsets;
  ColumnRef ids;
  ColumnRef values;
  ColumnRef fields;
  ColumnRef pieces;  ///< none: written before there were any
  ColumnRef table;   ///< kTable: TableColumn
  std::uint32_t has_lane = 0;
  std::uint32_t reserved = 0;
  LanePosition lane;  ///< behind this batch
};
static_assert(sizeof(BatchHeader) == 192);

struct ColumnView {
  std::string_view name;
  ValueType type = ValueType::kFloat32;
  std::uint64_t width = 1;
  std::uint64_t values = 0;
  std::span<const std::byte> data;
  std::span<const std::int64_t> value_offsets;
  std::span<const std::int64_t> row_offsets;
  std::span<const std::uint8_t> valid;  ///< empty: none is missing
};

/// A batch as a reader sees it. Borrows the slot: dead once the slot is released.
struct BatchView {
  BatchKind kind = BatchKind::kNone;
  std::uint32_t pass = 0;   ///< trip over the data, from 0
  bool pass_ended = false;  ///< a mark, not data: rows == 0, nothing to release
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;  ///< dense only
  std::span<const float> labels;
  std::span<const std::int64_t> offsets;
  std::span<const std::uint64_t> ids;
  std::span<const float> values;
  std::span<const std::uint32_t> fields;
  std::span<const SplitPiece> pieces;
  std::vector<ColumnView> columns;   ///< kTable
  std::optional<LanePosition> lane;  ///< of an input with lanes
  bool no_rows = false;  ///< a step of Ends::kPad: rows == 0, nothing to release; `lane` has step
  std::uint64_t sequence = 0;  ///< batches of this consumer, from 0; set by the pipe
  std::uint32_t slot = 0;      ///< set by the pipe
};

/// Checks everything a hostile or broken writer could get wrong (bounds, alignment, shapes, offsets
/// that fall), on a copy of the header. O(rows + values of texts).
/// Errors: kCorrupt (names the field), kUnsupported (newer version).
Result<BatchView> open_batch(std::span<const std::byte> slot);

}  // namespace dlrun::io
