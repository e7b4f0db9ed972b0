#include "io/pipe/reader.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "io/pipe/protocol.h"
#include "io/pipe/segment.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dlrun::io {

using namespace pipe;

namespace {
constexpr int kSpins = 200;
constexpr std::uint64_t kNotHeld = ~std::uint64_t{0};

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

Error from_feeder(std::int32_t code, std::string text) {
  const bool known = code >= static_cast<std::int32_t>(Errc::kInvalidArgument) &&
                     code <= static_cast<std::int32_t>(Errc::kInternal);
  return {known ? static_cast<Errc>(code) : Errc::kCorrupt, std::move(text)};
}
}  // namespace

struct PipeReader::Impl {
  Impl() = default;
  // Closing alone would not do: a forked child has a copy of the socket. Its own end ends nothing.
  ~Impl() {
    if (socket && ::getpid() == owner) ::shutdown(socket.get(), SHUT_RDWR);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const pid_t owner = ::getpid();
  Fd socket;
  Fd consumer_event;
  Fd producer_event;
  Mapping data;
  Mapping control;
  std::uint32_t slots = 0;
  std::uint32_t entries = 0;
  std::uint64_t slot_bytes = 0;

  std::uint64_t taken = 0;
  std::optional<Error> over;  ///< sticky

  std::mutex mutex;  ///< what release() shares with next()
  std::uint64_t returned = 0;
  std::uint32_t held = 0;
  std::vector<std::uint64_t> held_sequence;  ///< per slot

  ControlHeader& header() { return *reinterpret_cast<ControlHeader*>(control.data()); }
  const Descriptor* descriptors() const {
    return reinterpret_cast<const Descriptor*>(control.data() + ControlLayout::descriptors());
  }
  std::atomic<std::uint32_t>& return_entry(std::uint64_t i) {
    auto* returns = reinterpret_cast<std::atomic<std::uint32_t>*>(control.data() +
                                                                  ControlLayout::returns(entries));
    return returns[i & (entries - 1)];
  }
  tl::unexpected<Error> finish(Error error) {
    over = std::move(error);
    return tl::unexpected(*over);
  }
  tl::unexpected<Error> corrupt(const std::string& what) {
    return finish({Errc::kCorrupt, "the feeder wrote nonsense into the input pipe: " + what});
  }
  /// How many entries wait; nothing when the count cannot be.
  std::optional<std::uint64_t> waiting(std::memory_order order) {
    const std::uint64_t n = header().published.load(order) - taken;
    if (n > entries) return std::nullopt;
    return n;
  }
  Result<BatchView> take();
};

Result<BatchView> PipeReader::Impl::take() {
  Descriptor entry;
  std::memcpy(&entry, &descriptors()[taken & (entries - 1)], sizeof entry);
  ++taken;
  header().taken.store(taken, std::memory_order_seq_cst);
  if (header().producer_wait.load(std::memory_order_seq_cst) == kForEntry)
    ring_eventfd(producer_event.get());

  BatchView mark;
  mark.pass = entry.pass;
  mark.pass_ended = true;
  switch (entry.kind) {
    case EntryKind::kPassEnd:
      return mark;
    case EntryKind::kNoRows:
      mark.pass_ended = false;
      mark.no_rows = true;
      mark.lane = LanePosition{kNoLane, entry.pass, entry.sequence, 0, 0};
      return mark;
    case EntryKind::kEndOfData:
      return finish({Errc::kEndOfData, "the input has ended"});
    case EntryKind::kBatch:
    case EntryKind::kError:
      break;
    default:
      return corrupt("kind of an entry");
  }
  if (entry.slot >= slots || entry.bytes > slot_bytes) return corrupt("bounds of an entry");
  const std::span<const std::byte> slot{data.data() + entry.slot * slot_bytes,
                                        static_cast<std::size_t>(entry.bytes)};
  if (entry.kind == EntryKind::kError) {
    const std::size_t length = std::min(slot.size(), kErrorTextMax);
    return finish(
        from_feeder(entry.error, std::string(reinterpret_cast<const char*>(slot.data()), length)));
  }
  auto view = open_batch(slot);
  if (!view) return finish(view.error());
  view->slot = entry.slot;
  view->sequence = entry.sequence;
  view->pass = entry.pass;
  const std::lock_guard lock(mutex);
  if (held_sequence[entry.slot] != kNotHeld || entry.sequence == kNotHeld)
    return corrupt("a slot that the caller holds");
  held_sequence[entry.slot] = entry.sequence;
  ++held;
  return *view;
}

PipeReader::PipeReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PipeReader::~PipeReader() = default;

Result<std::unique_ptr<PipeReader>> PipeReader::attach(const std::string& feeder_socket,
                                                       const cluster::Token& token,
                                                       Duration timeout,
                                                       const std::vector<SplitProgress>& progress,
                                                       const std::vector<LanePosition>& lanes) {
  const TimePoint deadline = now() + timeout;
  auto impl = std::make_unique<Impl>();
  DLRUN_ASSIGN(impl->socket, connect_unix(feeder_socket));
  if (progress.size() > kProgressMax)
    return fail(Errc::kInvalidArgument,
                "progress of more than " + std::to_string(kProgressMax) + " splits");
  if (lanes.size() > pipe::kLanesMax + 1)
    return fail(Errc::kInvalidArgument,
                "progress of more than " + std::to_string(pipe::kLanesMax) + " lanes");
  Hello hello;
  hello.token = token;
  hello.progress = static_cast<std::uint32_t>(progress.size());
  const std::size_t splits_bytes = progress.size() * sizeof(SplitProgress);
  std::vector<std::byte> message(sizeof hello + splits_bytes + lanes.size() * sizeof(LanePosition));
  std::memcpy(message.data(), &hello, sizeof hello);
  if (!progress.empty()) std::memcpy(message.data() + sizeof hello, progress.data(), splits_bytes);
  if (!lanes.empty())
    std::memcpy(message.data() + sizeof hello + splits_bytes, lanes.data(),
                lanes.size() * sizeof(LanePosition));
  DLRUN_TRY(send_message(impl->socket.get(), message, {}));
  Answer answer;
  DLRUN_ASSIGN(Received received,
               receive_message(impl->socket.get(), std::as_writable_bytes(std::span(&answer, 1)),
                               kDescriptorsSent, deadline));
  if (received.bytes == 0)
    return fail(Errc::kUnavailable, "the feeder at " + feeder_socket + " closed the connection");
  if (received.bytes != sizeof answer || answer.magic != kHelloMagic)
    return fail(Errc::kCorrupt, "not a feeder at " + feeder_socket);
  if (answer.version != kVersion)
    return fail(Errc::kUnsupported, "the feeder speaks version " + std::to_string(answer.version) +
                                        " of the input pipe, this program " +
                                        std::to_string(kVersion));
  answer.text[kTextBytes - 1] = 0;
  if (answer.error != 0) return tl::unexpected(from_feeder(answer.error, answer.text));
  if (received.fds.size() != kDescriptorsSent || answer.slots == 0 || answer.slots > kSlotsMax ||
      answer.slot_bytes == 0 || answer.slot_bytes > kSlotBytesMax ||
      answer.slot_bytes % 4096 != 0 || !std::has_single_bit(answer.entries) ||
      answer.entries < answer.slots || answer.entries > 4 * kSlotsMax)
    return fail(Errc::kCorrupt, "the feeder at " + feeder_socket + " describes no valid ring");

  impl->slots = answer.slots;
  impl->entries = answer.entries;
  impl->slot_bytes = answer.slot_bytes;
  DLRUN_ASSIGN(impl->data,
               map_received(received.fds[0].get(), "data",
                            static_cast<std::size_t>(answer.slots * answer.slot_bytes), true));
  DLRUN_ASSIGN(impl->control, map_received(received.fds[1].get(), "control",
                                           ControlLayout::bytes(answer.entries), false));
  impl->consumer_event = std::move(received.fds[2]);
  impl->producer_event = std::move(received.fds[3]);
  impl->held_sequence.assign(answer.slots, kNotHeld);
  return std::unique_ptr<PipeReader>(new PipeReader(std::move(impl)));
}

Result<BatchView> PipeReader::next(Duration timeout) {
  Impl& m = *impl_;
  if (m.over) return tl::unexpected(*m.over);
  const auto ready = [&m](std::memory_order order) -> Result<bool> {
    const auto waiting = m.waiting(order);
    if (!waiting) return m.corrupt("entries published");
    return *waiting > 0;
  };
  for (int i = 0; i < kSpins; ++i) {
    DLRUN_ASSIGN(const bool some, ready(std::memory_order_acquire));
    if (some) return m.take();
    relax();
  }
  const TimePoint deadline = now() + timeout;
  for (bool closed = false;;) {
    m.header().consumer_wait.store(1, std::memory_order_seq_cst);
    const auto some = ready(std::memory_order_seq_cst);
    if (!some || *some || closed) m.header().consumer_wait.store(0, std::memory_order_relaxed);
    if (!some) return tl::unexpected(some.error());
    if (*some) return m.take();
    if (closed) return m.finish({Errc::kUnavailable, "the feeder of this input is gone"});
    {
      const std::lock_guard lock(m.mutex);
      if (m.held == m.slots && timeout == Duration{0}) {
        m.header().consumer_wait.store(0, std::memory_order_relaxed);
        return fail(Errc::kOverloaded, "all " + std::to_string(m.slots) +
                                           " slots are held by the caller: release a batch");
      }
    }
    PollItem items[2] = {{m.consumer_event.get()}, {m.socket.get()}};
    const auto woken = poll_until(items, deadline);
    m.header().consumer_wait.store(0, std::memory_order_relaxed);
    if (!woken) return tl::unexpected(woken.error());
    if (items[0].ready) drain_eventfd(m.consumer_event.get());
    closed = items[1].ready;
    if (!*woken) {
      const std::lock_guard lock(m.mutex);
      if (m.held == m.slots)
        return fail(Errc::kOverloaded, "all " + std::to_string(m.slots) +
                                           " slots are held by the caller: release a batch");
      return fail(Errc::kDeadlineExceeded, "no batch within the time given");
    }
  }
}

void PipeReader::release(BatchView view) {
  Impl& m = *impl_;
  if (view.pass_ended || view.rows == 0) return;
  const std::lock_guard lock(m.mutex);
  if (view.slot >= m.slots || m.held_sequence[view.slot] != view.sequence) return;
  m.held_sequence[view.slot] = kNotHeld;
  --m.held;
  m.return_entry(m.returned).store(view.slot, std::memory_order_relaxed);
  ++m.returned;
  m.header().returned.store(m.returned, std::memory_order_seq_cst);
  if (m.header().producer_wait.load(std::memory_order_seq_cst) != kAwake)
    ring_eventfd(m.producer_event.get());
}

std::uint32_t PipeReader::slots() const { return impl_->slots; }
std::uint64_t PipeReader::slot_bytes() const { return impl_->slot_bytes; }

}  // namespace dlrun::io
