#include "ps/core/msg.h"

#include <cmath>

namespace dlrun::ps {
namespace {

constexpr std::uint64_t kRowsMax = 1ull << 32;
constexpr std::size_t kNameBytesMax = 128;

std::uint64_t hash_text(std::string_view text) noexcept {  // FNV-1a, then a bijection to spread it
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix64(h);
}

}  // namespace

WorkerId worker_id(std::string_view role, std::uint32_t rank) noexcept {
  // 31 bits of the role, so that no worker is ever kNoWorker.
  return WorkerId{(hash_text(role) >> 33) << 32 | rank};
}

std::uint32_t table_id(std::string_view name) noexcept {
  const auto id = static_cast<std::uint32_t>(hash_text(name) >> 32);
  return id == 0 ? 1 : id;
}

Status validate(const TableSchema& s) {
  const auto bad = [&](std::string what) {
    return fail(Errc::kInvalidArgument, "table '" + s.name + "': " + std::move(what));
  };
  if (s.name.empty() || s.name.size() > kNameBytesMax) {
    return bad("name must have 1 to " + std::to_string(kNameBytesMax) + " bytes");
  }
  if (s.id == 0) return bad("id must not be 0");
  if (s.kind > KeyKind::kSparse) return bad("unknown key kind");
  if (s.dim < 1 || s.dim > kDimMax) return bad("dim must be 1 to " + std::to_string(kDimMax));
  if (s.kind == KeyKind::kDense && (s.rows < 1 || s.rows > kRowsMax))
    return bad("rows must be 1 to 2^32");
  if (s.optimizer > Optimizer::kAssign) return bad("unknown optimizer");
  if (s.initializer > Initializer::kNormal) return bad("unknown initializer");
  if (s.consistency > Consistency::kAsp) return bad("unknown consistency");
  for (const float x :
       {s.learning_rate, s.beta, s.l1, s.l2, s.epsilon, s.accumulator, s.init_a, s.init_b}) {
    if (!std::isfinite(x)) return bad("a parameter is not a finite number");
  }
  if (s.l1 < 0 || s.l2 < 0) return bad("l1 and l2 must not be negative");
  if (s.optimizer == Optimizer::kFtrl && s.learning_rate <= 0)
    return bad("FTRL needs learning_rate > 0");
  if (s.optimizer == Optimizer::kFtrl && s.beta <= 0) return bad("FTRL needs beta > 0");
  if (s.optimizer == Optimizer::kAdagrad && s.epsilon <= 0) return bad("Adagrad needs epsilon > 0");
  if (s.accumulator < 0) return bad("accumulator must not be negative");
  if (s.initializer == Initializer::kUniform && s.init_b < s.init_a)
    return bad("uniform needs init_a <= init_b");
  if (s.initializer == Initializer::kNormal && s.init_b < 0) return bad("normal needs init_b >= 0");
  return {};
}

SlotMap SlotMap::even(std::uint32_t shards, Epoch epoch) {
  SlotMap map{epoch, std::vector<ShardId>(kSlots)};
  for (std::uint32_t s = 0; s < kSlots; ++s) {
    map.owner[s] = ShardId{static_cast<std::uint32_t>(std::uint64_t{s} * shards / kSlots)};
  }
  return map;
}

}  // namespace dlrun::ps
