// Fuzz entry of the task socket: a stream of bytes as a user's process can send them to its agent
// -> frames -> messages of either direction. What decodes encodes and decodes to itself; a frame is
// never longer than what is there.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/wire/task_codec.h"

namespace {

template <class Decode>
void round_trip(std::string_view bytes, Decode decode) {
  const auto value = decode(bytes);
  if (!value) return;
  const auto once = dlrun::wire::encode(*value);
  const auto again = decode(once);
  if (!again || dlrun::wire::encode(*again) != once) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::wire;
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) != 0) {  // one message, whole
    round_trip(rest, [](std::string_view b) { return decode_to_server(b); });
    round_trip(rest, [](std::string_view b) { return decode_to_client(b); });
    return 0;
  }
  while (!rest.empty()) {
    std::size_t consumed = 0;
    std::string_view message;
    const auto whole = unframe(rest, consumed, message);
    if (!whole || !*whole) return 0;
    if (consumed == 0 || consumed > rest.size() || message.size() > consumed) std::abort();
    round_trip(message, [](std::string_view b) { return decode_to_server(b); });
    round_trip(message, [](std::string_view b) { return decode_to_client(b); });
    rest.remove_prefix(consumed);
  }
  return 0;
}
