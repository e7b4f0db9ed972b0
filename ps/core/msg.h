#pragma once
/// ps/core/msg.h: tables, requests and the slot map as values.
/// Shapes: keys [n]; values [n, dim] f32 row-major. Units: clock = worker iterations; times ns; sizes bytes.

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/rng.h"
#include "runtime/base/time.h"

namespace dlrun::ps {

inline constexpr std::uint32_t kSlots = 4096;
/// Which virtual slot a key lives in. All 2^64 keys are valid. The table takes part, so that key 0 of ten tables spreads.
constexpr std::uint32_t slot_of(std::uint32_t table, std::uint64_t key) noexcept {
  return static_cast<std::uint32_t>(mix64(key + 0x9e3779b97f4a7c15ULL * (table + 1)) >> 52);
}

enum class KeyKind : std::uint8_t { kDense = 0, kSparse = 1 };
enum class Optimizer : std::uint8_t { kSgd = 0, kAdagrad = 1, kFtrl = 2, kAssign = 3 };  ///< kAssign: a push sets the row
enum class Initializer : std::uint8_t { kZero = 0, kConstant = 1, kUniform = 2, kNormal = 3 };
enum class Consistency : std::uint8_t { kBsp = 0, kSsp = 1, kAsp = 2 };

/// A dense table of `rows` rows is keys 0..rows-1; a sparse one grows with the keys it is shown.
struct TableSchema {
  std::uint32_t id = 0;  ///< index in the job, given at creation
  std::string name;
  KeyKind kind = KeyKind::kSparse;
  std::uint64_t rows = 0;  ///< dense only
  std::uint32_t dim = 1;
  Optimizer optimizer = Optimizer::kSgd;
  float learning_rate = 0.1f;  ///< SGD and Adagrad eta; FTRL alpha
  float beta = 1.0f;           ///< FTRL
  float l1 = 0.0f;             ///< FTRL
  float l2 = 0.0f;             ///< SGD, Adagrad: weight decay; FTRL
  float epsilon = 1e-10f;      ///< Adagrad
  float accumulator = 0.0f;    ///< Adagrad: initial value
  Initializer initializer = Initializer::kZero;
  float init_a = 0.0f;  ///< constant: value; uniform: low; normal: mean
  float init_b = 0.0f;  ///< uniform: high; normal: standard deviation
  std::uint64_t seed = 1;
  Consistency consistency = Consistency::kBsp;
  std::uint32_t staleness = 0;  ///< SSP: how many clocks the fastest worker may be ahead of the slowest
  friend bool operator==(const TableSchema&, const TableSchema&) = default;
};

/// Slot -> shard, one per job generation; a later epoch replaces it.
struct SlotMap {
  Epoch epoch;
  std::vector<ShardId> owner;  ///< kSlots entries
  static SlotMap even(std::uint32_t shards, Epoch epoch);  ///< slot s -> shard s * shards / kSlots
};

/// Where a shard listens.
struct ShardEndpoint {
  ShardId shard;
  std::string tcp;  ///< tcp://address:port
  std::string ipc;  ///< path of a Unix socket on the shard's own host; "" = none
  NodeId node;
  friend bool operator==(const ShardEndpoint&, const ShardEndpoint&) = default;
};

/// All that a client needs to reach the parameters of its job.
struct PsView {
  SlotMap map;
  std::vector<ShardEndpoint> shards;  ///< by ShardId
  std::array<std::uint8_t, 32> token{};  ///< issued by the job actor; every request carries it
  std::uint32_t workers = 0;             ///< how many clocks BSP and SSP wait for at the start of the generation
};

}  // namespace dlrun::ps
