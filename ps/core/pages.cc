#include "ps/core/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {
constexpr std::size_t kHuge = 2u << 20;
constexpr std::uint32_t kLog2ChunkMax = 25;
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
  std::uint32_t k = log2_bytes;
  while (k <= kLog2Max && free_[k].empty()) ++k;
  if (k > kLog2Max) {
    grow(log2_bytes);
    k = log2_bytes;
    while (free_[k].empty()) ++k;
  }
  std::byte* block = *free_[k].begin();
  free_[k].erase(free_[k].begin());
  while (k > log2_bytes) {  // the upper half of it goes back, and so on
    --k;
    free_[k].insert(block + (std::size_t{1} << k));
  }
  Chunk& chunk = chunk_of(block);
  const std::size_t end =
      static_cast<std::size_t>(block - chunk.pages.data()) + (std::size_t{1} << log2_bytes);
  if (end > chunk.used) {
    used_ += end - chunk.used;
    chunk.used = end;
  }
  return block;
}

void PowerPool::give_back(void* memory, std::uint32_t log2_bytes) {
  auto* block = static_cast<std::byte*>(memory);
  std::uint32_t k = std::max(log2_bytes, kLog2Min);
  const Chunk& chunk = chunk_of(block);
  std::byte* const begin = chunk.pages.data();
  for (; k < chunk.log2_bytes; ++k) {
    const std::size_t other = static_cast<std::size_t>(block - begin) ^ std::size_t{1} << k;
    if (free_[k].erase(begin + other) == 0) break;
    block = std::min(block, begin + other);
  }
  free_[k].insert(block);
}

void PowerPool::grow(std::uint32_t log2_bytes) {
  const std::uint32_t k = std::max(log2_next_, log2_bytes);
  log2_next_ = std::min(kLog2ChunkMax, log2_next_ + 1);
  Pages pages(std::size_t{1} << k, false);
  std::byte* const begin = pages.data();
  chunks_.emplace(begin, Chunk{std::move(pages), k, 0});
  free_[k].insert(begin);
}

}  // namespace dlrun::ps
