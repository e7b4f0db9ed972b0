#pragma once
/// ps/core/row_store.h: the rows of one table on one shard: an open-addressing index key -> row id
/// over rows in slabs. Row: RowHeader, then weights [dim], then state: one stretch of memory,
/// 16-byte aligned. Slabs never move; a freed row is zeroed and used again. Rows of one slot hang
/// on a list, so that a slot is listed in O(its rows). Index: linear probing, load <= 3/4, doubled
/// at once when full (the pause is O(rows)); removal shifts back, no tombstones. Bounds: 2^32 - 1
/// rows. Complexity: find, add O(1) expected. Threads: single owner.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dlrun::ps {

using RowId = std::uint32_t;
inline constexpr RowId kNoRow = ~RowId{0};

struct RowHeader {
  std::uint64_t key = 0;
  std::uint64_t version = 0;     ///< shard log sequence of the last change
  std::uint32_t last_use_s = 0;  ///< time of the last push, seconds of the operation's clock
  std::uint32_t frequency = 0;   ///< pushes that touched it, saturating
  RowId next_in_slot = kNoRow;
  std::uint32_t flags = 0;
};
static_assert(sizeof(RowHeader) == 32);

class RowStore {
 public:
  /// floats: weights + state of one row.
  RowStore(std::uint32_t floats, std::uint32_t slots);

  RowId find(std::uint64_t key) const noexcept;
  /// `key` must be absent. The row's header has key and slot link, all else is zero.
  RowId add(std::uint64_t key, std::uint32_t slot);
  /// Frees every row of the slot; O(rows of the slot).
  void erase_slot(std::uint32_t slot) noexcept;

  RowHeader& header(RowId row) noexcept { return *reinterpret_cast<RowHeader*>(at(row)); }
  const RowHeader& header(RowId row) const noexcept {
    return *reinterpret_cast<const RowHeader*>(at(row));
  }
  float* data(RowId row) noexcept { return reinterpret_cast<float*>(at(row) + sizeof(RowHeader)); }
  const float* data(RowId row) const noexcept {
    return reinterpret_cast<const float*>(at(row) + sizeof(RowHeader));
  }

  /// Newest first; follow RowHeader::next_in_slot.
  RowId first_of_slot(std::uint32_t slot) const noexcept { return heads_[slot]; }
  std::uint32_t rows_of_slot(std::uint32_t slot) const noexcept { return counts_[slot]; }
  std::uint64_t rows() const noexcept { return rows_; }
  std::uint32_t floats() const noexcept { return floats_; }
  /// What it holds of memory: slabs, index, lists.
  std::uint64_t bytes() const noexcept;

 private:
  struct Entry {
    std::uint64_t key;
    RowId row;
  };
  struct SlabFree {
    void operator()(std::byte* p) const noexcept;
  };

  std::byte* at(RowId row) const noexcept {
    return slabs_[row >> shift_].get() + (row & mask_) * stride_;
  }
  std::size_t home(std::uint64_t key) const noexcept;
  void grow();
  void remove_from_index(std::uint64_t key) noexcept;

  std::uint32_t floats_;
  std::size_t stride_;
  std::uint32_t shift_;
  std::uint32_t mask_;
  std::vector<std::unique_ptr<std::byte, SlabFree>> slabs_;
  std::vector<Entry> index_;  ///< size is a power of two
  std::vector<RowId> free_;
  std::vector<RowId> heads_;
  std::vector<std::uint32_t> counts_;
  std::uint64_t rows_ = 0;
  RowId next_ = 0;
};

}  // namespace dlrun::ps
