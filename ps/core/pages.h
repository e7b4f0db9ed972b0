#pragma once
/// ps/core/pages.h: memory for rows and indexes: mapped, zeroed, asking for huge pages, touched
/// only as it is used, given back to the system when its owner goes.
/// Errors: std::bad_alloc.
/// Threads: single owner.

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

namespace dlrun::ps {

/// One mapping. Aligned to 2 MiB when it is that large. `small_first`: its first 2 MiB do not ask
/// for huge pages, so that a small table stays small.
class Pages {
 public:
  Pages(std::size_t bytes, bool small_first);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  void* map_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Blocks of 2^k bytes, 64 B to 1 GiB, cut from growing mappings, at multiples of their size from
/// where a mapping begins; a block that comes back is used again: whole, in halves, or with its
/// other half once that has come back too. What it hands out is not zeroed.
/// Source: Knowlton, CACM 1965 (buddies).
class PowerPool {
 public:
  void* take(std::uint32_t log2_bytes);
  void give_back(void* block, std::uint32_t log2_bytes);
  /// Of all that it has ever handed out at once, and the gaps between.
  std::uint64_t bytes() const noexcept { return used_; }

 private:
  static constexpr std::uint32_t kLog2Min = 6;
  static constexpr std::uint32_t kLog2Max = 30;
  struct Chunk {
    Pages pages;
    std::uint32_t log2_bytes;
    std::size_t used;  ///< from its begin to the end of what was ever handed out
  };
  Chunk& chunk_of(std::byte* block) { return std::prev(chunks_.upper_bound(block))->second; }
  void grow(std::uint32_t log2_bytes);

  std::map<std::byte*, Chunk> chunks_;  ///< by where they begin
  std::uint32_t log2_next_ = 16;
  std::uint64_t used_ = 0;
  std::array<std::set<std::byte*>, kLog2Max + 1> free_;  ///< the lowest goes first
};

}  // namespace dlrun::ps
