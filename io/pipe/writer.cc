#include "io/pipe/writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "io/pipe/protocol.h"
#include "runtime/base/assert.h"

namespace dlrun::io {

using namespace pipe;

namespace {
constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};
constexpr std::uint64_t kMarksSpare = 8;

Status send_answer(int socket, const Answer& answer, std::span<const int> fds) {
  return send_message(socket, std::as_bytes(std::span(&answer, 1)), fds);
}
}  // namespace

struct PipeWriter::Impl {
  Fd socket;
  Fd consumer_event;
  Fd producer_event;
  Segment data;
  Segment control;
  std::uint32_t slots = 0;
  std::uint32_t entries = 0;
  std::uint64_t slot_bytes = 0;

  // Private truth; the control segment only mirrors it.
  std::uint64_t published = 0;
  std::uint64_t taken_seen = 0;
  std::uint64_t returned_seen = 0;
  std::uint64_t sequence = 0;
  std::vector<std::uint32_t> free_slots;
  std::vector<std::uint64_t> slot_sequence;  ///< kNoSlot = not with the consumer
  std::uint64_t acquired = kNoSlot;
  std::optional<Error> dead;

  ControlHeader& header() { return *reinterpret_cast<ControlHeader*>(control.mapping.data()); }
  Descriptor* descriptors() {
    return reinterpret_cast<Descriptor*>(control.mapping.data() + ControlLayout::descriptors());
  }
  std::atomic<std::uint32_t>& return_entry(std::uint64_t i) {
    auto* returns = reinterpret_cast<std::atomic<std::uint32_t>*>(control.mapping.data() +
                                                                  ControlLayout::returns(entries));
    return returns[i & (entries - 1)];
  }
  std::span<std::byte> slot(std::uint64_t index) {
    return {data.mapping.data() + index * slot_bytes, static_cast<std::size_t>(slot_bytes)};
  }
  Status corrupt(const std::string& what) {
    dead = Error{Errc::kCorrupt, "the consumer wrote nonsense into the control segment: " + what};
    return tl::unexpected(*dead);
  }
  Status see_taken() {
    const std::uint64_t taken = header().taken.load(std::memory_order_acquire);
    if (taken < taken_seen || taken > published) return corrupt("entries taken");
    taken_seen = taken;
    return {};
  }
  bool entry_free() const { return published - taken_seen < entries; }
  void push(const Descriptor& entry) {
    DLRUN_ASSERT(entry_free());
    std::memcpy(&descriptors()[published & (entries - 1)], &entry, sizeof entry);
    ++published;
    // seq_cst with the load below: either the consumer sees the entry before it sleeps, or we see
    // that it sleeps.
    header().published.store(published, std::memory_order_seq_cst);
    if (header().consumer_wait.load(std::memory_order_seq_cst) != 0)
      ring_eventfd(consumer_event.get());
  }
};

PipeWriter::PipeWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PipeWriter::~PipeWriter() = default;

std::uint64_t PipeWriter::slot_bytes() const { return impl_->slot_bytes; }
bool PipeWriter::entry_free() const { return impl_->entry_free(); }

void PipeWriter::refuse(int socket, const Error& error) {
  Answer answer;
  answer.error = static_cast<std::int32_t>(error.code);
  std::memcpy(answer.text, error.context.data(), std::min(error.context.size(), kTextBytes - 1));
  (void)send_answer(socket, answer, {});  // a consumer that is gone needs no answer
}

Result<std::unique_ptr<PipeWriter>> PipeWriter::create(Fd&& socket, const std::string& name,
                                                       PipeGeometry geometry) {
  DLRUN_ASSERT(geometry.slots > 0 && geometry.slots <= kSlotsMax);
  DLRUN_ASSERT(geometry.slot_bytes > 0 && geometry.slot_bytes % 4096 == 0);
  if (geometry.slot_bytes > kSlotBytesMax)
    return fail(Errc::kResourceExhausted,
                name + ": slots of " + std::to_string(geometry.slot_bytes) + " bytes");
  auto impl = std::make_unique<Impl>();
  impl->slots = geometry.slots;
  impl->slot_bytes = geometry.slot_bytes;
  impl->entries = static_cast<std::uint32_t>(std::bit_ceil(geometry.slots + kMarksSpare));
  DLRUN_ASSIGN(impl->data,
               make_segment("dlrun-data-" + name,
                            static_cast<std::size_t>(geometry.slots * geometry.slot_bytes), true));
  DLRUN_ASSIGN(impl->control,
               make_segment("dlrun-control-" + name, ControlLayout::bytes(impl->entries), false));
  new (impl->control.mapping.data()) ControlHeader{};
  DLRUN_ASSIGN(impl->consumer_event, make_eventfd());
  DLRUN_ASSIGN(impl->producer_event, make_eventfd());
  impl->slot_sequence.assign(impl->slots, kNoSlot);
  for (std::uint32_t i = impl->slots; i > 0; --i) impl->free_slots.push_back(i - 1);

  Answer answer;
  answer.slots = impl->slots;
  answer.entries = impl->entries;
  answer.slot_bytes = impl->slot_bytes;
  const int fds[kDescriptorsSent] = {impl->data.fd.get(), impl->control.fd.get(),
                                     impl->consumer_event.get(), impl->producer_event.get()};
  DLRUN_TRY(send_answer(socket.get(), answer, fds));
  impl->socket = std::move(socket);
  impl->data.fd.reset();  // the mappings live on
  impl->control.fd.reset();
  return std::unique_ptr<PipeWriter>(new PipeWriter(std::move(impl)));
}

