#pragma once
/// io/core/row_store.h: parsed rows that wait to be cut into batches, whatever their shape: a
/// RecordBlock (sparse, dense) or a Table (named columns).
/// Weight: a number per row, adding up over rows, that says with the number of rows how large a
/// batch of them is (batch_bytes).
/// Threads: single owner.

#include <cstdint>
#include <span>

#include "io/core/record_block.h"
#include "io/core/table.h"

namespace dlrun::io {

class RowStore {
 public:
  virtual ~RowStore() = default;
  virtual std::size_t rows() const = 0;
  virtual std::size_t bytes() const = 0;  ///< in use
  /// Leaves exactly these rows, in this order. O(bytes kept).
  virtual void keep(std::span<const std::uint32_t> rows) = 0;
  virtual std::uint64_t weight(std::size_t row) const = 0;
  /// Bytes of a slot that suffice for `rows` rows of that weight together, of `pieces` splits.
  virtual std::uint64_t batch_bytes(std::uint64_t rows, std::uint64_t weight,
                                    std::uint64_t pieces) const = 0;
  /// Writes the rows `order` as one batch; the slot is large enough (asserted) and 64-byte aligned.
  /// Returns the bytes used.
  virtual std::uint64_t write(std::span<const std::uint32_t> order, std::uint32_t pass,
                              std::span<const SplitPiece> pieces,
                              std::span<std::byte> slot) const = 0;
};

class BlockStore final : public RowStore {
 public:
  explicit BlockStore(const RecordBlock& form) : block_(form), spare_(form) {}
  RecordBlock& block() { return block_; }

  std::size_t rows() const override { return block_.rows(); }
  std::size_t bytes() const override { return block_.bytes(); }
  void keep(std::span<const std::uint32_t> rows) override;
  std::uint64_t weight(std::size_t row) const override { return block_.entries(row); }
  std::uint64_t batch_bytes(std::uint64_t rows, std::uint64_t weight,
                            std::uint64_t pieces) const override {
    return io::batch_bytes(block_.kind, block_.with_fields, rows, weight, pieces);
  }
  std::uint64_t write(std::span<const std::uint32_t> order, std::uint32_t pass,
                      std::span<const SplitPiece> pieces,
                      std::span<std::byte> slot) const override {
    return write_batch(block_, order, pass, pieces, slot);
  }

 private:
  RecordBlock block_, spare_;  ///< spare_: recycled by keep()
};

class TableStore final : public RowStore {
 public:
  /// `form`: the columns, without rows.
  explicit TableStore(const Table& form)
      : table_(form),
        spare_(form),
        none_bytes_(table_batch_bytes(form, 0, 0, 0)),
        row_bytes_(table_batch_bytes(form, kColumnAlign, 0, 0) - none_bytes_) {}
  Table& table() { return table_; }

  std::size_t rows() const override { return table_.rows; }
  std::size_t bytes() const override { return table_.bytes(); }
  void keep(std::span<const std::uint32_t> rows) override;
  std::uint64_t weight(std::size_t row) const override { return row_weight(table_, row); }
  std::uint64_t batch_bytes(std::uint64_t rows, std::uint64_t weight,
                            std::uint64_t pieces) const override {
    // table_batch_bytes without a look at every column; up to an alignment more
    return none_bytes_ + (rows * row_bytes_ + kColumnAlign - 1) / kColumnAlign + weight +
           pieces * sizeof(SplitPiece) + kColumnAlign;
  }
  std::uint64_t write(std::span<const std::uint32_t> order, std::uint32_t pass,
                      std::span<const SplitPiece> pieces,
                      std::span<std::byte> slot) const override {
    return write_table(table_, order, pass, pieces, slot);
  }

  /// What of a row is not the same for each: bytes of texts, values of lists.
  static std::uint64_t row_weight(const Table& table, std::size_t row);
  static std::uint64_t table_batch_bytes(const Table& form, std::uint64_t rows,
                                         std::uint64_t weight, std::uint64_t pieces);
  static std::uint64_t write_table(const Table& table, std::span<const std::uint32_t> order,
                                   std::uint32_t pass, std::span<const SplitPiece> pieces,
                                   std::span<std::byte> slot);

 private:
  Table table_, spare_;
  const std::uint64_t none_bytes_;  ///< a batch without rows
  const std::uint64_t row_bytes_;   ///< of kColumnAlign rows, but for their weight
};

}  // namespace dlrun::io
