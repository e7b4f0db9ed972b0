#pragma once
/// ps/core/msg.h: tables, requests and the slot map as values.
/// Shapes: keys [n]; values [n, dim] f32 row-major.
/// Units: clock = worker iterations; times ns; sizes bytes.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/rng.h"
#include "runtime/base/time.h"

namespace dlrun::ps {

inline constexpr std::uint32_t kSlots = 4096;
/// The one hash of a key, a bijection for each table. All 2^64 keys are valid. The table takes
/// part, so that key 0 of ten tables spreads. Top 12 bits: the slot; the next 32: the fingerprint
/// by which the slot's index finds the row (ps/core/slot_index.h).
constexpr std::uint64_t key_hash(std::uint32_t table, std::uint64_t key) noexcept {
  return mix64(key + 0x9e3779b97f4a7c15ULL * (table + 1));
}
constexpr std::uint32_t slot_of_hash(std::uint64_t hash) noexcept {
  return static_cast<std::uint32_t>(hash >> 52);
}
constexpr std::uint32_t fingerprint_of_hash(std::uint64_t hash) noexcept {
  return static_cast<std::uint32_t>(hash >> 20);
}
/// Which virtual slot a key lives in.
constexpr std::uint32_t slot_of(std::uint32_t table, std::uint64_t key) noexcept {
  return slot_of_hash(key_hash(table, key));
}

inline constexpr std::uint32_t kDimMax = 4096;
/// keys and values of one request or reply
inline constexpr std::uint32_t kSegmentBytesMax = 8u << 20;

/// Who a clock belongs to: one per worker task of a generation. kNoWorker has no clock: it may use
/// ASP tables, and read what is applied of the others.
using WorkerId = Strong<struct WorkerIdTag, std::uint64_t>;
inline constexpr WorkerId kNoWorker{~0ull};
/// Orders by (hash of the role's name, rank): the order in which BSP adds pushes up.
WorkerId worker_id(std::string_view role, std::uint32_t rank) noexcept;
inline WorkerId worker_id(const TaskId& task) noexcept { return worker_id(task.role, task.rank); }

enum class KeyKind : std::uint8_t { kDense = 0, kSparse = 1 };
enum class Optimizer : std::uint8_t {
  kSgd = 0,
  kAdagrad = 1,
  kFtrl = 2,
  kAssign = 3,  ///< a push sets the row
  kMomentum = 4,
  kNesterov = 5,
  kAdagradRow = 6,
  kRmsProp = 7,
  kAdam = 8,
  kAdamW = 9,
  kAmsGrad = 10,
  kGroupFtrl = 11,
};
inline constexpr Optimizer kOptimizerLast = Optimizer::kGroupFtrl;
enum class Initializer : std::uint8_t {
  kZero = 0,
  kConstant = 1,
  kUniform = 2,
  kNormal = 3,
  kTruncatedNormal = 4,  ///< drawn again beyond two standard deviations
};
inline constexpr Initializer kInitializerLast = Initializer::kTruncatedNormal;
enum class Consistency : std::uint8_t { kBsp = 0, kSsp = 1, kAsp = 2 };
/// How a row keeps its weights; its state and what travels are f32.
enum class Dtype : std::uint8_t { kF32 = 0, kF16 = 1, kBf16 = 2 };
/// Which pushed keys get a row. A gradient of one that does not is dropped.
enum class Admission : std::uint8_t {
  kAlways = 0,
  kSightings = 1,    ///< with the `admission_n`-th push that has it
  kProbability = 2,  ///< each push that has it, with chance `admission_p`
};
/// Which rows go, and when; "use" is a push, never a pull.
enum class Eviction : std::uint8_t {
  kNone = 0,
  kTtl = 1,  ///< not used for more than `ttl_s`
  kLru = 2,  ///< beyond `budget_bytes`: the longest not used; also by ttl_s when that is not 0
  kLfu = 3,  ///< beyond `budget_bytes`: the least often used; also by ttl_s when that is not 0
};
/// What a pull reads where there is no row.
enum class Missing : std::uint8_t { kInitial = 0, kValue = 1 };

/// How values travel (ps/core/value_codec.h).
enum class Codec : std::uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kInt8 = 3,    ///< with a scale for each row
  kOneBit = 4,  ///< pushes only
  kTopK = 5,    ///< pushes only
};
inline constexpr Codec kCodecLast = Codec::kTopK;
struct CodecSpec {
  Codec codec = Codec::kF32;
  std::uint16_t k = 0;  ///< kTopK: how many of a row, 1 to dim
  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

/// Never 0. What a TableSchema with id 0 gets: the same on every client, with nobody to ask.
std::uint32_t table_id(std::string_view name) noexcept;

/// A dense table of `rows` rows is keys 0..rows-1; a sparse one grows with the keys it is shown.
struct TableSchema {
  std::uint32_t id = 0;  ///< 0 = table_id(name), filled in by the client
  std::string name;
  KeyKind kind = KeyKind::kSparse;
  std::uint64_t rows = 0;  ///< dense only
  std::uint32_t dim = 1;
  Optimizer optimizer = Optimizer::kSgd;
  float learning_rate = 0.1f;  ///< at the start (kTune changes it); FTRL alpha, else eta
  float beta = 1.0f;           ///< FTRL, group FTRL
  float l1 = 0.0f;             ///< FTRL, group FTRL
  float l2 = 0.0f;             ///< FTRL: L2; AdamW: decoupled decay; kAssign: none; else decay
  float epsilon = 1e-10f;      ///< Adagrad, RMSProp, Adam and kin
  float accumulator = 0.0f;    ///< Adagrad: initial value
  Initializer initializer = Initializer::kZero;
  float init_a = 0.0f;  ///< constant: value; uniform: low; normal: mean
  float init_b = 0.0f;  ///< uniform: high; normal: standard deviation
  std::uint64_t seed = 1;
  Consistency consistency = Consistency::kBsp;
  /// SSP: how many clocks the fastest worker may be ahead of the slowest
  std::uint32_t staleness = 0;
  Dtype dtype = Dtype::kF32;
  float momentum = 0.9f;    ///< momentum, Nesterov
  float beta1 = 0.9f;       ///< Adam and kin
  float beta2 = 0.999f;     ///< Adam and kin; RMSProp: its decay
  float group_l1 = 0.0f;    ///< group FTRL: lambda 21
  float clip_value = 0.0f;  ///< each element of a gradient to [-x, x]; 0 = not
  float clip_norm = 0.0f;   ///< each row's gradient to this Euclidean norm; 0 = not
  Admission admission = Admission::kAlways;
  std::uint32_t admission_n = 1;
  float admission_p = 1.0f;
  Eviction eviction = Eviction::kNone;
  std::uint32_t ttl_s = 0;
  std::uint64_t budget_bytes = 0;  ///< on each shard, of rows and their index
  Missing missing = Missing::kInitial;
  float missing_value = 0.0f;
  friend bool operator==(const TableSchema&, const TableSchema&) = default;
};

/// kInvalidArgument, with the field's name, when no shard could hold such a table.
Status validate(const TableSchema& schema);

/// Slot -> shard, one per job generation; a later epoch replaces it.
struct SlotMap {
  Epoch epoch;
  std::vector<ShardId> owner;                              ///< kSlots entries
  static SlotMap even(std::uint32_t shards, Epoch epoch);  ///< slot s -> shard s * shards / kSlots
  friend bool operator==(const SlotMap&, const SlotMap&) = default;
};

/// Where a shard listens.
struct ShardEndpoint {
  ShardId shard;
  std::string tcp;  ///< tcp://address:port
  std::string ipc;  ///< Unix socket on the shard's own host, "@name" = an abstract one; "" = none
  NodeId node;
  friend bool operator==(const ShardEndpoint&, const ShardEndpoint&) = default;
};

/// All that a client needs to reach the parameters of its job.
struct PsView {
  SlotMap map;
  std::vector<ShardEndpoint> shards;     ///< by ShardId
  std::array<std::uint8_t, 32> token{};  ///< issued by the job actor; every request carries it
  /// how many clocks BSP and SSP wait for at the start of the generation
  std::uint32_t workers = 0;
  friend bool operator==(const PsView&, const PsView&) = default;
};

// ---- requests: client -> shard (keys [n] and values [n, dim] travel beside them as raw frames)

inline constexpr std::uint16_t kWireVersion = 1;

enum class Kind : std::uint8_t {
  kCreateTable = 1,  ///< schema
  kPull = 2,         ///< keys -> values
  kPush = 3,         ///< keys, values (gradients, or rows for kAssign)
  kClock = 4,        ///< worker has finished every clock below `clock`
  kLeave = 5,        ///< worker (when not kNoWorker) and client are done
  kScan = 6,         ///< cursor -> keys, values, next cursor
  kTune = 7,         ///< learning rate -> `rate`; BSP: from `clock` on
  kMark = 8,         ///< the client's pushes up to `sequence` are in `checkpoint`, no others
};
inline constexpr Kind kKindLast = Kind::kMark;

/// Where a scan goes on: keys >= key of `slot`, then the slots after it. slot == kSlots: the end.
struct ScanCursor {
  std::uint32_t slot = 0;
  std::uint64_t key = 0;
  friend bool operator==(const ScanCursor&, const ScanCursor&) = default;
};

struct RequestHeader {
  std::uint16_t version = kWireVersion;
  Kind kind = Kind::kPull;
  std::uint64_t request = 0;  ///< the client's name of it; the reply and every retry carry the same
  std::array<std::uint8_t, 32> token{};
  Epoch epoch;  ///< of the slot map that placed the keys
  ClientId client;
  std::uint64_t sequence = 0;  ///< pushes, kTune: 1, 2, ... per client; a retry carries the same
  std::uint32_t table = 0;
  WorkerId worker = kNoWorker;
  std::uint64_t clock = 0;
  Duration budget{0};  ///< what is left until the client's deadline when it sent this
  std::uint32_t n = 0;
  std::uint32_t dim = 0;
  ScanCursor cursor;                  ///< kScan
  std::optional<TableSchema> schema;  ///< kCreateTable
  float rate = 0.0f;                  ///< kTune
  CodecSpec codec;                    ///< kPush: of the values; kPull: wanted of the reply
  std::uint64_t checkpoint = 0;       ///< kMark
  friend bool operator==(const RequestHeader&, const RequestHeader&) = default;
};

struct ReplyHeader {
  std::uint16_t version = kWireVersion;
  Kind kind = Kind::kPull;
  std::uint64_t request = 0;
  std::int32_t error = 0;  ///< 0 or an Errc
  std::string context;
  Epoch epoch;              ///< the shard's: newer than the request's = refetch the map
  std::uint64_t clock = 0;  ///< the lowest clock of the table's workers
  std::uint32_t n = 0;
  std::uint32_t dim = 0;
  ScanCursor cursor;             ///< kScan: where to go on
  CodecSpec codec;               ///< kPull: of the values
  std::uint64_t checkpoint = 0;  ///< one that waits for marks at this shard; 0: none
  std::uint64_t cut_clock = 0;   ///< where it cuts the request's table, when that is BSP or SSP
  friend bool operator==(const ReplyHeader&, const ReplyHeader&) = default;
};

}  // namespace dlrun::ps
