#pragma once
/// ps/core/pages.h: memory for rows and indexes: mapped, zeroed, asking for huge pages, touched
/// only as it is used, given back to the system when its owner goes.
/// Errors: std::bad_alloc.
/// Threads: single owner.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

/// Blocks of 2^k bytes, 64 B to 1 GiB, cut from growing mappings; a block that comes back is used
/// again, whole or in halves. What it hands out is not zeroed.
class PowerPool {
 public:
  void* take(std::uint32_t log2_bytes);
  void give_back(void* block, std::uint32_t log2_bytes) noexcept;
  /// Of all that it has ever cut.
  std::uint64_t bytes() const noexcept { return cut_; }

 private:
  static constexpr std::uint32_t kLog2Min = 6;
  static constexpr std::uint32_t kLog2Max = 30;
  struct Free {
    Free* next;
  };
  void grow(std::uint32_t log2_bytes);

  std::vector<Pages> chunks_;
  std::byte* at_ = nullptr;  ///< the rest of the last chunk
  std::size_t left_ = 0;
  std::size_t next_chunk_ = 64 << 10;
  std::uint64_t cut_ = 0;
  std::array<Free*, kLog2Max + 1> free_{};
};

}  // namespace dlrun::ps
