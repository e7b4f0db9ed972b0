#pragma once
/// ps/core/row_store.h: the rows of one table on one shard. Row: RowHeader, then `words` of 4 bytes
/// (weights, then state: ps/core/table.h): one stretch of memory, a multiple of 32 bytes, in slabs
/// that never move and ask for huge pages. A freed row is zeroed and used again. Who finds them:
/// SlotIndex.
/// Bounds: 2^31 - 1 rows.
/// Complexity: find, add, erase O(1) expected.
/// Threads: single owner.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ps/core/pages.h"
#include "ps/core/slot_index.h"

namespace dlrun::ps {

struct RowHeader {
  std::uint64_t key = 0;
  std::uint64_t version = 0;     ///< shard log sequence of the last change
  std::uint32_t last_use_s = 0;  ///< time of the last push, seconds of the operation's clock
  std::uint32_t frequency = 0;   ///< pushes that touched it, saturating
  std::uint32_t fork = 0;        ///< ps/core/table_fork.cc: the last fork that has it; else 0
  std::uint32_t next_free = 0;   ///< of a freed row: the next freed one, + 1
};
static_assert(sizeof(RowHeader) == 32);

class RowStore {
 public:
  /// words: of 4 bytes, weights + state of one row. `table` takes part in every key's hash.
  RowStore(std::uint32_t table, std::uint32_t words);

  std::uint64_t hash(std::uint64_t key) const noexcept { return key_hash(table_, key); }

  RowId find(std::uint64_t key) const noexcept { return find(key, hash(key)); }
  RowId find(std::uint64_t key, std::uint64_t hash) const noexcept {
    return index_.find(hash, [&](RowId row) { return header(row).key == key; });
  }
  /// `key` must be absent. The row's header has the key, all else is zero.
  RowId add(std::uint64_t key, std::uint64_t hash);
  RowId add(std::uint64_t key) { return add(key, hash(key)); }
  void erase(RowId row) noexcept;
  /// Frees every row of the slot and forgets its sightings; O(rows of the slot).
  void erase_slot(std::uint32_t slot);

  RowHeader& header(RowId row) noexcept { return *reinterpret_cast<RowHeader*>(at(row)); }
  const RowHeader& header(RowId row) const noexcept {
    return *reinterpret_cast<const RowHeader*>(at(row));
  }
  float* data(RowId row) noexcept { return reinterpret_cast<float*>(at(row) + sizeof(RowHeader)); }
  const float* data(RowId row) const noexcept {
    return reinterpret_cast<const float*>(at(row) + sizeof(RowHeader));
  }
  /// The row's first lines, into the cache.
  void prefetch(RowId row) const noexcept {
    const std::byte* p = at(row);
    for (std::size_t i = 0; i < prefetch_bytes_; i += 64) __builtin_prefetch(p + i, 1);
  }

  SlotIndex& index() noexcept { return index_; }
  const SlotIndex& index() const noexcept { return index_; }
  std::uint32_t rows_of_slot(std::uint32_t slot) const noexcept {
    return index_.rows_of_slot(slot);
  }
  std::uint64_t rows() const noexcept { return rows_; }
  std::uint32_t words() const noexcept { return words_; }
  /// Of one row, header included.
  std::size_t row_bytes() const noexcept { return stride_; }
  /// What it holds of memory: rows ever used, index.
  std::uint64_t bytes() const noexcept { return next_ * stride_ + index_.bytes(); }

 private:
  std::byte* at(RowId row) const noexcept {
    return slab_data_[row >> shift_] + (row & mask_) * stride_;
  }

  std::uint32_t table_;
  std::uint32_t words_;
  std::size_t stride_;
  std::size_t prefetch_bytes_;
  std::uint32_t shift_;
  std::uint32_t mask_;
  SlotIndex index_;
  std::vector<Pages> slabs_;
  std::vector<std::byte*> slab_data_;
  RowId free_ = 0;  ///< the last freed row, + 1; 0 = none
  std::uint64_t rows_ = 0;
  RowId next_ = 0;
};

}  // namespace dlrun::ps
