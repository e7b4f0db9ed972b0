#pragma once
/// runtime/transport/recycler.h: memory of what lives as long as one request: blocks that are kept
/// when they are given back and handed out again, so that a steady stream of requests asks the
/// system for none.
/// Bounds: blocks above kBlockBytesMax, and above kKeptMax of one size, go back to the system.
/// Threads: all methods lock.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace dlrun::transport {

class Recycler {
 public:
  static constexpr std::size_t kBlockBytesMax = 2048;
  static constexpr std::uint32_t kKeptMax = 1024;

  Recycler() = default;
  ~Recycler() {
    for (Kept& kept : kept_) {
      while (kept.first != nullptr) ::operator delete(std::exchange(kept.first, kept.first->next));
    }
  }
  Recycler(const Recycler&) = delete;
  Recycler& operator=(const Recycler&) = delete;

  void* take(std::size_t bytes) {
    if (bytes > kBlockBytesMax) return ::operator new(bytes);
    const std::size_t size = class_of(bytes);
    {
      const std::lock_guard lock(mutex_);
      Kept& kept = kept_[size];
      if (kept.first != nullptr) {
        --kept.n;
        return std::exchange(kept.first, kept.first->next);
      }
    }
    return ::operator new((size + 1) * kStep);
  }
  /// `bytes` as they were asked for.
  void give_back(void* block, std::size_t bytes) noexcept {
    if (bytes <= kBlockBytesMax) {
      const std::lock_guard lock(mutex_);
      Kept& kept = kept_[class_of(bytes)];
      if (kept.n < kKeptMax) {
        ++kept.n;
        kept.first = new (block) Block{kept.first};
        return;
      }
    }
    ::operator delete(block);
  }

 private:
  static constexpr std::size_t kStep = 64;
  struct Block {
    Block* next;
  };
  struct Kept {
    Block* first = nullptr;
    std::uint32_t n = 0;
  };
  static std::size_t class_of(std::size_t bytes) noexcept {
    return bytes == 0 ? 0 : (bytes - 1) / kStep;
  }

  std::mutex mutex_;
  std::array<Kept, kBlockBytesMax / kStep> kept_;
};

/// For containers and std::allocate_shared; keeps `Owner`, whose recycler() it uses, alive.
template <class T, class Owner>
class RecyclingAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  explicit RecyclingAllocator(std::shared_ptr<Owner> owner) noexcept : owner_(std::move(owner)) {}
  // No move: an allocator that was moved from is still in use.
  RecyclingAllocator(const RecyclingAllocator&) noexcept = default;
  RecyclingAllocator& operator=(const RecyclingAllocator&) noexcept = default;
  template <class U>
  RecyclingAllocator(
      const RecyclingAllocator<U, Owner>& other) noexcept  // NOLINT: as allocators do
      : owner_(other.owner()) {}

  T* allocate(std::size_t n) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return static_cast<T*>(owner_->recycler().take(n * sizeof(T)));
  }
  void deallocate(T* p, std::size_t n) noexcept { owner_->recycler().give_back(p, n * sizeof(T)); }
  const std::shared_ptr<Owner>& owner() const noexcept { return owner_; }
  friend bool operator==(const RecyclingAllocator& a, const RecyclingAllocator& b) noexcept {
    return a.owner_ == b.owner_;
  }

 private:
  std::shared_ptr<Owner> owner_;
};

}  // namespace dlrun::transport
