// What broken packets do to decoders.

#include <span>

#include "runtime/sim/sim_channel.h"
#include "runtime/sim/sim_network.h"
#include "runtime/wire/control_codec.h"
#include "runtime/wire/link_codec.h"
#include "runtime/wire/ps_codec.h"

namespace dlrun::sim {

namespace {

enum class Took : std::uint8_t { kRefused, kDecoded, kWrong };

/// kWrong: it decoded to something that does not encode and decode to itself.
template <class Bytes, class Decode>
Took decode_twice(const Bytes& bytes, Decode decode) {
  const auto value = decode(bytes);
  if (!value) return Took::kRefused;
  const auto once = wire::encode(*value);
  const auto again = decode(once);
  return again && wire::encode(*again) == once ? Took::kDecoded : Took::kWrong;
}

Took look(Bytes kind, std::string_view bytes) {
  if (kind == Bytes::kToAgent || kind == Bytes::kFromAgent) {
    const auto frame = wire::decode_link(bytes);
    if (!frame) return Took::kRefused;
    const auto* payload = std::get_if<wire::LinkPayload>(&*frame);
    if (payload == nullptr) return decode_twice(bytes, wire::decode_link);
    return kind == Bytes::kToAgent ? decode_twice(payload->bytes, wire::decode_to_agent)
                                   : decode_twice(payload->bytes, wire::decode_from_agent);
  }
  const auto message = unpack_frames(bytes);
  if (!message || message->empty()) return Took::kRefused;
  const std::span<const std::byte> header((*message)[0].data, (*message)[0].size);
  return kind == Bytes::kPsRequest ? decode_twice(header, wire::decode_ps_request)
                                   : decode_twice(header, wire::decode_ps_reply);
}

}  // namespace

void SimNetwork::damage(Bytes kind, std::string bytes) {
  ++counts_.damaged;
  if (bytes.empty()) return;
  const bool cut = loop_.chance(0.3);
  if (cut) {
    bytes.resize(loop_.rng().below(bytes.size()) / 8 * 8);  // whole words: not refused by size
  } else {
    for (std::uint64_t flips = 1 + loop_.rng().below(8); flips > 0; --flips)
      bytes[loop_.rng().below(bytes.size())] ^= static_cast<char>(1u << loop_.rng().below(8));
  }
  const Took took = look(kind, bytes);
  if (took == Took::kRefused) ++counts_.refused;
  if (took == Took::kWrong)
    violated_("a damaged packet decoded to a message that does not encode to itself");
  if (took == Took::kDecoded && cut) violated_("a packet cut short was decoded");
}

}  // namespace dlrun::sim
