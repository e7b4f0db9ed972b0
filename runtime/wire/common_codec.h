#pragma once
/// runtime/wire/common_codec.h: shared structures <-> common.capnp. For codecs only (it includes
/// capnp). `put` fills a builder; `get` checks and returns kCorrupt for an enum out of range, a
/// token that is not 32 bytes, a slot map that does not cover all slots. kj's exceptions may leave
/// these functions: call them inside wire::from_bytes().

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "io/core/msg.h"
#include "ps/core/msg.h"
#include "runtime/base/ids.h"
#include "runtime/base/result.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/common.capnp.h"

namespace dlrun::wire {

using Token = std::array<std::uint8_t, 32>;
using EnvList = std::vector<std::pair<std::string, std::string>>;

void put(schema::TaskId::Builder to, const TaskId& from);
void put(schema::Epoch::Builder to, Epoch from);
void put(schema::FileEntry::Builder to, const io::FileEntry& from);
void put(schema::Split::Builder to, const io::Split& from);
void put(capnp::List<schema::SplitKey>::Builder to, const std::vector<io::SplitKey>& from);
void put(capnp::List<schema::SplitProgress>::Builder to,
         const std::vector<io::SplitProgress>& from);
void put(capnp::List<schema::LanePosition>::Builder to, const std::vector<io::LanePosition>& from);
void put(capnp::List<schema::InputCursor>::Builder to, const std::vector<io::InputCursor>& from);
void put(capnp::List<schema::StepReport>::Builder to, const std::vector<io::StepReport>& from);
void put(schema::LeaseAnswer::Builder to, const io::LeaseAnswer& from);
void put(schema::InputSpec::Builder to, const io::InputSpec& from);
void put(schema::SlotMap::Builder to, const ps::SlotMap& from);
void put(schema::ShardEndpoint::Builder to, const ps::ShardEndpoint& from);
void put(schema::PsView::Builder to, const ps::PsView& from);
/// For lists: put(to.initEnv(env.size()), env).
void put(capnp::List<schema::EnvPair>::Builder to, const EnvList& from);
void put(capnp::List<capnp::Data>::Builder to, const std::vector<std::string>& from);
void put(capnp::List<schema::InputSpec>::Builder to, const std::vector<io::InputSpec>& from);
void put(capnp::List<schema::FileEntry>::Builder to, const std::vector<io::FileEntry>& from);

Result<TaskId> get(schema::TaskId::Reader from);
Epoch get(schema::Epoch::Reader from);
io::FileEntry get(schema::FileEntry::Reader from);
io::Split get(schema::Split::Reader from);
std::vector<io::SplitKey> get(capnp::List<schema::SplitKey>::Reader from);
std::vector<io::SplitProgress> get(capnp::List<schema::SplitProgress>::Reader from);
std::vector<io::LanePosition> get(capnp::List<schema::LanePosition>::Reader from);
std::vector<io::InputCursor> get(capnp::List<schema::InputCursor>::Reader from);
std::vector<io::StepReport> get(capnp::List<schema::StepReport>::Reader from);
Result<io::LeaseAnswer> get(schema::LeaseAnswer::Reader from);
Result<io::InputSpec> get(schema::InputSpec::Reader from);
Result<ps::SlotMap> get(schema::SlotMap::Reader from);
ps::ShardEndpoint get(schema::ShardEndpoint::Reader from);
Result<ps::PsView> get(schema::PsView::Reader from);
EnvList get(capnp::List<schema::EnvPair>::Reader from);
std::vector<std::string> get(capnp::List<capnp::Data>::Reader from);
Result<std::vector<io::InputSpec>> get(capnp::List<schema::InputSpec>::Reader from);
std::vector<io::FileEntry> get(capnp::List<schema::FileEntry>::Reader from);

inline capnp::Data::Reader token_data(const Token& token) {
  return capnp::Data::Reader(token.data(), token.size());
}
/// Empty = all zero (not given); any other length than 32 is kCorrupt.
Result<Token> get_token(capnp::Data::Reader from);

/// `value` as enum E when it is at most `last`; kCorrupt names `what`.
template <class E>
Result<E> get_enum(std::uint64_t value, E last, const char* what) {
  if (value > static_cast<std::uint64_t>(last)) {
    return fail(Errc::kCorrupt, std::string(what) + ": unknown value " + std::to_string(value));
  }
  return static_cast<E>(value);
}

}  // namespace dlrun::wire
