#include "runtime/transport/transport.h"

#include <cstring>

namespace dlrun::transport {

Frame Frame::copy(const void* data, std::size_t size) {
  if (size == 0) return {};
  auto held = std::make_shared_for_overwrite<std::byte[]>(size);
  std::memcpy(held.get(), data, size);
  const std::byte* bytes = held.get();
  return Frame{std::move(held), bytes, size};
}

Message owned(Message message) {
  for (Frame& frame : message) {
    if (frame.owner == nullptr && frame.size > 0) frame = Frame::copy(frame.data, frame.size);
  }
  return message;
}

}  // namespace dlrun::transport
