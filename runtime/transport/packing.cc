#include "runtime/transport/packing.h"

#include <cstdint>
#include <cstring>

namespace dlrun::transport {
namespace {

// The first four bytes of a header frame are zero: it has one segment.
constexpr std::uint64_t kMagic = 0x316b6361706c7264;  // "drlpack1"
static_assert(sizeof kMagic == kPackHeadBytes);
constexpr std::size_t kUnit = 8;
constexpr std::size_t kFramesMax = 8;

std::size_t up_to_unit(std::size_t n) noexcept { return (n + kUnit - 1) / kUnit * kUnit; }
std::size_t head_bytes(std::size_t frames) noexcept { return up_to_unit(4 * (1 + frames)); }

}  // namespace

bool fits_in_pack(const Message& message) noexcept {
  std::size_t bytes = 0;
  for (const Frame& frame : message) {
    if (frame.size > kPackedMessageBytesMax) return false;
    bytes += frame.size;
  }
  return message.size() <= kFramesMax && bytes <= kPackedMessageBytesMax;
}

std::size_t packed_bytes(const Message& message) noexcept {
  std::size_t bytes = head_bytes(message.size());
  for (const Frame& frame : message) bytes += up_to_unit(frame.size);
  return bytes;
}

std::byte* write_pack_head(std::byte* to) noexcept {
  std::memcpy(to, &kMagic, sizeof kMagic);
  return to + kPackHeadBytes;
}

std::byte* write_packed(const Message& message, std::byte* to) noexcept {
  std::uint32_t head[2 + kFramesMax] = {static_cast<std::uint32_t>(message.size())};
  for (std::size_t i = 0; i < message.size(); ++i)
    head[1 + i] = static_cast<std::uint32_t>(message[i].size);
  std::memcpy(to, head, head_bytes(message.size()));
  to += head_bytes(message.size());
  for (const Frame& frame : message) {
    const std::size_t room = up_to_unit(frame.size);
    if (room > 0) std::memset(to + room - kUnit, 0, kUnit);
    if (frame.size > 0) std::memcpy(to, frame.data, frame.size);
    to += room;
  }
  return to;
}

bool is_pack(const Frame& frame) noexcept {
  return frame.size >= sizeof kMagic && std::memcmp(frame.data, &kMagic, sizeof kMagic) == 0;
}

bool unpack(const Frame& pack, std::size_t frames_max, std::vector<Message>& messages) {
  if (!is_pack(pack)) return false;
  std::size_t at = sizeof kMagic;
  while (at < pack.size) {
    std::uint32_t frames = 0;
    if (pack.size - at < kUnit) return false;
    std::memcpy(&frames, pack.data + at, sizeof frames);
    if (frames > frames_max || messages.size() >= kPackMessagesMax ||
        head_bytes(frames) > pack.size - at)
      return false;
    const std::byte* sizes = pack.data + at + sizeof frames;
    at += head_bytes(frames);
    Message message;
    for (std::uint32_t i = 0; i < frames; ++i) {
      std::uint32_t size = 0;
      std::memcpy(&size, sizes + 4 * i, sizeof size);
      if (up_to_unit(size) > pack.size - at) return false;
      message.push_back(size == 0 ? Frame{} : Frame{pack.owner, pack.data + at, size});
      at += up_to_unit(size);
    }
    messages.push_back(std::move(message));
  }
  return true;
}

}  // namespace dlrun::transport
