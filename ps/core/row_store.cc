#include "ps/core/row_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {
/// At least: a slab is a power of two of rows, mapped but touched only as they are used.
constexpr std::size_t kSlabBytes = 16u << 20;
constexpr std::size_t kPrefetchBytesMax = 512;  // the processor runs on from there by itself
}  // namespace

RowStore::RowStore(std::uint32_t table, std::uint32_t words)
    : table_(table),
      words_(words),
      stride_((sizeof(RowHeader) + words * sizeof(float) + 31) / 32 * 32),
      prefetch_bytes_(std::min(stride_, kPrefetchBytesMax)),
      shift_(static_cast<std::uint32_t>(std::bit_width(kSlabBytes / stride_))),
      mask_((1u << shift_) - 1) {}

RowId RowStore::add(std::uint64_t key, std::uint64_t hash) {
  RowId row;
  if (free_ != 0) {
    row = free_ - 1;
    free_ = header(row).next_free;
    header(row).next_free = 0;
    header(row).key = key;
  } else {
    DLRUN_ASSERT(next_ < kRowsMax);
    if ((next_ & mask_) == 0) {
      slabs_.emplace_back((std::size_t{mask_} + 1) * stride_, slabs_.empty());
      slab_data_.push_back(slabs_.back().data());
    }
    row = next_++;
    new (at(row)) RowHeader{.key = key};
  }
  index_.add(hash, row);
  ++rows_;
  return row;
}

void RowStore::erase(RowId row) noexcept {
  index_.remove(hash(header(row).key), row);
  std::memset(at(row), 0, stride_);
  header(row).next_free = free_;
  free_ = row + 1;
  --rows_;
}

void RowStore::erase_slot(std::uint32_t slot) {
  index_.for_each(slot, [&](RowId row) {
    std::memset(at(row), 0, stride_);
    header(row).next_free = free_;
    free_ = row + 1;
    --rows_;
  });
  index_.clear(slot);
}

}  // namespace dlrun::ps
