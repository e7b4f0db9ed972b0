#include "ps/core/dedup_window.h"

#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::ps {

DedupWindow::Seen DedupWindow::look(std::uint64_t sequence) const noexcept {
  if (sequence > highest_) return Seen::kNew;
  if (highest_ - sequence >= kSequencesOpenMax) return Seen::kTooOld;
  const std::uint64_t bit = sequence % kSequencesOpenMax;
  return (bits_[bit / 64] >> (bit % 64) & 1) != 0 ? Seen::kApplied : Seen::kNew;
}

void DedupWindow::mark(std::uint64_t sequence) noexcept {
  DLRUN_ASSERT(look(sequence) == Seen::kNew);
  if (sequence > highest_) {
    if (sequence - highest_ >= kSequencesOpenMax) {
      bits_ = {};
    } else {
      for (std::uint64_t s = highest_ + 1; s != sequence; ++s) {
        bits_[s % kSequencesOpenMax / 64] &= ~(std::uint64_t{1} << (s % 64));
      }
    }
    highest_ = sequence;
  }
  bits_[sequence % kSequencesOpenMax / 64] |= std::uint64_t{1} << (sequence % 64);
}

std::uint64_t DedupWindow::digest(std::uint64_t salt) const noexcept {
  std::uint64_t h = mix64(salt ^ highest_);
  for (const std::uint64_t word : bits_) h = mix64(h ^ word);
  return h;
}

}  // namespace dlrun::ps