Status PipeWriter::collect(std::vector<std::uint64_t>& released) {
  Impl& m = *impl_;
  if (m.dead && m.dead->code == Errc::kCorrupt) return tl::unexpected(*m.dead);
  DLRUN_TRY(m.see_taken());
  const std::uint64_t returned = m.header().returned.load(std::memory_order_acquire);
  if (returned < m.returned_seen || returned - m.returned_seen > m.slots)
    return m.corrupt("slots returned");
  while (m.returned_seen != returned) {
    const std::uint32_t slot = m.return_entry(m.returned_seen).load(std::memory_order_relaxed);
    if (slot >= m.slots || m.slot_sequence[slot] == kNoSlot) return m.corrupt("slot returned");
    released.push_back(m.slot_sequence[slot]);
    m.slot_sequence[slot] = kNoSlot;
    m.free_slots.push_back(slot);
    ++m.returned_seen;
  }
  return {};
}

std::optional<std::span<std::byte>> PipeWriter::acquire() {
  Impl& m = *impl_;
  if (m.acquired != kNoSlot) return m.slot(m.acquired);
  if (m.dead || m.free_slots.empty() || !m.entry_free()) return std::nullopt;
  m.acquired = m.free_slots.back();
  m.free_slots.pop_back();
  return m.slot(m.acquired);
}

std::uint64_t PipeWriter::publish(std::uint64_t bytes, std::uint32_t pass) {
  Impl& m = *impl_;
  DLRUN_ASSERT(m.acquired != kNoSlot && bytes <= m.slot_bytes);
  Descriptor entry;
  entry.kind = EntryKind::kBatch;
  entry.slot = static_cast<std::uint32_t>(m.acquired);
  entry.bytes = bytes;
  entry.sequence = m.sequence++;
  entry.pass = pass;
  m.slot_sequence[m.acquired] = entry.sequence;
  m.acquired = kNoSlot;
  m.push(entry);
  return entry.sequence;
}

bool PipeWriter::publish_pass_end(std::uint32_t pass) {
  if (!impl_->entry_free()) return false;
  Descriptor entry;
  entry.kind = EntryKind::kPassEnd;
  entry.pass = pass;
  impl_->push(entry);
  return true;
}

bool PipeWriter::publish_no_rows(std::uint32_t pass, std::uint64_t step) {
  if (!impl_->entry_free()) return false;
  Descriptor entry;
  entry.kind = EntryKind::kNoRows;
  entry.pass = pass;
  entry.sequence = step;
  impl_->push(entry);
  return true;
}

bool PipeWriter::publish_end_of_data() {
  if (!impl_->entry_free()) return false;
  Descriptor entry;
  entry.kind = EntryKind::kEndOfData;
  impl_->push(entry);
  return true;
}

bool PipeWriter::consumer_asleep() const {
  const ControlHeader& header = impl_->header();
  return header.taken.load(std::memory_order_acquire) == impl_->published &&
         header.consumer_wait.load(std::memory_order_acquire) != 0;
}

void PipeWriter::publish_error(const Error& error) {
  Impl& m = *impl_;
  DLRUN_ASSERT(m.acquired != kNoSlot);
  const std::size_t length =
      std::min({error.context.size(), kErrorTextMax, static_cast<std::size_t>(m.slot_bytes)});
  std::memcpy(m.slot(m.acquired).data(), error.context.data(), length);
  Descriptor entry;
  entry.kind = EntryKind::kError;
  entry.slot = static_cast<std::uint32_t>(m.acquired);
  entry.bytes = length;
  entry.error = static_cast<std::int32_t>(error.code);
  m.acquired = kNoSlot;  // never free again: nothing comes after an error
  m.push(entry);
}

Status PipeWriter::wait(WaitFor what, int extra_fd, TimePoint deadline) {
  Impl& m = *impl_;
  if (m.dead) return tl::unexpected(*m.dead);
  ControlHeader& header = m.header();
  const bool for_entry = what == WaitFor::kEntry || (what == WaitFor::kSlot && !m.entry_free());
  header.producer_wait.store(for_entry ? kForEntry : kForSlot, std::memory_order_seq_cst);
  const bool news = header.returned.load(std::memory_order_seq_cst) != m.returned_seen ||
                    (for_entry && header.taken.load(std::memory_order_seq_cst) != m.taken_seen);
  Status status;
  if (!news) {
    PollItem items[3] = {{m.producer_event.get()}, {m.socket.get()}, {extra_fd}};
    const auto ready = poll_until(std::span(items, extra_fd >= 0 ? 3 : 2), deadline);
    if (!ready) status = tl::unexpected(ready.error());
    if (items[0].ready) drain_eventfd(m.producer_event.get());
    if (items[1].ready) {  // the consumer has nothing to say: it closed, or breaks the protocol
      m.dead = Error{Errc::kUnavailable, "the consumer closed its end of the input pipe"};
      status = tl::unexpected(*m.dead);
    }
  }
  header.producer_wait.store(kAwake, std::memory_order_relaxed);
  return status;
}

}  // namespace dlrun::io
