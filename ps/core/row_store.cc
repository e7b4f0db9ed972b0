#include "ps/core/row_store.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::ps {
namespace {
constexpr std::size_t kSlabBytes = 1u << 20;
constexpr std::size_t kAlign = 64;
constexpr std::size_t kIndexFirst = 64;
}  // namespace

void RowStore::SlabFree::operator()(std::byte* p) const noexcept { std::free(p); }

RowStore::RowStore(std::uint32_t floats, std::uint32_t slots)
    : floats_(floats),
      stride_((sizeof(RowHeader) + floats * sizeof(float) + 15) / 16 * 16),
      shift_(static_cast<std::uint32_t>(
          std::bit_width(std::bit_floor(std::max<std::size_t>(1, kSlabBytes / stride_))) - 1)),
      mask_((1u << shift_) - 1),
      index_(kIndexFirst, Entry{0, kNoRow}),
      heads_(slots, kNoRow),
      counts_(slots, 0) {}

// The slot of a key is the top of another mix64; the low bits of this one stay even within one
// shard's slots.
std::size_t RowStore::home(std::uint64_t key) const noexcept {
  return static_cast<std::size_t>(mix64(key ^ 0xd6e8feb86659fd93ULL)) & (index_.size() - 1);
}

RowId RowStore::find(std::uint64_t key) const noexcept {
  for (std::size_t i = home(key);; i = (i + 1) & (index_.size() - 1)) {
    const Entry& e = index_[i];
    if (e.row == kNoRow || e.key == key) return e.row;
  }
}

RowId RowStore::add(std::uint64_t key, std::uint32_t slot) {
  if ((rows_ + 1) * 4 > index_.size() * 3) grow();
  RowId row;
  if (!free_.empty()) {
    row = free_.back();
    free_.pop_back();
  } else {
    DLRUN_ASSERT(next_ != kNoRow);
    if ((next_ & mask_) == 0) {
      const std::size_t bytes = ((std::size_t{mask_} + 1) * stride_ + kAlign - 1) / kAlign * kAlign;
      auto* slab = static_cast<std::byte*>(std::aligned_alloc(kAlign, bytes));
      if (slab == nullptr) throw std::bad_alloc();
      slabs_.emplace_back(slab);
    }
    row = next_++;
  }
  std::memset(at(row), 0, stride_);
  new (at(row)) RowHeader{.key = key, .next_in_slot = heads_[slot]};
  heads_[slot] = row;
  ++counts_[slot];
  ++rows_;
  std::size_t i = home(key);
  while (index_[i].row != kNoRow) {
    DLRUN_ASSERT(index_[i].key != key);
    i = (i + 1) & (index_.size() - 1);
  }
  index_[i] = Entry{key, row};
  return row;
}

void RowStore::grow() {
  std::vector<Entry> old(index_.size() * 2, Entry{0, kNoRow});
  old.swap(index_);
  for (const Entry& e : old) {
    if (e.row == kNoRow) continue;
    std::size_t i = home(e.key);
    while (index_[i].row != kNoRow) i = (i + 1) & (index_.size() - 1);
    index_[i] = e;
  }
}

void RowStore::remove_from_index(std::uint64_t key) noexcept {
  const std::size_t mask = index_.size() - 1;
  std::size_t hole = home(key);
  while (index_[hole].key != key || index_[hole].row == kNoRow) hole = (hole + 1) & mask;
  for (std::size_t i = (hole + 1) & mask; index_[i].row != kNoRow; i = (i + 1) & mask) {
    // An entry may move back into the hole when its home is not between the hole and itself.
    if (((i - home(index_[i].key)) & mask) >= ((i - hole) & mask)) {
      index_[hole] = index_[i];
      hole = i;
    }
  }
  index_[hole] = Entry{0, kNoRow};
}

void RowStore::erase_slot(std::uint32_t slot) noexcept {
  for (RowId row = heads_[slot]; row != kNoRow;) {
    const RowId next = header(row).next_in_slot;
    remove_from_index(header(row).key);
    std::memset(at(row), 0, stride_);
    free_.push_back(row);
    --rows_;
    row = next;
  }
  heads_[slot] = kNoRow;
  counts_[slot] = 0;
}

std::uint64_t RowStore::bytes() const noexcept {
  return slabs_.size() * (std::uint64_t{mask_} + 1) * stride_ + index_.capacity() * sizeof(Entry) +
         free_.capacity() * sizeof(RowId) + heads_.capacity() * 8;
}

}  // namespace dlrun::ps
