#include "io/core/taken_splits.h"

namespace dlrun::io {

void TakenSplits::take(std::span<const SplitPiece> pieces) {
  for (const SplitPiece& piece : pieces) {
    Taken& taken = taken_[{piece.split_id, piece.pass}];
    taken.rows += piece.rows;
    taken.whole = taken.whole || piece.last != 0;
    ++taken.held;
  }
}

void TakenSplits::release(std::span<const SplitPiece> pieces) {
  for (const SplitPiece& piece : pieces) {
    const SplitKey key{piece.split_id, piece.pass};
    const auto it = taken_.find(key);
    if (it == taken_.end() || it->second.held == 0) continue;
    if (--it->second.held == 0 && it->second.whole) settled_.push_back(key);
  }
  while (settled_.size() > kKept) {
    const auto it = taken_.find(settled_.front());
    if (it != taken_.end() && it->second.held == 0) taken_.erase(it);
    settled_.pop_front();
  }
}

std::vector<SplitProgress> TakenSplits::progress() const {
  std::vector<SplitProgress> out;
  out.reserve(taken_.size());
  for (const auto& [key, taken] : taken_)
    out.push_back({key.split_id, taken.rows, key.pass, taken.whole ? 1u : 0u});
  return out;
}

}  // namespace dlrun::io
