#pragma once
/// runtime/transport/shm_link.h: two rings of messages in one anonymous memory file, one for each
/// direction, between two processes of a host. Small on purpose: what circulates in it stays in the
/// cache. A message lies in one stretch (each ring is mapped twice, end to start), so that it is
/// read where it lies; its place is free again when the last of its frames has been dropped.
///
/// File: control page | ring of the dialling side's messages | ring of the other's.
/// Record: RecordHead (64 bytes), then each frame at a multiple of 64.
/// head: bytes ever written, by the producer; tail: bytes ever freed, by the consumer; sleeps: the
/// consumer is about to sleep, ring its bell.
/// A message larger than half a ring goes in a memory file of its own; the ring then has a record
/// that says so, and the descriptor is handed over by the user of this class (ShmEnd).
///
/// Errors: kOverloaded (no room; nothing was written), kCorrupt (the peer broke the format: drop
/// it), kResourceExhausted (memory, descriptors), kInvalidArgument (too many frames, too large).
/// Safety: every file is sealed against shrinking, and every number from the peer is checked before
/// use, on a copy. What the frames hold may change under the reader if the peer is malicious: a
/// reader must not trust a value that it reads twice.
/// Threads: put by one; take, reap, arm by one; frames may be dropped anywhere. A child that is
/// forked does not have the rings: it may destroy its copy, not more.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/os/fd.h"
#include "runtime/transport/transport.h"

namespace dlrun::transport {

class ShmLink {
 public:
  static constexpr std::uint32_t kFramesMax = 8;
  static constexpr std::uint32_t kRingBytesMin = 64u << 10;
  static constexpr std::uint32_t kRingBytesMax = 4u << 20;
  static constexpr std::uint32_t kRingBytesDefault = 2u << 20;
  static constexpr std::size_t kBigMax = 8;  ///< large messages under way in one direction

  /// The dialling side. `ring_bytes`: a power of two, kRingBytesMin to kRingBytesMax.
  static Result<std::unique_ptr<ShmLink>> create(std::uint32_t ring_bytes,
                                                 std::uint64_t message_bytes_max);
  /// The other side. kCorrupt: a file that is not such, or could shrink.
  static Result<std::unique_ptr<ShmLink>> attach(os::Fd file, std::uint32_t ring_bytes,
                                                 std::uint64_t message_bytes_max);
  ~ShmLink();
  ShmLink(const ShmLink&) = delete;
  ShmLink& operator=(const ShmLink&) = delete;

  /// To be handed to the other side, and then closed: the link does not need it.
  int file() const noexcept { return file_.get(); }
  void close_file() noexcept { file_.reset(); }

  /// `hand_over(fd)` sends a descriptor to the peer, for a large message.
  using HandOver = std::function<Status(int fd)>;
  Status put(const Message& message, const HandOver& hand_over);
  /// As Channel has them.
  std::byte* reserve(const Frame& head, std::size_t bytes);
  void commit() noexcept;
  /// True once after a put that found the peer about to sleep: ring its bell.
  bool bell_wanted() noexcept;

  /// `next_file()` gives the descriptors that came, in order; none: the peer's fault, since a file
  /// is sent before its record.
  using NextFile = std::function<os::Fd()>;
  Result<std::optional<Message>> take(const NextFile& next_file);
  /// Gives back the room of messages whose frames have been dropped.
  void reap() noexcept;
  /// Before sleeping. false: a message is there, do not sleep.
  bool arm() noexcept;
  void disarm() noexcept;

 private:
  struct Control;
  struct Mapping;
  struct Pin;
  struct RecordHead;
  ShmLink(os::Fd file, std::shared_ptr<Mapping> mapping, int side, std::uint64_t message_bytes_max);
  static Result<std::shared_ptr<Mapping>> map(int file, std::uint32_t ring_bytes, int side);
  static std::uint64_t total_of(const RecordHead& head) noexcept;
  static void copy_frames(std::byte* to, const RecordHead& head, const Message& message);
  static Message frames_of(const RecordHead& head, const std::byte* record,
                           const std::shared_ptr<const void>& owner);
  Status check_sizes(const Message& message, RecordHead& head) const;
  Result<std::uint64_t> room(std::uint64_t needed);
  Status put_file(const Message& message, const RecordHead& head, const HandOver& hand_over);
  void publish(std::uint64_t bytes) noexcept;
  bool ready() const noexcept;
  void pin(std::uint64_t at, std::uint64_t bytes) noexcept;
  void reap(std::uint64_t at_least) noexcept;
  Result<std::optional<Message>> take_file(const RecordHead& head, const NextFile& next_file);

  os::Fd file_;  ///< of the dialling side
  std::shared_ptr<Mapping> mapping_;
  const int side_;
  const std::uint32_t ring_bytes_;
  const std::uint64_t message_bytes_max_;
  std::uint64_t written_ = 0;                  ///< own head
  std::uint64_t reserved_ = 0;                 ///< bytes of the record that commit() publishes
  std::uint64_t tail_seen_ = 0;                ///< the peer's tail when last looked at
  std::deque<std::uint64_t> files_under_way_;  ///< ends of own records of large messages
  std::uint64_t read_ = 0;                     ///< bytes taken of the peer's ring, freed or not
  std::uint64_t freed_ = 0;                    ///< of these, whose frames have been dropped
  std::uint64_t told_ = 0;                     ///< the tail that the peer sees
};

}  // namespace dlrun::transport
