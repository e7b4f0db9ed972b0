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

bool divides_by_epsilon(Optimizer optimizer) noexcept {
  switch (optimizer) {
    case Optimizer::kAdagrad:
    case Optimizer::kAdagradRow:
    case Optimizer::kRmsProp:
    case Optimizer::kAdam:
    case Optimizer::kAdamW:
    case Optimizer::kAmsGrad:
      return true;
    default:
      return false;
  }
}

/// dtype, admission, eviction, missing.
template <class Bad>
Status validate_policies(const TableSchema& s, const Bad& bad) {
  if (s.dtype > Dtype::kBf16) return bad("unknown dtype");
  if (s.admission > Admission::kProbability) return bad("unknown admission");
  if (s.eviction > Eviction::kLfu) return bad("unknown eviction");
  if (s.missing > Missing::kValue) return bad("unknown choice for missing keys");
  const bool budget = s.eviction == Eviction::kLru || s.eviction == Eviction::kLfu;
  if (s.kind == KeyKind::kDense &&
      (s.admission != Admission::kAlways || s.eviction != Eviction::kNone)) {
    return bad("admission and eviction are for sparse tables");
  }
  if (s.admission == Admission::kSightings && s.admission_n < 1)
    return bad("admission_n must be at least 1");
  if (s.admission == Admission::kProbability && (s.admission_p < 0 || s.admission_p > 1))
    return bad("admission_p must be in [0, 1]");
  if (s.eviction == Eviction::kTtl && s.ttl_s == 0) return bad("eviction by ttl needs ttl_s > 0");
  if (budget && s.budget_bytes == 0) return bad("eviction by budget needs budget_bytes > 0");
  return {};
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
  if (s.optimizer > kOptimizerLast) return bad("unknown optimizer");
  if (s.initializer > kInitializerLast) return bad("unknown initializer");
  if (s.consistency > Consistency::kAsp) return bad("unknown consistency");
  for (const float x : {s.learning_rate, s.beta, s.l1, s.l2, s.epsilon, s.accumulator, s.init_a,
                        s.init_b, s.momentum, s.beta1, s.beta2, s.group_l1, s.clip_value,
                        s.clip_norm, s.admission_p, s.missing_value}) {
    if (!std::isfinite(x)) return bad("a parameter is not a finite number");
  }
  if (s.l1 < 0 || s.l2 < 0 || s.group_l1 < 0)
    return bad("l1, l2 and group_l1 must not be negative");
  const bool ftrl = s.optimizer == Optimizer::kFtrl || s.optimizer == Optimizer::kGroupFtrl;
  if (ftrl && s.learning_rate <= 0) return bad("FTRL needs learning_rate > 0");
  if (ftrl && s.beta <= 0) return bad("FTRL needs beta > 0");
  if (divides_by_epsilon(s.optimizer) && s.epsilon <= 0) return bad("epsilon must be > 0");
  if (s.accumulator < 0) return bad("accumulator must not be negative");
  for (const float x : {s.momentum, s.beta1, s.beta2}) {
    if (x < 0 || x >= 1) return bad("momentum, beta1 and beta2 must be in [0, 1)");
  }
  if (s.clip_value < 0 || s.clip_norm < 0) return bad("clip_value and clip_norm must be >= 0");
  const bool normal =
      s.initializer == Initializer::kNormal || s.initializer == Initializer::kTruncatedNormal;
  if (s.initializer == Initializer::kUniform && s.init_b < s.init_a)
    return bad("uniform needs init_a <= init_b");
  if (normal && s.init_b < 0) return bad("normal needs init_b >= 0");
  return validate_policies(s, bad);
}

SlotMap SlotMap::even(std::uint32_t shards, Epoch epoch) {
  SlotMap map{epoch, std::vector<ShardId>(kSlots)};
  for (std::uint32_t s = 0; s < kSlots; ++s) {
    map.owner[s] = ShardId{static_cast<std::uint32_t>(std::uint64_t{s} * shards / kSlots)};
  }
  return map;
}

}  // namespace dlrun::ps
