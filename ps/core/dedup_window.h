#pragma once
/// ps/core/dedup_window.h: which of a client's pushes a slot has already taken. One per (slot,
/// client); it moves with the slot. A client numbers its pushes 1, 2, ... and never first-sends
/// number q while one <= q - kSequencesOpenMax is still open (neither answered nor given up), so a
/// number that fell out of the window is no longer waited for.
/// Bound: 40 bytes.
/// Complexity: O(1).

#include <array>
#include <cstdint>

namespace dlrun::ps {

inline constexpr std::uint64_t kSequencesOpenMax = 256;

class DedupWindow {
 public:
  enum class Seen : std::uint8_t { kNew, kApplied, kTooOld };
  /// bit (sequence % 256) of the last 256
  using Bits = std::array<std::uint64_t, kSequencesOpenMax / 64>;

  DedupWindow() = default;
  /// One that was written down.
  DedupWindow(std::uint64_t highest, const Bits& bits) noexcept : highest_(highest), bits_(bits) {}

  Seen look(std::uint64_t sequence) const noexcept;
  /// `sequence` must be kNew.
  void mark(std::uint64_t sequence) noexcept;

  friend bool operator==(const DedupWindow&, const DedupWindow&) = default;
  std::uint64_t highest() const noexcept { return highest_; }
  const Bits& bits() const noexcept { return bits_; }
  std::uint64_t digest(std::uint64_t salt) const noexcept;

 private:
  std::uint64_t highest_ = 0;  ///< 0 = none yet
  Bits bits_{};
};

}  // namespace dlrun::ps
