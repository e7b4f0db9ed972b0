#pragma once
/// io/core/taken_splits.h: what a consumer took of each split, kept by the consumer itself: the one
/// process whose death ends the generation. Whoever feeds it next begins where it stands, so that
/// no row comes twice and none is left out, whatever died in between.
///
/// Bounds: a split is remembered until kKept others were taken whole and released after it. The
/// ledger holds at most 256 leases of a consumer that it has not recorded as done, and they are
/// recorded in the order of their release: what is forgotten is on disk.
/// Threads: single owner.

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "io/core/batch.h"
#include "io/core/msg.h"

namespace dlrun::io {

class TakenSplits {
 public:
  static constexpr std::size_t kKept = 512;

  void take(std::span<const SplitPiece> pieces);
  /// Every batch that was taken, once.
  void release(std::span<const SplitPiece> pieces);
  /// At most kKept + those open.
  std::vector<SplitProgress> progress() const;

 private:
  struct Taken {
    std::uint64_t rows = 0;
    std::uint32_t held = 0;  ///< batches with rows of it that are not released
    bool whole = false;
  };
  std::map<SplitKey, Taken> taken_;
  std::deque<SplitKey> settled_;  ///< nothing held, oldest first; a key may stand here twice
};

}  // namespace dlrun::io
