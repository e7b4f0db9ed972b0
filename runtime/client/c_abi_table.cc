/// runtime/client/c_abi_table.cc: the tables of dlrun/dlrun.h over Table.

#include "runtime/client/c_abi.h"
#include "runtime/client/session.h"
#include "runtime/client/table.h"

namespace client = dlrun::client;
namespace ps = dlrun::ps;
using dlrun::Errc;
using dlrun::Result;
using dlrun::Status;
using namespace dlrun::client::abi;  // NOLINT(google-build-using-namespace)

struct dlrun_table {
  std::unique_ptr<client::Table> table;
};
struct dlrun_pending {
  std::unique_ptr<client::Pending> pending;
};

namespace {

// The enumerators of dlrun.h are those of the tables, number by number.
template <class Enum>
constexpr bool same(int number, Enum value) {
  return number == static_cast<int>(value);
}
static_assert(same(DLRUN_DENSE, ps::KeyKind::kDense) && same(DLRUN_SPARSE, ps::KeyKind::kSparse));
static_assert(same(DLRUN_SGD, ps::Optimizer::kSgd) &&
              same(DLRUN_ADAGRAD, ps::Optimizer::kAdagrad) &&
              same(DLRUN_FTRL, ps::Optimizer::kFtrl) &&
              same(DLRUN_ASSIGN, ps::Optimizer::kAssign) &&
              same(DLRUN_MOMENTUM, ps::Optimizer::kMomentum) &&
              same(DLRUN_NESTEROV, ps::Optimizer::kNesterov) &&
              same(DLRUN_ADAGRAD_ROW, ps::Optimizer::kAdagradRow) &&
              same(DLRUN_RMSPROP, ps::Optimizer::kRmsProp) &&
              same(DLRUN_ADAM, ps::Optimizer::kAdam) && same(DLRUN_ADAMW, ps::Optimizer::kAdamW) &&
              same(DLRUN_AMSGRAD, ps::Optimizer::kAmsGrad) &&
              same(DLRUN_GROUP_FTRL, ps::Optimizer::kGroupFtrl) &&
              same(DLRUN_GROUP_FTRL, ps::kOptimizerLast));
static_assert(same(DLRUN_ZERO, ps::Initializer::kZero) &&
              same(DLRUN_CONSTANT, ps::Initializer::kConstant) &&
              same(DLRUN_UNIFORM, ps::Initializer::kUniform) &&
              same(DLRUN_NORMAL, ps::Initializer::kNormal) &&
              same(DLRUN_TRUNCATED_NORMAL, ps::Initializer::kTruncatedNormal) &&
              same(DLRUN_TRUNCATED_NORMAL, ps::kInitializerLast));
static_assert(same(DLRUN_BSP, ps::Consistency::kBsp) && same(DLRUN_SSP, ps::Consistency::kSsp) &&
              same(DLRUN_ASP, ps::Consistency::kAsp));
static_assert(same(DLRUN_STORE_F32, ps::Dtype::kF32) && same(DLRUN_STORE_F16, ps::Dtype::kF16) &&
              same(DLRUN_STORE_BF16, ps::Dtype::kBf16));
static_assert(same(DLRUN_ADMIT_ALWAYS, ps::Admission::kAlways) &&
              same(DLRUN_ADMIT_SIGHTINGS, ps::Admission::kSightings) &&
              same(DLRUN_ADMIT_PROBABILITY, ps::Admission::kProbability));
static_assert(same(DLRUN_EVICT_NONE, ps::Eviction::kNone) &&
              same(DLRUN_EVICT_TTL, ps::Eviction::kTtl) &&
              same(DLRUN_EVICT_LRU, ps::Eviction::kLru) &&
              same(DLRUN_EVICT_LFU, ps::Eviction::kLfu));
static_assert(same(DLRUN_MISSING_INITIAL, ps::Missing::kInitial) &&
              same(DLRUN_MISSING_VALUE, ps::Missing::kValue));
static_assert(same(DLRUN_CODEC_F32, ps::Codec::kF32) && same(DLRUN_CODEC_F16, ps::Codec::kF16) &&
              same(DLRUN_CODEC_BF16, ps::Codec::kBf16) &&
              same(DLRUN_CODEC_INT8, ps::Codec::kInt8) &&
              same(DLRUN_CODEC_ONE_BIT, ps::Codec::kOneBit) &&
              same(DLRUN_CODEC_TOP_K, ps::Codec::kTopK) && same(DLRUN_CODEC_TOP_K, ps::kCodecLast));

template <class Enum>
Status pick(const char* what, std::int32_t value, Enum last, Enum& into) {
  if (value < 0 || value > static_cast<std::int32_t>(last)) {
    return dlrun::fail(Errc::kInvalidArgument,
                       std::string(what) + " " + std::to_string(value) + " is not known");
  }
  into = static_cast<Enum>(value);
  return {};
}

Result<ps::TableSchema> schema_of(const dlrun_table_options& options) {
  if (options.name == nullptr) return null_argument("the table's name");
  ps::TableSchema schema;
  schema.name = options.name;
  DLRUN_TRY(pick("kind", options.kind, ps::KeyKind::kSparse, schema.kind));
  DLRUN_TRY(pick("optimizer", options.optimizer, ps::kOptimizerLast, schema.optimizer));
  DLRUN_TRY(pick("initializer", options.initializer, ps::kInitializerLast, schema.initializer));
  DLRUN_TRY(pick("consistency", options.consistency, ps::Consistency::kAsp, schema.consistency));
  DLRUN_TRY(pick("dtype", options.dtype, ps::Dtype::kBf16, schema.dtype));
  DLRUN_TRY(pick("admission", options.admission, ps::Admission::kProbability, schema.admission));
  DLRUN_TRY(pick("eviction", options.eviction, ps::Eviction::kLfu, schema.eviction));
  DLRUN_TRY(pick("missing", options.missing, ps::Missing::kValue, schema.missing));
  schema.rows = options.rows;
  schema.dim = options.dim;
  schema.learning_rate = options.learning_rate;
  schema.beta = options.beta;
  schema.l1 = options.l1;
  schema.l2 = options.l2;
  schema.epsilon = options.epsilon;
  schema.accumulator = options.accumulator;
  schema.init_a = options.init_a;
  schema.init_b = options.init_b;
  schema.seed = options.seed;
  schema.staleness = options.staleness;
  schema.momentum = options.momentum;
  schema.beta1 = options.beta1;
  schema.beta2 = options.beta2;
  schema.group_l1 = options.group_l1;
  schema.clip_value = options.clip_value;
  schema.clip_norm = options.clip_norm;
  schema.admission_n = options.admission_n;
  schema.admission_p = options.admission_p;
  schema.ttl_s = options.ttl_s;
  schema.budget_bytes = options.budget_bytes;
  schema.missing_value = options.missing_value;
  return schema;
}

dlrun_table_options default_options() {
  const ps::TableSchema schema;
  dlrun_table_options out{};
  out.struct_size = sizeof out;
  out.kind = DLRUN_SPARSE;
  out.optimizer = DLRUN_SGD;
  out.dim = schema.dim;
  out.learning_rate = schema.learning_rate;
  out.beta = schema.beta;
  out.l1 = schema.l1;
  out.l2 = schema.l2;
  out.epsilon = schema.epsilon;
  out.accumulator = schema.accumulator;
  out.init_a = schema.init_a;
  out.init_b = schema.init_b;
  out.seed = schema.seed;
  out.consistency = DLRUN_BSP;
  out.momentum = schema.momentum;
  out.beta1 = schema.beta1;
  out.beta2 = schema.beta2;
  out.admission_n = schema.admission_n;
  out.admission_p = schema.admission_p;
  return out;
}

/// elements = rows * dim without overflow; 0 rows are fine.
Result<std::size_t> elements(std::uint64_t rows, std::uint32_t dim) {
  std::size_t count = 0;
  if (__builtin_mul_overflow(rows, dim, &count) || count > (std::size_t{1} << 58)) {
    return dlrun::fail(Errc::kInvalidArgument, std::to_string(rows) + " rows are too many");
  }
  return count;
}

struct AsyncCall {
  client::Table::Keys keys;
  std::size_t elements = 0;
};

/// `keys` NULL and n 0: the whole of a dense table.
Result<AsyncCall> async_call(const dlrun_table* table, const std::uint64_t* keys, std::size_t n,
                             const float* values, const char* name) {
  if (table == nullptr) return null_argument("table");
  const ps::TableSchema& schema = table->table->schema();
  const bool all = keys == nullptr && n == 0 && schema.kind == ps::KeyKind::kDense;
  AsyncCall call;
  if (!all) call.keys.emplace(keys, n);
  DLRUN_ASSIGN(call.elements, elements(all ? schema.rows : n, schema.dim));
  if (!all && n > 0 && keys == nullptr) return null_argument("keys");
  if (call.elements > 0 && values == nullptr) return null_argument(name);
  return call;
}

constexpr std::size_t kTableOptionsV1 =
    offsetof(dlrun_table_options, staleness) + sizeof(std::uint32_t);

}  // namespace

