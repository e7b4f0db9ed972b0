#include "ps/core/row_store.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {
/// At least: a slab is a power of two of rows, mapped but touched only as they are used.
constexpr std::size_t kSlabBytes = 16u << 20;
constexpr std::size_t kPrefetchBytesMax = 512;  // the processor runs on from there by itself

/// In one line, or in no more of them than must be.
std::size_t stride_of(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, sizeof(RowId));
  return bytes <= 64 ? std::bit_ceil(bytes) : (bytes + 31) / 32 * 32;
}
}  // namespace

RowStore::RowStore(std::uint32_t table, std::uint32_t words, bool counts)
    : table_(table),
      words_(words),
      counts_(counts),
      stride_(stride_of((words + (counts ? std::size_t{1} : 0)) * sizeof(float))),
      prefetch_bytes_(std::min(stride_, kPrefetchBytesMax)),
      shift_(static_cast<std::uint32_t>(std::bit_width(kSlabBytes / stride_))),
      mask_((1u << shift_) - 1) {}

RowStore::Place RowStore::add_hash(std::uint64_t hash) {
  RowId row;
  if (free_ != 0) {
    row = free_ - 1;
    std::memcpy(&free_, at(row), sizeof free_);
    std::memset(at(row), 0, sizeof free_);
  } else {
    DLRUN_ASSERT(next_ < kRowsMax);
    if ((next_ & mask_) == 0) {
      slabs_.emplace_back((std::size_t{mask_} + 1) * stride_, slabs_.empty());
      slab_data_.push_back(slabs_.back().data());
    }
    row = next_++;
  }
  ++rows_;
  stamps_.hold(Stamps::kZero);
  return index_.add(hash, row, Stamps::kZero);
}

void RowStore::free(RowId row) noexcept {
  std::memset(at(row), 0, stride_);
  std::memcpy(at(row), &free_, sizeof free_);
  free_ = row + 1;
  --rows_;
}

void RowStore::erase(Place row) noexcept {
  stamps_.drop(row.stamp());
  free(row.row());
  index_.remove(row);
}

void RowStore::erase_slot(std::uint32_t slot) {
  index_.for_each(slot, [&](Place row) {
    stamps_.drop(row.stamp());
    free(row.row());
  });
  index_.clear(slot);
}

std::uint32_t RowStore::frequency(RowId row) const noexcept {
  std::uint32_t frequency = 0;
  if (counts_) std::memcpy(&frequency, data(row) + words_, sizeof frequency);
  return frequency;
}

void RowStore::set_frequency(RowId row, std::uint32_t frequency) noexcept {
  if (counts_) std::memcpy(data(row) + words_, &frequency, sizeof frequency);
}

}  // namespace dlrun::ps
