#pragma once
/// runtime/wire/ps_table_codec.h: ps::TableSchema <-> its struct in ps.capnp, for codecs only (it
/// includes capnp).
/// Errors: kUnsupported for a choice that this version does not know; kCorrupt for a name too long.

#include <cstdint>

#include "ps/core/msg.h"
#include "runtime/base/result.h"
#include "runtime/wire/ps.capnp.h"

namespace dlrun::wire {

Result<ps::TableSchema> table_schema_of(ps_schema::TableSchema::Reader reader);
void put_table_schema(const ps::TableSchema& schema, ps_schema::TableSchema::Builder builder);

template <class E>
bool to_enum(std::uint8_t value, E first, E last, E& out) {
  if (value < static_cast<std::uint8_t>(first) || value > static_cast<std::uint8_t>(last))
    return false;
  out = static_cast<E>(value);
  return true;
}

}  // namespace dlrun::wire
