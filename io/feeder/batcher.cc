#include "io/feeder/batcher.h"

#include <algorithm>
#include <utility>

#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::io {

Batcher::Batcher(const InputSpec& spec, std::unique_ptr<RowStore> store, std::uint64_t slot_bytes)
    : shuffle_(spec.shuffle),
      seed_(spec.seed),
      batch_rows_(std::max<std::uint64_t>(spec.batch_rows, 1)),
      slot_bytes_(slot_bytes),
      store_(std::move(store)) {}

void Batcher::begin_split(SplitKey split, std::uint64_t skip) {
  DLRUN_ASSERT(empty() || split.pass == pass_);
  pass_ = split.pass;
  current_ = split;
  skip_ = skip;
  window_ = 0;
  work_[split] = Work{};
  compact();
  window_bytes_at_ = store_->bytes();
}

std::uint64_t Batcher::window_bytes() const { return store_->bytes() - window_bytes_at_; }

void Batcher::close_window() {
  const std::size_t first = row_split_.size();
  const std::size_t last = store_->rows();
  const std::size_t at = order_.size();
  row_split_.resize(last, current_);
  for (std::size_t row = first; row < last; ++row)
    order_.push_back(static_cast<std::uint32_t>(row));
  if (shuffle_) {
    SplitMix64 rng(mix64(seed_) ^ mix64(std::uint64_t{current_.pass} << 32 | window_) ^
                   mix64(~current_.split_id));
    for (std::size_t i = order_.size(); i > at + 1; --i)
      std::swap(order_[i - 1], order_[at + static_cast<std::size_t>(rng.below(i - at))]);
  }
  const auto skipped = std::min<std::uint64_t>(skip_, last - first);
  skip_ -= skipped;
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(at);
  order_.erase(begin, begin + static_cast<std::ptrdiff_t>(skipped));
  for (std::size_t i = at; i < order_.size(); ++i) weight_waiting_ += store_->weight(order_[i]);
  work_[current_].rows_waiting += order_.size() - at;
  ++window_;
  window_bytes_at_ = store_->bytes();
}

void Batcher::end_split() {
  work_[current_].read = true;
  check(current_);
}

bool Batcher::full_batch() const {
  const std::uint64_t rows = order_.size() - next_;
  return rows >= batch_rows_ ||
         store_->batch_bytes(rows, weight_waiting_, splits_waiting()) > slot_bytes_;
}

bool Batcher::exact_batch() const {
  return order_.size() - next_ <= batch_rows_ &&
         store_->batch_bytes(order_.size() - next_, weight_waiting_, splits_waiting()) <=
             slot_bytes_;
}

std::uint64_t Batcher::splits_waiting() const {
  return static_cast<std::uint64_t>(std::count_if(
      work_.begin(), work_.end(), [](const auto& work) { return work.second.rows_waiting > 0; }));
}

std::uint64_t Batcher::write(std::span<std::byte> slot) {
  DLRUN_ASSERT(!empty() && writing_.empty());
  std::uint64_t weight = 0;
  std::size_t end = next_;
  std::vector<SplitPiece>& pieces = pieces_;
  pieces.clear();
  while (end < order_.size() && end - next_ < batch_rows_) {
    const SplitKey split = row_split_[order_[end]];
    const bool another =
        pieces.empty() || SplitKey{pieces.back().split_id, pieces.back().pass} != split;
    const std::uint64_t more = weight + store_->weight(order_[end]);
    if (store_->batch_bytes(end - next_ + 1, more, pieces.size() + (another ? 1 : 0)) > slot.size())
      break;
    if (another) pieces.push_back({split.split_id, 0, split.pass, 0});
    ++pieces.back().rows;
    weight = more;
    ++end;
  }
  DLRUN_ASSERT(end > next_);  // a slot holds any one record
  for (SplitPiece& piece : pieces) {
    const SplitKey split{piece.split_id, piece.pass};
    Work& work = work_[split];
    work.rows_waiting -= piece.rows;
    ++work.batches_out;
    piece.last = work.read && work.rows_waiting == 0 ? 1 : 0;
    writing_.push_back(split);
  }
  const std::uint64_t bytes =
      store_->write(std::span(order_).subspan(next_, end - next_), pass_, pieces, slot);
  next_ = end;
  weight_waiting_ -= weight;
  if (2 * next_ >= order_.size() && row_split_.size() == store_->rows()) compact();
  return bytes;
}

void Batcher::sent(std::uint64_t sequence) { batches_[sequence] = std::exchange(writing_, {}); }

void Batcher::released(std::uint64_t sequence) {
  const auto batch = batches_.find(sequence);
  DLRUN_ASSERT(batch != batches_.end());
  for (const SplitKey split : batch->second) {
    --work_[split].batches_out;
    check(split);
  }
  batches_.erase(batch);
}

void Batcher::check(SplitKey split) {
  const Work& work = work_[split];
  if (!work.read || work.rows_waiting > 0 || work.batches_out > 0) return;
  work_.erase(split);
  done_.push_back(split);
}

std::vector<SplitKey> Batcher::take_done() { return std::exchange(done_, {}); }

std::vector<SplitKey> Batcher::open_splits() const {
  std::vector<SplitKey> open;
  for (const auto& [split, work] : work_) open.push_back(split);
  return open;
}

/// Only between windows: every row of the store is in order_.
void Batcher::compact() {
  if (next_ == 0) return;
  const auto kept = std::span(order_).subspan(next_);
  store_->keep(kept);
  std::vector<SplitKey> kept_split;
  for (const std::uint32_t row : kept) kept_split.push_back(row_split_[row]);
  row_split_ = std::move(kept_split);
  order_.resize(row_split_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<std::uint32_t>(i);
  next_ = 0;
  window_bytes_at_ = store_->bytes();
}

}  // namespace dlrun::io
