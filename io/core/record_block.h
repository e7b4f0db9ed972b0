#pragma once
/// io/core/record_block.h: parsed records as growing columns, before they are cut into batches.
/// Cleared, not freed: recycled.
/// Shapes: labels [rows]; offsets [rows + 1]; CSR: ids, values [nnz], fields [nnz] (libffm); dense:
/// values [rows * cols].

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "io/core/batch.h"

namespace dlrun::io {

/// std::vector's memory, not zeroed when it grows: a parser makes room for a line and writes there.
template <class T>
struct NoZeros : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = NoZeros<U>;
  };
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    if constexpr (sizeof...(Args) == 0)
      ::new (static_cast<void*>(at)) U;
    else
      ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};
template <class T>
using Grown = std::vector<T, NoZeros<T>>;

struct RecordBlock {
  BatchKind kind = BatchKind::kCsr;
  bool with_fields = false;  ///< libffm
  std::uint64_t cols = 0;    ///< dense; 0 = not known yet
  std::vector<float> labels;
  std::vector<std::int64_t> offsets{0};  ///< into values, dense too
  Grown<std::uint64_t> ids;
  Grown<float> values;
  Grown<std::uint32_t> fields;

  std::size_t rows() const { return labels.size(); }
  std::size_t entries(std::size_t row) const {
    return static_cast<std::size_t>(offsets[row + 1] - offsets[row]);
  }
  std::size_t bytes() const;        ///< in use
  void clear();                     ///< keeps capacity, kind and cols
  void truncate(std::size_t rows);  ///< drops the rows from `rows` on, and a half-read one
  void append(const RecordBlock& from, std::size_t row);  ///< copies one row
};

/// Bytes of a slot that a batch of this shape takes, with rows of `pieces` splits.
std::uint64_t batch_bytes(BatchKind kind, bool with_fields, std::uint64_t rows,
                          std::uint64_t entries, std::uint64_t pieces = 1);

/// Writes the rows `order` of `block` as one batch into `slot`; the slot must be large enough
/// (asserted) and 64-byte aligned. Returns the bytes used.
std::uint64_t write_batch(const RecordBlock& block, std::span<const std::uint32_t> order,
                          std::uint32_t pass, std::span<const SplitPiece> pieces,
                          std::span<std::byte> slot);

}  // namespace dlrun::io
