#include "ps/pslite/core/link_core.h"

#include <algorithm>

#include "runtime/base/assert.h"

namespace dlrun::pslite {

LinkCore::LinkCore(const Limits& limits, TimePoint now)
    : limits_(limits),
      resend_after_(limits.resend_after),
      progress_(now),
      heard_(now),
      told_(now) {}

bool LinkCore::may_number(std::uint64_t counted_bytes) const noexcept {
  if (next_ - base_ >= limits_.packets) return false;
  const std::uint64_t out = counted_sent_ - counted_taken_;
  return counted_bytes == 0 || out == 0 || out + counted_bytes <= limits_.credit_bytes;
}

std::uint64_t LinkCore::number(std::uint64_t counted_bytes) noexcept {
  DLRUN_ASSERT(may_number(counted_bytes));
  counted_sent_ += counted_bytes;
  return next_++;
}

std::uint64_t LinkCore::to_send() const noexcept {
  if (cursor_ == next_ || (probing_ && cursor_ != base_)) return 0;
  return cursor_;
}

void LinkCore::sent(TimePoint now) noexcept {
  DLRUN_ASSERT(cursor_ < next_);
  if (cursor_ == base_) progress_ = now;
  ++cursor_;
}

bool LinkCore::on_packet(std::uint64_t sequence, std::uint64_t ack, std::uint64_t taken,
                         TimePoint now) noexcept {
  heard_ = now;
  if (ack >= base_ && ack < next_) {
    base_ = ack + 1;
    cursor_ = std::max(cursor_, base_);
    probing_ = false;
    resend_after_ = limits_.resend_after;
    progress_ = now;
  }
  if (taken > counted_taken_ && taken <= counted_sent_) counted_taken_ = taken;
  if (sequence == 0) return false;
  if (sequence != expected_) {
    ack_now_ = true;
    return false;
  }
  ++expected_;
  if (unacked_++ == 0) unacked_since_ = now;
  return true;
}

void LinkCore::on_part(std::uint64_t bytes) noexcept {
  assembling_ += bytes;
  taken_ = std::max(taken_, consumed_ + assembling_);
}

void LinkCore::on_taken(std::uint64_t bytes) noexcept {
  consumed_ += bytes;
  taken_ = std::max(taken_, consumed_ + assembling_);
}

void LinkCore::told(TimePoint now) noexcept {
  told_ = now;
  taken_told_ = taken_;
  unacked_ = 0;
  ack_now_ = false;
}

bool LinkCore::must_tell(TimePoint now) const noexcept {
  return ack_now_ || unacked_ >= limits_.ack_packets ||
         (unacked_ > 0 && now - unacked_since_ >= limits_.ack_within) ||
         taken_ - taken_told_ >= limits_.credit_bytes / 4 || now - told_ >= limits_.keepalive;
}

void LinkCore::on_time(TimePoint now) noexcept {
  if (base_ == cursor_ || now - progress_ < resend_after_) return;
  cursor_ = base_;
  probing_ = true;
  progress_ = now;
  resend_after_ = std::min(resend_after_ * 2, limits_.resend_after_max);
}

TimePoint LinkCore::next_time() const noexcept {
  TimePoint at = told_ + limits_.keepalive;
  if (unacked_ > 0) at = std::min(at, unacked_since_ + limits_.ack_within);
  if (base_ != cursor_) at = std::min(at, progress_ + resend_after_);
  return at;
}

}  // namespace dlrun::pslite
