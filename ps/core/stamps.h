#pragma once
/// ps/core/stamps.h: what the rows of a push have in common, version and last use, kept once for
/// all of them: a row has the number of its stamp in the index entry by which it is found, so that
/// a push writes no line of memory for them that it would not read anyhow.
/// Bounds: as many as rows, when each was changed by a push of its own; 16 bytes each.
/// Threads: single owner.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace dlrun::ps {

class Stamps {
 public:
  struct Stamp {
    std::uint64_t version = 0;     ///< shard log sequence of the last change
    std::uint32_t last_use_s = 0;  ///< time of the last push, seconds of the operation's clock
    std::uint32_t holders = 0;     ///< of a free one: the next free one
  };
  /// Held for ever: version 0, last use 0.
  static constexpr std::uint32_t kZero = 0;

  Stamps();
  /// One of these values, held once more.
  std::uint32_t take(std::uint64_t version, std::uint32_t last_use_s);
  void hold(std::uint32_t stamp, std::uint32_t times = 1) noexcept { at(stamp).holders += times; }
  void drop(std::uint32_t stamp) noexcept {
    if (--at(stamp).holders == 0) free(stamp);
  }
  const Stamp& operator[](std::uint32_t stamp) const noexcept {
    return chunks_[stamp >> kLog2Chunk][stamp & (kChunk - 1)];
  }
  std::uint64_t bytes() const noexcept { return chunks_.size() * kChunk * sizeof(Stamp); }

 private:
  static constexpr std::uint32_t kLog2Chunk = 12;
  static constexpr std::uint32_t kChunk = 1u << kLog2Chunk;
  Stamp& at(std::uint32_t stamp) noexcept {
    return chunks_[stamp >> kLog2Chunk][stamp & (kChunk - 1)];
  }
  void free(std::uint32_t stamp) noexcept;

  std::vector<std::unique_ptr<Stamp[]>> chunks_;  ///< never move
  std::uint32_t made_ = 0;
  std::uint32_t free_ = 0;                  ///< the last freed one; 0: none
  std::array<std::uint32_t, 64> recent_{};  ///< by version: likely to be asked for again
};

}  // namespace dlrun::ps
