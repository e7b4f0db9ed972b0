#pragma once
/// ps/pslite/core/link_core.h: one end of a link that loses packets whole and keeps their order:
/// numbers what is sent, says what has to be sent again, takes each packet once and in order, and
/// knows when the peer is lost. Go-back-N with cumulative acknowledgement: packets are lost only
/// when a connection breaks, so the time until they are sent again may be long; then one packet
/// goes first, alone, to see what the peer has.
///
///   base          cursor        next
///    | sent, not    | to be sent  |          sequence numbers; [base, next) are kept by the user
///    | acknowledged |             |
///
/// Credit: of bytes that count (requests) at most `credit_bytes` are with the peer and not taken,
/// or one packet. Parts of a mail that is not whole count as taken as they come, once: what is
/// taken never goes back, so that a mail may be larger than the credit.
/// Errors: none. A peer that acknowledges what was not sent is ignored.
/// Bounds: Limits. Threads: single owner.

#include <cstdint>

#include "runtime/base/time.h"

namespace dlrun::pslite {

class LinkCore {
 public:
  struct Limits {
    std::uint64_t credit_bytes = 16u << 20;
    std::uint32_t packets = 1024;  ///< kept
    std::uint32_t ack_packets = 32;
    Duration ack_within = std::chrono::milliseconds(5);
    Duration resend_after = std::chrono::seconds(2);
    Duration resend_after_max = std::chrono::seconds(16);
    Duration keepalive = std::chrono::seconds(1);
    Duration lost_after = std::chrono::seconds(20);
  };

  LinkCore(const Limits& limits, TimePoint now);

  // Sending.
  bool may_number(std::uint64_t counted_bytes) const noexcept;
  std::uint64_t number(std::uint64_t counted_bytes) noexcept;  ///< may_number() must hold
  /// The packet to be sent now; 0: none.
  std::uint64_t to_send() const noexcept;
  void sent(TimePoint now) noexcept;                     ///< that one
  std::uint64_t base() const noexcept { return base_; }  ///< packets before it are done with
  bool idle() const noexcept { return base_ == next_; }  ///< all is acknowledged
  std::uint64_t unsent() const noexcept { return next_ - cursor_; }

  // Receiving.
  /// What the header of any packet says. true: its payload is the next one, to be handled.
  bool on_packet(std::uint64_t sequence, std::uint64_t ack, std::uint64_t taken,
                 TimePoint now) noexcept;
  /// Bytes that count and belong to a mail that is not whole yet; a mail became whole, of which
  /// `before` had come before its last packet; bytes of whole mails were taken.
  void on_part(std::uint64_t bytes) noexcept;
  void on_whole(std::uint64_t before) noexcept { assembling_ -= before; }
  void on_taken(std::uint64_t bytes) noexcept;

  // What goes into every header; told(): it went.
  std::uint64_t ack() const noexcept { return expected_ - 1; }
  std::uint64_t taken() const noexcept { return taken_; }
  void told(TimePoint now) noexcept;

  // Time.
  /// A header alone is to be sent: to acknowledge, to give credit, or as a sign of life.
  bool must_tell(TimePoint now) const noexcept;
  void on_time(TimePoint now) noexcept;  ///< may move the cursor back
  bool lost(TimePoint now) const noexcept { return now - heard_ > limits_.lost_after; }
  Duration silence(TimePoint now) const noexcept { return now - heard_; }
  /// This process did not run for so long: nobody is late for it.
  void stood_still(Duration time) noexcept { heard_ += time; }
  /// When must_tell() or on_time() has something to do, at the latest.
  TimePoint next_time() const noexcept;

 private:
  Limits limits_;
  std::uint64_t base_ = 1, cursor_ = 1, next_ = 1;
  bool probing_ = false;  ///< only the packet at base is sent until it is acknowledged
  Duration resend_after_;
  TimePoint progress_;  ///< the last acknowledgement, or the first packet after all was
  std::uint64_t counted_sent_ = 0, counted_taken_ = 0;

  std::uint64_t expected_ = 1;
  std::uint64_t consumed_ = 0, assembling_ = 0, taken_ = 0;
  std::uint64_t taken_told_ = 0;
  std::uint32_t unacked_ = 0;  ///< came since the last header that went
  bool ack_now_ = false;
  TimePoint unacked_since_;
  TimePoint heard_, told_;
};

}  // namespace dlrun::pslite
