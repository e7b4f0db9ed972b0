#include "runtime/transport/shm_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/base/assert.h"
#include "runtime/transport/recycler.h"

namespace dlrun::transport {

struct ShmLink::RecordHead {
  std::uint32_t kind = 0;  ///< kInRing or kInFile
  std::uint32_t frames = 0;
  std::uint64_t total = 0;  ///< bytes of the record (of the file), this head included
  std::uint32_t sizes[ShmLink::kFramesMax] = {};
};

namespace {

constexpr std::uint32_t kInRing = 0x646c7231;
constexpr std::uint32_t kInFile = 0x646c7232;
constexpr std::size_t kControlBytes = 4096;
constexpr std::uint64_t kUnit = 64;  ///< records begin at its multiples
constexpr std::size_t kHeadBytes = kUnit;

std::uint64_t up_to_unit(std::uint64_t n) noexcept { return (n + kUnit - 1) / kUnit * kUnit; }

bool is_ring_size(std::uint32_t bytes) noexcept {
  return std::has_single_bit(bytes) && bytes >= ShmLink::kRingBytesMin &&
         bytes <= ShmLink::kRingBytesMax;
}

tl::unexpected<Error> broken() {
  return fail(Errc::kCorrupt, "the peer has broken the format of shared memory");
}

Result<os::Fd> sealed_file(const char* name, std::size_t bytes) {
  os::Fd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return fail_errno("shared memory");
  // All of it now: a shortage is an error here, not a SIGBUS later.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0)
    return fail_errno("shared memory of " + std::to_string(bytes) + " bytes", error);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno("sealing shared memory");
  return file;
}

/// Of exactly this size, and can never be smaller.
bool is_sealed_file(int file, std::uint64_t bytes) noexcept {
  struct stat status {};
  const int seals = ::fcntl(file, F_GET_SEALS);
  return ::fstat(file, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == bytes &&
         seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace

struct ShmLink::Control {
  struct Ring {
    alignas(64) std::atomic<std::uint64_t> head;
    alignas(64) std::atomic<std::uint64_t> tail;
    alignas(64) std::atomic<std::uint32_t> sleeps;
  };
  Ring rings[2];  ///< [0]: of the dialling side's messages
};

/// Lives as long as the link or a frame of a message that was read in place.
struct ShmLink::Mapping {
  static constexpr std::uint32_t kDropped = 1u << 31;
  std::byte* base = nullptr;
  std::size_t size = 0;
  std::uint32_t ring_bytes = 0;
  Recycler recycled;
  Recycler& recycler() noexcept { return recycled; }
  /// Of the ring that is read here, by unit: of a record that begins there and was taken, its
  /// units, and kDropped when nobody holds a frame of it any more. The peer does not see them.
  std::unique_ptr<std::atomic<std::uint32_t>[]> pins;

  ~Mapping() {
    if (base != nullptr) ::munmap(base, size);
  }
  Control& control() const noexcept { return *reinterpret_cast<Control*>(base); }
  std::byte* ring(int which) const noexcept {
    return base + kControlBytes + static_cast<std::size_t>(which) * 2 * ring_bytes;
  }
  std::atomic<std::uint32_t>& pin(std::uint64_t at) const noexcept {
    return pins[at % ring_bytes / kUnit];
  }
};

/// What the frames of a taken record own; who allocated it keeps the mapping.
struct ShmLink::Pin {
  Mapping* mapping;
  std::uint64_t at;
  void operator()(const void*) const noexcept {
    mapping->pin(at).fetch_or(Mapping::kDropped, std::memory_order_release);
  }
};

Result<std::shared_ptr<ShmLink::Mapping>> ShmLink::map(int file, std::uint32_t ring_bytes,
                                                       int side) {
  static_assert(sizeof(RecordHead) <= kHeadBytes && sizeof(Control) <= kControlBytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  auto mapping = std::make_shared<Mapping>();
  mapping->ring_bytes = ring_bytes;
  mapping->size = kControlBytes + 4 * std::size_t{ring_bytes};
  mapping->pins = std::make_unique<std::atomic<std::uint32_t>[]>(ring_bytes / kUnit);
  void* base = ::mmap(nullptr, mapping->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return fail_errno("mapping shared memory");
  mapping->base = static_cast<std::byte*>(base);
  const auto place = [&](std::size_t at, std::size_t bytes, std::size_t offset, bool writable) {
    return ::mmap(mapping->base + at, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                  MAP_SHARED | MAP_FIXED | MAP_POPULATE, file,
                  static_cast<off_t>(offset)) != MAP_FAILED;
  };
  bool placed = place(0, kControlBytes, 0, true);
  for (std::size_t i = 0; i < 4; ++i) {
    placed = placed && place(kControlBytes + i * ring_bytes, ring_bytes,
                             kControlBytes + i / 2 * std::size_t{ring_bytes},
                             static_cast<int>(i / 2) == side);
  }
  if (!placed) return fail_errno("mapping shared memory");
  // A child must not keep the memory of a link that its parent has closed.
  ::madvise(base, mapping->size, MADV_DONTFORK);
  return mapping;
}

ShmLink::ShmLink(os::Fd file, std::shared_ptr<Mapping> mapping, int side,
                 std::uint64_t message_bytes_max)
    : file_(std::move(file)),
      mapping_(std::move(mapping)),
      side_(side),
      ring_bytes_(mapping_->ring_bytes),
      message_bytes_max_(message_bytes_max) {}

ShmLink::~ShmLink() = default;

Result<std::unique_ptr<ShmLink>> ShmLink::create(std::uint32_t ring_bytes,
                                                 std::uint64_t message_bytes_max) {
  DLRUN_ASSERT(is_ring_size(ring_bytes));
  DLRUN_ASSIGN(os::Fd file, sealed_file("dlrun-ring", kControlBytes + 2 * std::size_t{ring_bytes}));
  DLRUN_ASSIGN(auto mapping, map(file.get(), ring_bytes, 0));
  return std::unique_ptr<ShmLink>(
      new ShmLink(std::move(file), std::move(mapping), 0, message_bytes_max));
}

Result<std::unique_ptr<ShmLink>> ShmLink::attach(os::Fd file, std::uint32_t ring_bytes,
                                                 std::uint64_t message_bytes_max) {
  if (!is_ring_size(ring_bytes) ||
      !is_sealed_file(file.get(), kControlBytes + 2 * std::uint64_t{ring_bytes}))
    return fail(Errc::kCorrupt, "the peer's memory file is not a ring's");
  DLRUN_ASSIGN(auto mapping, map(file.get(), ring_bytes, 1));
  return std::unique_ptr<ShmLink>(new ShmLink({}, std::move(mapping), 1, message_bytes_max));
}

// ---- writing

std::uint64_t ShmLink::total_of(const RecordHead& head) noexcept {
  std::uint64_t total = kHeadBytes;
  for (std::uint32_t i = 0; i < head.frames; ++i) total += up_to_unit(head.sizes[i]);
  return total;
}

void ShmLink::copy_frames(std::byte* to, const RecordHead& head, const Message& message) {
  std::memcpy(to, &head, sizeof head);
  std::byte* at = to + kHeadBytes;
  for (const Frame& frame : message) {
    if (frame.size > 0) std::memcpy(at, frame.data, frame.size);
    at += up_to_unit(frame.size);
  }
}

Status ShmLink::check_sizes(const Message& message, RecordHead& head) const {
  if (message.size() > kFramesMax)
    return fail(Errc::kInvalidArgument,
                "a message of more than " + std::to_string(kFramesMax) + " frames");
  head.frames = static_cast<std::uint32_t>(message.size());
  for (std::uint32_t i = 0; i < head.frames; ++i) {
    if (message[i].size > message_bytes_max_ || message[i].size >= 1ull << 32)
      return fail(Errc::kInvalidArgument, "a frame of " + std::to_string(message[i].size) +
                                              " bytes is more than may be sent");
    head.sizes[i] = static_cast<std::uint32_t>(message[i].size);
  }
  head.total = total_of(head);
  return {};
}

/// Free bytes: exact when they are fewer than `needed`.
Result<std::uint64_t> ShmLink::room(std::uint64_t needed) {
  if (ring_bytes_ - (written_ - tail_seen_) < needed) {
    const std::uint64_t tail =
        mapping_->control().rings[side_].tail.load(std::memory_order_acquire);
    if (written_ - tail > ring_bytes_) return broken();
    tail_seen_ = tail;
  }
  return ring_bytes_ - (written_ - tail_seen_);
}

Status ShmLink::put(const Message& message, const HandOver& hand_over) {
  RecordHead head{.kind = kInRing};
  DLRUN_TRY(check_sizes(message, head));
  if (head.total > ring_bytes_ / 2) return put_file(message, head, hand_over);
  DLRUN_ASSIGN(const std::uint64_t free, room(head.total));
  if (free < head.total) return fail(Errc::kOverloaded, "the ring is full");
  copy_frames(mapping_->ring(side_) + written_ % ring_bytes_, head, message);
  publish(head.total);
  return {};
}

std::byte* ShmLink::reserve(const Frame& head_frame, std::size_t bytes) {
  RecordHead head{.kind = kInRing};
  if (!check_sizes({head_frame, Frame{nullptr, nullptr, bytes}}, head)) return nullptr;
  if (head.total > ring_bytes_ / 2) return nullptr;
  const auto free = room(head.total);
  if (!free || *free < head.total) return nullptr;
  std::byte* record = mapping_->ring(side_) + written_ % ring_bytes_;
  std::memcpy(record, &head, sizeof head);
  std::memcpy(record + kHeadBytes, head_frame.data, head_frame.size);
  reserved_ = head.total;
  return record + kHeadBytes + up_to_unit(head_frame.size);
}

void ShmLink::commit() noexcept { publish(std::exchange(reserved_, 0)); }

Status ShmLink::put_file(const Message& message, const RecordHead& like,
                         const HandOver& hand_over) {
  RecordHead head = like;
  head.kind = kInFile;
  DLRUN_ASSIGN(const std::uint64_t free, room(ring_bytes_));  // looks at the tail
  while (!files_under_way_.empty() && files_under_way_.front() <= tail_seen_)
    files_under_way_.pop_front();
  if (free < kHeadBytes || files_under_way_.size() >= kBigMax)
    return fail(Errc::kOverloaded, "large messages are under way");
  DLRUN_ASSIGN(const os::Fd file, sealed_file("dlrun-message", head.total));
  void* at =
      ::mmap(nullptr, head.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (at == MAP_FAILED) return fail_errno("mapping a large message");
  copy_frames(static_cast<std::byte*>(at), head, message);
  ::munmap(at, head.total);
  DLRUN_TRY(hand_over(file.get()));
  std::memcpy(mapping_->ring(side_) + written_ % ring_bytes_, &head, sizeof head);
  publish(kHeadBytes);
  files_under_way_.push_back(written_);
  return {};
}

// Sequentially consistent, as is arm(): either the consumer sees the new head before it sleeps, or
// bell_wanted() sees that it sleeps.
void ShmLink::publish(std::uint64_t bytes) noexcept {
  written_ += bytes;
  mapping_->control().rings[side_].head.store(written_, std::memory_order_seq_cst);
}

bool ShmLink::bell_wanted() noexcept {
  std::atomic<std::uint32_t>& sleeps = mapping_->control().rings[side_].sleeps;
  return sleeps.load(std::memory_order_seq_cst) != 0 &&
         sleeps.exchange(0, std::memory_order_seq_cst) != 0;
}

// ---- reading

Message ShmLink::frames_of(const RecordHead& head, const std::byte* record,
                           const std::shared_ptr<const void>& owner) {
  Message message;
  message.reserve(head.frames);
  const std::byte* at = record + kHeadBytes;
  for (std::uint32_t i = 0; i < head.frames; ++i) {
    message.push_back(head.sizes[i] == 0 ? Frame{} : Frame{owner, at, head.sizes[i]});
    at += up_to_unit(head.sizes[i]);
  }
  return message;
}

bool ShmLink::ready() const noexcept {
  return mapping_->control().rings[1 - side_].head.load(std::memory_order_seq_cst) != read_;
}

void ShmLink::pin(std::uint64_t at, std::uint64_t bytes) noexcept {
  mapping_->pin(at).store(static_cast<std::uint32_t>(bytes / kUnit), std::memory_order_relaxed);
}

Result<std::optional<Message>> ShmLink::take(const NextFile& next_file) {
  const std::uint64_t available =
      mapping_->control().rings[1 - side_].head.load(std::memory_order_acquire) - read_;
  if (available == 0) return std::optional<Message>{};
  // Never more than the ring, and nothing over what is still being read.
  if (available > ring_bytes_ - (read_ - told_) || available % kUnit != 0) return broken();
  const std::uint64_t at = read_;
  const std::byte* record = mapping_->ring(1 - side_) + at % ring_bytes_;
  RecordHead head;  // a copy, made once: the peer cannot change what has been checked
  std::memcpy(&head, record, sizeof head);
  asm volatile("" : "+m"(head));
  if (head.frames > kFramesMax || head.total != total_of(head)) return broken();
  if (head.kind == kInFile) return take_file(head, next_file);
  if (head.kind != kInRing || head.total > available) return broken();
  pin(at, head.total);
  read_ += head.total;
  reap(ring_bytes_ / 8);
  return frames_of(head, record,
                   std::shared_ptr<const void>(record, Pin{mapping_.get(), at},
                                               RecyclingAllocator<char, Mapping>(mapping_)));
}

Result<std::optional<Message>> ShmLink::take_file(const RecordHead& head,
                                                  const NextFile& next_file) {
  for (std::uint32_t i = 0; i < head.frames; ++i) {
    if (head.sizes[i] > message_bytes_max_) return broken();
  }
  const os::Fd file = next_file();
  if (!file || !is_sealed_file(file.get(), head.total)) return broken();
  void* at = ::mmap(nullptr, head.total, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return fail_errno("mapping a large message");
  struct Unmap {
    std::shared_ptr<Mapping> mapping;
    Pin pin;
    std::size_t size;
    void operator()(void* p) const noexcept {
      ::munmap(p, size);
      pin(p);
    }
  };
  pin(read_, kHeadBytes);
  const std::shared_ptr<void> owner(at, Unmap{mapping_, Pin{mapping_.get(), read_}, head.total});
  read_ += kHeadBytes;
  return frames_of(head, static_cast<const std::byte*>(at), owner);
}

void ShmLink::reap(std::uint64_t at_least) noexcept {
  while (freed_ != read_) {
    std::atomic<std::uint32_t>& pin = mapping_->pin(freed_);
    const std::uint32_t state = pin.load(std::memory_order_acquire);
    if ((state & Mapping::kDropped) == 0) break;
    pin.store(0, std::memory_order_relaxed);
    freed_ += std::uint64_t{state & ~Mapping::kDropped} * kUnit;
  }
  if (freed_ - told_ < at_least || freed_ == told_) return;
  told_ = freed_;
  mapping_->control().rings[1 - side_].tail.store(told_, std::memory_order_release);
}

void ShmLink::reap() noexcept { reap(0); }

bool ShmLink::arm() noexcept {
  reap();
  mapping_->control().rings[1 - side_].sleeps.store(1, std::memory_order_seq_cst);
  if (!ready()) return true;
  disarm();
  return false;
}

void ShmLink::disarm() noexcept {
  mapping_->control().rings[1 - side_].sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace dlrun::transport
