#pragma once
/// ps/core/table.h: one table on one shard: rows, clocks, and under BSP the pushes of clocks that
/// are still open. BSP: a push at clock c is kept until no member's clock is <= c. Then, per key,
/// the gradients of that clock are added in the order (worker, client, sequence) and one optimizer
/// step is made with the sum: what arrived when plays no part. (kAssign: the last in that order is
/// set.) Threads: single owner.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ps/core/clock_set.h"
#include "ps/core/msg.h"
#include "ps/core/row_store.h"

namespace dlrun::ps {

/// A push, or what is left of it for some slots, that waits for its clock to close.
struct BufferedPush {
  WorkerId worker;
  ClientId client;
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> keys;
  std::vector<float> grads;  ///< [keys, dim]
  std::uint64_t bytes() const noexcept { return keys.size() * 8 + grads.size() * 4; }
  friend bool operator==(const BufferedPush&, const BufferedPush&) = default;
};

/// What a slot of a table is made of: canonical (rows by key, pushes by clock and order), so that
/// two equal states compare equal.
struct TableImage {
  TableSchema schema;
  struct Row {
    std::uint64_t key = 0;
    std::uint64_t version = 0;
    std::uint32_t last_use_s = 0;
    std::uint32_t frequency = 0;
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::vector<Row> rows;
  std::vector<float> data;  ///< [rows, weights + state]
  std::vector<std::pair<WorkerId, std::uint64_t>> clocks;
  std::map<std::uint64_t, std::vector<BufferedPush>> open;
  friend bool operator==(const TableImage&, const TableImage&) = default;
};

/// One gradient of one key. A span of them is sorted by (slot, key), equal keys in the order in
/// which they add up.
struct Gradient {
  std::uint32_t slot = 0;
  std::uint64_t key = 0;
  const float* g = nullptr;
};
/// Stable, and O(n) when it is sorted already.
void sort_gradients(std::vector<Gradient>& gradients);

class TableState {
 public:
  explicit TableState(TableSchema schema);

  const TableSchema& schema() const noexcept { return schema_; }
  const RowStore& rows() const noexcept { return rows_; }
  ClockSet& clocks() noexcept { return clocks_; }
  const ClockSet& clocks() const noexcept { return clocks_; }

  /// Weights [dim] of the key: as initialised when nobody has pushed it. Changes nothing.
  void read(std::uint64_t key, float* out) const noexcept;
  /// One optimizer step per distinct key.
  void apply(std::span<const Gradient> sorted, std::uint64_t version, std::uint32_t now_s);

  void keep(std::uint64_t clock, BufferedPush push);
  std::uint64_t kept_bytes() const noexcept { return kept_bytes_; }
  /// Applies what is kept of clocks < `clock`, clock by clock.
  void close_below(std::uint64_t clock, std::uint64_t version, std::uint32_t now_s);

  TableImage export_slot(std::uint32_t slot) const;
  /// The slot must be empty here.
  void import_slot(std::uint32_t slot, const TableImage& image, std::uint64_t version);
  void erase_slot(std::uint32_t slot);
  /// Keys of the slot, ascending, from `from` on, at most `n_max`.
  std::vector<std::uint64_t> keys_of_slot(std::uint32_t slot, std::uint64_t from,
                                          std::size_t n_max) const;

  std::uint64_t digest() const;

 private:
  void step(std::uint64_t key, std::uint32_t slot, const float* g, std::uint64_t version,
            std::uint32_t now_s);

  TableSchema schema_;
  RowStore rows_;
  ClockSet clocks_;
  std::map<std::uint64_t, std::vector<BufferedPush>> open_;
  std::uint64_t kept_bytes_ = 0;
  std::vector<float> sum_;
};

}  // namespace dlrun::ps
