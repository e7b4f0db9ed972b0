#pragma once
/// runtime/wire/event_codec.h: events and job views <-> the bytes that the EventLog keeps
/// (event.capnp, job.capnp).
/// Errors of decode: kCorrupt; kUnsupported for an event that a newer build wrote. Never throws,
/// whatever the bytes.

#include <string>
#include <string_view>

#include "runtime/cluster/core/event.h"

namespace dlrun::wire {

std::string encode(const cluster::Event& event);
Result<cluster::Event> decode_event(std::string_view bytes);
/// The key, job and fingerprint of a JobSubmitted without the rest of it; an empty key for any
/// other event.
Result<cluster::SeenKey> decode_submit_key(std::string_view bytes);
std::string encode(const cluster::JobView& view);
Result<cluster::JobView> decode_job_view(std::string_view bytes);

}  // namespace dlrun::wire
