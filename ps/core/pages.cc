#include "ps/core/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {
constexpr std::size_t kHuge = 2u << 20;
constexpr std::size_t kChunkMax = 32u << 20;
}  // namespace

Pages::Pages(std::size_t bytes, bool small_first) : size_(bytes) {
  const bool huge = bytes >= kHuge;
  mapped_ = (bytes + kHuge - 1) / kHuge * kHuge + (huge ? kHuge : 0);
  if (!huge) mapped_ = (bytes + 4095) / 4096 * 4096;
  map_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map_ == MAP_FAILED) throw std::bad_alloc();
  auto address = reinterpret_cast<std::uintptr_t>(map_);
  if (huge) address = (address + kHuge - 1) / kHuge * kHuge;
  data_ = reinterpret_cast<std::byte*>(address);
  const std::size_t skip = small_first ? kHuge : 0;
  // A wish: without it everything works, slower.
  if (huge && bytes > skip) ::madvise(data_ + skip, bytes - skip, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (map_ != nullptr) ::munmap(map_, mapped_);
}

Pages::Pages(Pages&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_),
      size_(other.size_) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(map_, other.map_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void* PowerPool::take(std::uint32_t log2_bytes) {
  log2_bytes = std::max(log2_bytes, kLog2Min);
  DLRUN_ASSERT(log2_bytes <= kLog2Max);
  const std::size_t bytes = std::size_t{1} << log2_bytes;
  for (std::uint32_t k = log2_bytes; k <= kLog2Max; ++k) {
    Free* block = free_[k];
    if (block == nullptr) continue;
    free_[k] = block->next;
    while (k > log2_bytes) {  // the upper half of it goes back, and so on
      --k;
      give_back(reinterpret_cast<std::byte*>(block) + (std::size_t{1} << k), k);
    }
    return block;
  }
  if (left_ < bytes) grow(log2_bytes);
  void* block = at_;
  at_ += bytes;
  left_ -= bytes;
  cut_ += bytes;
  return block;
}

void PowerPool::give_back(void* block, std::uint32_t log2_bytes) noexcept {
  log2_bytes = std::max(log2_bytes, kLog2Min);
  auto* free = static_cast<Free*>(block);
  free->next = free_[log2_bytes];
  free_[log2_bytes] = free;
}

void PowerPool::grow(std::uint32_t log2_bytes) {
  while (left_ >= std::size_t{1} << kLog2Min) {  // the rest of the old chunk, in powers of two
    const auto k = static_cast<std::uint32_t>(std::bit_width(left_) - 1);
    give_back(at_, k);
    at_ += std::size_t{1} << k;
    left_ -= std::size_t{1} << k;
    cut_ += std::size_t{1} << k;
  }
  const std::size_t bytes = std::max(next_chunk_, std::size_t{1} << log2_bytes);
  chunks_.emplace_back(bytes, false);
  next_chunk_ = std::min(kChunkMax, next_chunk_ * 2);
  at_ = chunks_.back().data();
  left_ = bytes;
}

}  // namespace dlrun::ps