extern "C" {

void dlrun_table_options_init(dlrun_table_options* options, size_t struct_size) {
  if (options == nullptr || struct_size < sizeof(std::size_t)) return;
  dlrun_table_options defaults = default_options();
  defaults.struct_size = struct_size;
  std::memset(options, 0, struct_size);
  std::memcpy(options, &defaults, std::min(struct_size, sizeof(defaults)));
}

int dlrun_table_open(dlrun_session* session, const dlrun_table_options* options,
                     dlrun_table** out) {
  return guarded([&]() -> Status {
    if (session == nullptr || options == nullptr || out == nullptr) {
      return null_argument(session == nullptr ? "session" : options == nullptr ? "options" : "out");
    }
    *out = nullptr;
    dlrun_table_options given = default_options();  // of what an older caller does not know
    DLRUN_TRY(read_struct(options, given, kTableOptionsV1));
    DLRUN_ASSIGN(auto schema, schema_of(given));
    DLRUN_ASSIGN(auto table, client::Table::open(session->session, std::move(schema),
                                                 wait_of(given.timeout_ms)));
    *out = new dlrun_table{std::move(table)};
    return {};
  });
}

void dlrun_table_close(dlrun_table* table) {
  guarded([&]() -> Status {
    delete table;
    return {};
  });
}

int dlrun_table_pull(dlrun_table* table, const uint64_t* keys, size_t n, float* values,
                     int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (table == nullptr) return null_argument("table");
    if (n == 0) return {};
    if (keys == nullptr || values == nullptr)
      return null_argument(keys == nullptr ? "keys" : "values");
    DLRUN_ASSIGN(const auto count, elements(n, table->table->schema().dim));
    return table->table->pull({keys, n}, {values, count}, wait_of(timeout_ms));
  });
}

