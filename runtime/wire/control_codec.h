#pragma once
/// runtime/wire/control_codec.h: what coordinator and agents say <-> the bytes of an Envelope
/// (control.capnp).
/// Errors of decode: kCorrupt (not a message, an enum out of range), kUnsupported (a kind of
/// message that this build does not know: sent by a newer peer; ignore it). Never throws, whatever
/// the bytes.

#include <string>
#include <string_view>

#include "runtime/cluster/core/msg.h"

namespace dlrun::wire {

std::string encode(const cluster::ToAgent& message);
std::string encode(const cluster::FromAgent& message);
Result<cluster::ToAgent> decode_to_agent(std::string_view bytes);
Result<cluster::FromAgent> decode_from_agent(std::string_view bytes);

}  // namespace dlrun::wire
