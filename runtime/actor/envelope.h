#pragma once
/// runtime/actor/envelope.h: the one CAF message that travels between machines: opaque bytes of
/// wire/link.capnp. CAF's own serialisation is positional and cannot evolve, so nothing else may
/// ever cross; within a process messages are plain structs, declared with DLRUN_LOCAL_MESSAGE. Also
/// the bridge between our Errc and caf::error.

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/error.hpp>
#include <caf/type_id.hpp>
#include <string>

#include "runtime/base/result.h"

namespace dlrun::actor {

struct Envelope {
  std::string bytes;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Envelope& x) {
  return f(caf::meta::type_name("dlrun::Envelope"), x.bytes);
}

inline constexpr std::size_t kEnvelopeBytesMax = 16u << 20;

}  // namespace dlrun::actor

CAF_BEGIN_TYPE_ID_BLOCK(dlrun_actor, caf::first_custom_type_id + 100)
CAF_ADD_TYPE_ID(dlrun_actor, (dlrun::actor::Envelope))
CAF_END_TYPE_ID_BLOCK(dlrun_actor)

CAF_ERROR_CODE_ENUM(dlrun::Errc, "dlrun")

/// At global scope: `type` may be sent within one process only.
#define DLRUN_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type)