int dlrun_table_push(dlrun_table* table, const uint64_t* keys, size_t n, const float* grads,
                     int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (table == nullptr) return null_argument("table");
    if (n == 0) return {};
    if (keys == nullptr || grads == nullptr)
      return null_argument(keys == nullptr ? "keys" : "grads");
    DLRUN_ASSIGN(const auto count, elements(n, table->table->schema().dim));
    return table->table->push({keys, n}, {grads, count}, wait_of(timeout_ms));
  });
}

int dlrun_table_pull_dense(dlrun_table* table, float* values, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (table == nullptr || values == nullptr)
      return null_argument(table == nullptr ? "table" : "values");
    DLRUN_ASSIGN(const auto count,
                 elements(table->table->schema().rows, table->table->schema().dim));
    return table->table->pull_dense({values, count}, wait_of(timeout_ms));
  });
}

int dlrun_table_push_dense(dlrun_table* table, const float* grads, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (table == nullptr || grads == nullptr)
      return null_argument(table == nullptr ? "table" : "grads");
    DLRUN_ASSIGN(const auto count,
                 elements(table->table->schema().rows, table->table->schema().dim));
    return table->table->push_dense({grads, count}, wait_of(timeout_ms));
  });
}

int dlrun_table_pull_async(dlrun_table* table, const uint64_t* keys, size_t n, float* values,
                           int64_t timeout_ms, dlrun_pending** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    DLRUN_ASSIGN(const auto call, async_call(table, keys, n, values, "values"));
    DLRUN_ASSIGN(auto pending,
                 table->table->pull_async(call.keys, {values, call.elements}, wait_of(timeout_ms)));
    *out = new dlrun_pending{std::move(pending)};
    return {};
  });
}

int dlrun_table_push_async(dlrun_table* table, const uint64_t* keys, size_t n, const float* grads,
                           int64_t timeout_ms, dlrun_pending** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    DLRUN_ASSIGN(const auto call, async_call(table, keys, n, grads, "grads"));
    DLRUN_ASSIGN(auto pending,
                 table->table->push_async(call.keys, {grads, call.elements}, wait_of(timeout_ms)));
    *out = new dlrun_pending{std::move(pending)};
    return {};
  });
}

int dlrun_pending_wait(dlrun_pending* pending, int64_t timeout_ms, int* done) {
  return guarded([&]() -> Status {
    if (pending == nullptr || done == nullptr)
      return null_argument(pending == nullptr ? "pending" : "done");
    *done = 1;  // an error ends it too
    const dlrun::Duration wait = timeout_ms == 0 ? dlrun::Duration::zero() : wait_of(timeout_ms);
    DLRUN_ASSIGN(const bool ended, pending->pending->wait_for(wait));
    *done = ended ? 1 : 0;
    return {};
  });
}

void dlrun_pending_close(dlrun_pending* pending) {
  guarded([&]() -> Status {
    delete pending;
    return {};
  });
}

int dlrun_table_set_learning_rate(dlrun_table* table, float rate, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (table == nullptr) return null_argument("table");
    return table->table->set_learning_rate(rate, wait_of(timeout_ms));
  });
}

int dlrun_table_set_codecs(dlrun_table* table, int32_t push, uint32_t push_k, int32_t pull) {
  return guarded([&]() -> Status {
    if (table == nullptr) return null_argument("table");
    ps::CodecSpec to, from;
    DLRUN_TRY(pick("codec", push, ps::kCodecLast, to.codec));
    DLRUN_TRY(pick("codec", pull, ps::kCodecLast, from.codec));
    // above every dim: refused with the others
    to.k = static_cast<std::uint16_t>(std::min<std::uint32_t>(push_k, 0xffff));
    return table->table->set_codecs(to, from);
  });
}

int dlrun_table_clock(dlrun_table* table, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (table == nullptr) return null_argument("table");
    return table->table->clock(wait_of(timeout_ms));
  });
}

int dlrun_table_export(dlrun_table* table, const char* path, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (table == nullptr || path == nullptr)
      return null_argument(table == nullptr ? "table" : "path");
    return table->table->export_npy(path, wait_of(timeout_ms));
  });
}

}  // extern "C"
