#pragma once
/// ps/core/row_store.h: the rows of one table on one shard. A row has two parts:
///   entry  in the index (SlotIndex): the key's hash, the row's number, its stamp (Stamps: version
///          and last use, shared by the rows of a push);
///   words  `words` of 4 bytes (weights, then state: ps/core/table.h) at a fixed place, in slabs
///          that
///          never move and ask for huge pages. At most 64 bytes: in one cache line. More: from a
///          multiple of 32 on. A table that counts frequencies has the count behind the words.
/// So a pull reads the entry and the weights, and a push writes nothing but the entry and the
/// words. A freed row is zeroed and used again.
/// Bounds: 2^31 - 1 rows.
/// Complexity: find, add, erase O(1) expected.
/// Threads: single owner.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ps/core/pages.h"
#include "ps/core/slot_index.h"
#include "ps/core/stamps.h"

namespace dlrun::ps {

/// The key that has this hash.
constexpr std::uint64_t key_of_hash(std::uint32_t table, std::uint64_t hash) noexcept {
  std::uint64_t x = hash;  // mix64() backwards
  x ^= x >> 31 ^ x >> 62;
  x *= 0x319642b2d24d8ec3ULL;
  x ^= x >> 27 ^ x >> 54;
  x *= 0x96de1b173f119089ULL;
  x ^= x >> 30 ^ x >> 60;
  return x - 0x9e3779b97f4a7c15ULL * (table + 1);
}
static_assert(key_of_hash(7, key_hash(7, 0x123456789abcdef0)) == 0x123456789abcdef0);
static_assert(key_of_hash(~0u, key_hash(~0u, ~0ull)) == ~0ull);

class RowStore {
 public:
  /// Good until a row is added or erased.
  using Place = SlotIndex::Place;

  /// words: of 4 bytes, weights + state of one row. `table` takes part in every key's hash.
  RowStore(std::uint32_t table, std::uint32_t words, bool counts = false);

  std::uint64_t hash(std::uint64_t key) const noexcept { return key_hash(table_, key); }
  Place find(std::uint64_t key) const noexcept { return index_.find(hash(key)); }
  /// `key` must be absent. The row's words are zero, as are version and last use.
  Place add(std::uint64_t key) { return add_hash(hash(key)); }
  Place add_hash(std::uint64_t hash);
  void erase(Place row) noexcept;
  /// Frees every row of the slot and forgets its sightings; O(rows of the slot).
  void erase_slot(std::uint32_t slot);

  std::uint64_t key(Place row) const noexcept { return key_of_hash(table_, row.hash()); }
  std::uint64_t version(Place row) const noexcept { return stamps_[row.stamp()].version; }
  std::uint32_t last_use_s(Place row) const noexcept { return stamps_[row.stamp()].last_use_s; }
  /// `stamp`: held once for this row.
  void set_stamp(Place row, std::uint32_t stamp) noexcept {
    stamps_.drop(row.stamp());
    row.stamp() = stamp;
  }
  Stamps& stamps() noexcept { return stamps_; }

  float* data(RowId row) noexcept { return reinterpret_cast<float*>(at(row)); }
  const float* data(RowId row) const noexcept { return reinterpret_cast<const float*>(at(row)); }
  /// Pushes that touched the row, saturating; 0 where they are not counted.
  std::uint32_t frequency(RowId row) const noexcept;
  void set_frequency(RowId row, std::uint32_t frequency) noexcept;
  bool counts() const noexcept { return counts_; }

  // Inlined whatever the compiler thinks of it: a call that only fetches has no effect, GCC finds,
  // and leaves it out.
  /// The row's first lines, into the cache.
  [[gnu::always_inline]] void prefetch(RowId row) const noexcept {
    const std::byte* p = at(row);
    __builtin_prefetch(p, 1);
    if (prefetch_bytes_ > 64) __builtin_prefetch(p + 64, 1);
    for (std::size_t i = 128; i < prefetch_bytes_; i += 64) __builtin_prefetch(p + i, 1);
  }
  /// Of these, what the first `bytes` are in.
  [[gnu::always_inline]] void prefetch(RowId row, std::size_t bytes) const noexcept {
    const std::byte* p = at(row);
    const std::size_t end = bytes + stride_ % 64;
    __builtin_prefetch(p);
    for (std::size_t i = 64; i < end; i += 64) __builtin_prefetch(p + i);
  }

  SlotIndex& index() noexcept { return index_; }
  const SlotIndex& index() const noexcept { return index_; }
  std::uint32_t rows_of_slot(std::uint32_t slot) const noexcept {
    return index_.rows_of_slot(slot);
  }
  std::uint64_t rows() const noexcept { return rows_; }
  std::uint32_t words() const noexcept { return words_; }
  /// Of one row, without its entry.
  std::size_t row_bytes() const noexcept { return stride_; }
  /// What it holds of memory: rows ever used, index, stamps.
  std::uint64_t bytes() const noexcept {
    return next_ * stride_ + index_.bytes() + stamps_.bytes();
  }

 private:
  std::byte* at(RowId row) const noexcept {
    return slab_data_[row >> shift_] + (row & mask_) * stride_;
  }
  void free(RowId row) noexcept;

  std::uint32_t table_;
  std::uint32_t words_;
  bool counts_;
  std::size_t stride_;
  std::size_t prefetch_bytes_;
  std::uint32_t shift_;
  std::uint32_t mask_;
  SlotIndex index_;
  Stamps stamps_;
  std::vector<Pages> slabs_;
  std::vector<std::byte*> slab_data_;
  RowId free_ = 0;  ///< the last freed row, + 1; 0 = none. A freed row's first word: the one before
  std::uint64_t rows_ = 0;
  RowId next_ = 0;
};

}  // namespace dlrun::ps
