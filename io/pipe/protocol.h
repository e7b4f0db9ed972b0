#pragma once
/// io/pipe/protocol.h: the bytes that feeder and consumer share: handshake messages, the control
/// segment, a descriptor. docs/io.md draws the layout and says which side writes what with which
/// ordering.
/// Trust: the consumer can write anything into the control segment and nothing into the data
/// segment. So each side keeps its own counters and its own copy of the geometry in private memory
/// and treats what it reads here as a claim to be checked.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dlrun::io::pipe {

inline constexpr std::uint64_t kHelloMagic = 0x31455049504c44ULL;  ///< "DLPIPE1"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kTextBytes = 1024;
inline constexpr std::uint32_t kSlotsMax = 64;
inline constexpr std::uint64_t kSlotBytesMax = std::uint64_t{1} << 30;
inline constexpr std::size_t kErrorTextMax = 4096;
inline constexpr std::size_t kProgressMax = 4096;
inline constexpr std::size_t kLanesMax = 4096;
inline constexpr std::uint32_t kNoLane = 0xffffffff;

/// Consumer -> feeder: first and only message on the socket (SOCK_SEQPACKET), followed by as many
/// SplitProgress, then any number of LanePosition (io/core/msg.h), the first of which, of the lane
/// kNoLane, says at which pass and step the consumer is; after it the socket only tells of a death.
struct Hello {
  std::uint64_t magic = kHelloMagic;
  std::uint32_t version = kVersion;
  std::uint32_t progress = 0;  ///< what the consumer took before, from other feeders
  std::array<std::uint8_t, 32> token{};
};

/// Feeder -> consumer. With error == 0, SCM_RIGHTS carries: data memfd, control memfd, the eventfd
/// that wakes the consumer, the eventfd that wakes the feeder.
struct Answer {
  std::uint64_t magic = kHelloMagic;
  std::uint32_t version = kVersion;
  std::int32_t error = 0;  ///< Errc
  std::uint32_t slots = 0;
  std::uint32_t entries = 0;  ///< of each of the two rings, a power of two
  std::uint64_t slot_bytes = 0;
  char text[kTextBytes] = {};  ///< of the error, NUL-terminated
};
inline constexpr std::size_t kDescriptorsSent = 4;

/// kNoRows: a step without a row; `sequence` is the step.
enum class EntryKind : std::uint32_t {
  kBatch = 1,
  kPassEnd = 2,
  kEndOfData = 3,
  kError = 4,
  kNoRows = 5
};

struct alignas(64) Descriptor {
  EntryKind kind{};
  std::uint32_t slot = 0;      ///< kBatch; kError: where the text is
  std::uint64_t bytes = 0;     ///< of the batch or the text
  std::uint64_t sequence = 0;  ///< of batches
  std::uint32_t pass = 0;
  std::int32_t error = 0;  ///< kError: Errc
};
static_assert(sizeof(Descriptor) == 64);

/// What the producer sleeps for; the consumer wakes it only for that.
enum ProducerWait : std::uint32_t { kAwake = 0, kForSlot = 1, kForEntry = 2 };

struct ControlHeader {
  alignas(64) std::atomic<std::uint64_t> published;  ///< producer: entries written
  std::atomic<std::uint32_t> producer_wait;          ///< producer: ProducerWait
  alignas(64) std::atomic<std::uint64_t> taken;      ///< consumer: entries read
  std::atomic<std::uint64_t> returned;               ///< consumer: slots given back
  std::atomic<std::uint32_t> consumer_wait;          ///< consumer: 1 = asleep
};
static_assert(sizeof(ControlHeader) == 128);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// ControlHeader, Descriptor[entries], atomic<u32> returns[entries].
struct ControlLayout {
  static constexpr std::size_t descriptors() { return sizeof(ControlHeader); }
  static constexpr std::size_t returns(std::uint32_t entries) {
    return descriptors() + std::size_t{entries} * sizeof(Descriptor);
  }
  static constexpr std::size_t bytes(std::uint32_t entries) {
    return returns(entries) + std::size_t{entries} * sizeof(std::atomic<std::uint32_t>);
  }
};

}  // namespace dlrun::io::pipe
