// Fuzz entry of the wire: the first byte picks the decoder. What decodes can be encoded, and
// decodes again to the same bytes.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "ps/core/checkpoint_block.h"
#include "runtime/wire/control_codec.h"
#include "runtime/wire/event_codec.h"
#include "runtime/wire/link_codec.h"
#include "runtime/wire/ps_checkpoint_codec.h"
#include "runtime/wire/ps_codec.h"
#include "runtime/wire/pslite_codec.h"

namespace {

template <class Bytes, class Decode>
void round_trip(const Bytes& bytes, Decode decode) {
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
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto span = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] == 253 ? 9 : data[0] < 254 ? data[0] % 7 : data[0] - 254 + 7) {
    case 0:
      round_trip(text, [](std::string_view b) { return decode_to_agent(b); });
      break;
    case 1:
      round_trip(text, [](std::string_view b) { return decode_from_agent(b); });
      break;
    case 2:
      round_trip(text, [](std::string_view b) { return decode_event(b); });
      break;
    case 3:
      round_trip(text, [](std::string_view b) { return decode_job_view(b); });
      break;
    case 4:
      round_trip(text, [](std::string_view b) { return decode_link(b); });
      break;
    case 5:
      round_trip(span, [](std::span<const std::byte> b) { return decode_ps_request(b); });
      break;
    case 6:
      round_trip(span, [](std::span<const std::byte> b) { return decode_ps_reply(b); });
      break;
    case 7:
      round_trip(text, [](std::string_view b) { return decode_part_info(b); });
      break;
    case 9:
      if (const auto packet = decode_pslite(span)) {
        const auto once = encode_pslite(*packet);
        const auto again = decode_pslite(once);
        if (!again || !(*again == *packet)) std::abort();
      }
      break;
    default:
      if (const auto header = dlrun::ps::decode_block_header(text)) {
        std::string again;
        dlrun::ps::encode(*header, again);
        if (again != text) std::abort();
      }
      break;
  }
  return 0;
}
