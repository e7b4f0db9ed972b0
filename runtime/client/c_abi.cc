/// runtime/client/c_abi.cc: dlrun/dlrun.h over Session, Table and Input. The only composition root
/// of libdlrun: the environment is read here. No exception leaves: what the standard library may
/// throw (memory) becomes a code.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "dlrun/dlrun.h"
#include "runtime/client/input.h"
#include "runtime/client/session.h"
#include "runtime/client/table.h"

namespace client = dlrun::client;
using dlrun::Errc;
using dlrun::Error;
using dlrun::Result;
using dlrun::Status;

struct dlrun_session {
  std::shared_ptr<client::Session> session;
};
struct dlrun_table {
  std::unique_ptr<client::Table> table;
};
struct dlrun_input {
  std::unique_ptr<client::Input> input;
};

namespace {

thread_local std::string last_error;

int set_error(Errc code, const std::string& text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return static_cast<int>(code);
}

/// Runs `body` (returning Status) and turns its outcome into a code.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    const Status status = body();
    return status ? DLRUN_OK : set_error(status.error().code, status.error().context);
  } catch (const std::bad_alloc&) {
    return set_error(Errc::kResourceExhausted, "no memory");
  } catch (const std::exception& error) {
    return set_error(Errc::kInternal, error.what());
  } catch (...) {
    return set_error(Errc::kInternal, "an unknown exception");
  }
}

tl::unexpected<Error> null_argument(const char* what) {
  return dlrun::fail(Errc::kInvalidArgument, std::string(what) + " is NULL");
}

dlrun::Duration wait_of(std::int64_t timeout_ms) {
  constexpr std::int64_t kYearMs = 366ll * 24 * 3600 * 1000;
  return std::chrono::milliseconds(timeout_ms <= 0 ? DLRUN_TIMEOUT_DEFAULT_MS
                                                   : std::min(timeout_ms, kYearMs));
}

/// The caller's struct may be shorter (older program) or longer (newer) than ours: copies what both
/// know.
template <class T>
Status read_struct(const T* from, T& into, std::size_t required) {
  if (from->struct_size < required) {
    return dlrun::fail(
        Errc::kInvalidArgument,
        "struct_size is " + std::to_string(from->struct_size) + ": set it to sizeof");
  }
  std::memcpy(&into, from, std::min(from->struct_size, sizeof(T)));
  return {};
}

template <class T>
Status write_struct(T value, T* into, std::size_t required) {
  const std::size_t size = into->struct_size;
  if (size < required) {
    return dlrun::fail(Errc::kInvalidArgument,
                       "struct_size is " + std::to_string(size) + ": set it to sizeof");
  }
  value.struct_size = size;
  std::memcpy(into, &value, std::min(size, sizeof(T)));
  return {};
}

// The enumerators of dlrun.h are those of the tables, number by number.
static_assert(DLRUN_DENSE == static_cast<int>(dlrun::ps::KeyKind::kDense) &&
              DLRUN_SPARSE == static_cast<int>(dlrun::ps::KeyKind::kSparse));
static_assert(DLRUN_SGD == static_cast<int>(dlrun::ps::Optimizer::kSgd) &&
              DLRUN_ADAGRAD == static_cast<int>(dlrun::ps::Optimizer::kAdagrad) &&
              DLRUN_FTRL == static_cast<int>(dlrun::ps::Optimizer::kFtrl) &&
              DLRUN_ASSIGN == static_cast<int>(dlrun::ps::Optimizer::kAssign));
static_assert(DLRUN_ZERO == static_cast<int>(dlrun::ps::Initializer::kZero) &&
              DLRUN_CONSTANT == static_cast<int>(dlrun::ps::Initializer::kConstant) &&
              DLRUN_UNIFORM == static_cast<int>(dlrun::ps::Initializer::kUniform) &&
              DLRUN_NORMAL == static_cast<int>(dlrun::ps::Initializer::kNormal));
static_assert(DLRUN_BSP == static_cast<int>(dlrun::ps::Consistency::kBsp) &&
              DLRUN_SSP == static_cast<int>(dlrun::ps::Consistency::kSsp) &&
              DLRUN_ASP == static_cast<int>(dlrun::ps::Consistency::kAsp));

template <class Enum>
Status pick(const char* what, std::int32_t value, std::int32_t last, Enum& into) {
  if (value < 0 || value > last) {
    return dlrun::fail(Errc::kInvalidArgument,
                       std::string(what) + " " + std::to_string(value) + " is not known");
  }
  into = static_cast<Enum>(value);
  return {};
}

Result<dlrun::ps::TableSchema> schema_of(const dlrun_table_options& options) {
  namespace ps = dlrun::ps;
  if (options.name == nullptr) return null_argument("the table's name");
  ps::TableSchema schema;
  schema.name = options.name;
  DLRUN_TRY(pick("kind", options.kind, 1, schema.kind));
  DLRUN_TRY(pick("optimizer", options.optimizer, 3, schema.optimizer));
  DLRUN_TRY(pick("initializer", options.initializer, 3, schema.initializer));
  DLRUN_TRY(pick("consistency", options.consistency, 2, schema.consistency));
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
  return schema;
}

Result<dlrun::task::ClientOptions> agent_of(const dlrun_session_options& options) {
  const char* socket = options.socket != nullptr ? options.socket : std::getenv("DLRUN_SOCKET");
  const char* token = options.token != nullptr ? options.token : std::getenv("DLRUN_TOKEN");
  if (socket == nullptr || token == nullptr) {
    return dlrun::fail(Errc::kFailedPrecondition,
                       std::string("this process is not a dlrun task (") +
                           (socket == nullptr ? "DLRUN_SOCKET" : "DLRUN_TOKEN") +
                           " is not set): start it with `dlrun run`");
  }
  DLRUN_ASSIGN(auto agent,
               dlrun::task::client_options(socket, token, dlrun::task::PeerKind::kUser));
  if (options.timeout_ms > 0) agent.connect_timeout = wait_of(options.timeout_ms);
  return agent;
}

/// elements = rows * dim without overflow; 0 rows are fine.
Result<std::size_t> elements(std::uint64_t rows, std::uint32_t dim) {
  std::size_t count = 0;
  if (__builtin_mul_overflow(rows, dim, &count) || count > (std::size_t{1} << 58)) {
    return dlrun::fail(Errc::kInvalidArgument, std::to_string(rows) + " rows are too many");
  }
  return count;
}

constexpr std::size_t kSessionInfoV1 = offsetof(dlrun_session_info, inputs) + sizeof(std::uint32_t);
constexpr std::size_t kInputInfoV1 = offsetof(dlrun_input_info, batch_rows) + sizeof(std::uint32_t);
constexpr std::size_t kTableOptionsV1 =
    offsetof(dlrun_table_options, staleness) + sizeof(std::uint32_t);
constexpr std::size_t kBatchV1 = offsetof(dlrun_batch, dense) + sizeof(const float*);
constexpr std::size_t kColumnV1 = offsetof(dlrun_column, valid) + sizeof(const uint8_t*);

}  // namespace

extern "C" {

uint32_t dlrun_abi_version(void) { return DLRUN_ABI_VERSION; }
const char* dlrun_version(void) { return DLRUN_VERSION_TEXT; }
const char* dlrun_last_error(void) { return last_error.c_str(); }
const char* dlrun_errc_name(int errc) {
  if (errc == DLRUN_OK) return "kOk";
  if (errc < 0 || errc > DLRUN_INTERNAL) return "kUnknown";
  // names are literals, so they end in NUL
  return dlrun::errc_name(static_cast<Errc>(errc)).data();
}

// ---- session

int dlrun_session_open(const dlrun_session_options* options, dlrun_session** out) {
  return guarded([&]() -> Status {
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    dlrun_session_options given{};
    if (options != nullptr) DLRUN_TRY(read_struct(options, given, sizeof(std::size_t)));
    DLRUN_ASSIGN(auto agent, agent_of(given));
    DLRUN_ASSIGN(auto session, client::Session::open(std::move(agent)));
    *out = new dlrun_session{std::move(session)};
    return {};
  });
}

void dlrun_session_close(dlrun_session* session) {
  if (session == nullptr) return;
  guarded([&]() -> Status {
    const Status left = session->session->leave(std::chrono::seconds(2));
    delete session;
    return left;
  });
}

int dlrun_session_get_info(dlrun_session* session, dlrun_session_info* info) {
  return guarded([&]() -> Status {
    if (session == nullptr || info == nullptr)
      return null_argument(session == nullptr ? "session" : "info");
    const auto& welcome = session->session->welcome();
    dlrun_session_info facts{};
    facts.job = welcome.task.job.value;
    facts.job_name = welcome.job_name.c_str();
    facts.role = welcome.task.role.c_str();
    facts.rank = welcome.task.rank;
    facts.world = welcome.world;
    facts.generation = welcome.task.generation.value;
    facts.shards = static_cast<std::uint32_t>(welcome.ps.shards.size());
    facts.epoch_term = welcome.epoch.term;
    facts.epoch_counter = welcome.epoch.counter;
    facts.inputs = static_cast<std::uint32_t>(welcome.inputs.size());
    facts.commit_number = welcome.commit_number;
    facts.commit_tag = welcome.commit_tag.c_str();
    return write_struct(facts, info, kSessionInfoV1);
  });
}

int dlrun_session_get_input(dlrun_session* session, uint32_t index, dlrun_input_info* info) {
  return guarded([&]() -> Status {
    if (session == nullptr || info == nullptr)
      return null_argument(session == nullptr ? "session" : "info");
    const auto& inputs = session->session->welcome().inputs;
    if (index >= inputs.size()) {
      return dlrun::fail(Errc::kNotFound, "the job has " + std::to_string(inputs.size()) +
                                              " inputs, no input " + std::to_string(index));
    }
    dlrun_input_info facts{};
    facts.name = inputs[index].name.c_str();
    facts.passes = inputs[index].passes;
    facts.batch_rows = inputs[index].batch_rows;
    return write_struct(facts, info, kInputInfoV1);
  });
}

int dlrun_progress(dlrun_session* session, double fraction, const char* text) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return session->session->progress(fraction, text == nullptr ? "" : text);
  });
}

int dlrun_ready(dlrun_session* session) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return session->session->ready();
  });
}

int dlrun_barrier(dlrun_session* session, const char* name, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (session == nullptr || name == nullptr)
      return null_argument(session == nullptr ? "session" : "name");
    return session->session->barrier(name, wait_of(timeout_ms));
  });
}

int dlrun_stop_requested(dlrun_session* session, int* stop) {
  return guarded([&]() -> Status {
    if (session == nullptr || stop == nullptr)
      return null_argument(session == nullptr ? "session" : "stop");
    DLRUN_TRY(session->session->check_process());
    *stop = session->session->agent().stop_requested() ? 1 : 0;
    return {};
  });
}

int dlrun_commit(dlrun_session* session, const char* tag, int64_t timeout_ms, uint64_t* number) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    DLRUN_ASSIGN(const std::uint64_t made,
                 session->session->commit(tag == nullptr ? "" : tag, wait_of(timeout_ms)));
    if (number != nullptr) *number = made;
    return {};
  });
}

int dlrun_leave(dlrun_session* session, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return session->session->leave(wait_of(timeout_ms));
  });
}

// ---- tables

void dlrun_table_options_init(dlrun_table_options* options, size_t struct_size) {
  if (options == nullptr || struct_size < sizeof(std::size_t)) return;
  const dlrun::ps::TableSchema schema;
  dlrun_table_options defaults{};
  defaults.kind = DLRUN_SPARSE;
  defaults.optimizer = DLRUN_SGD;
  defaults.dim = schema.dim;
  defaults.learning_rate = schema.learning_rate;
  defaults.beta = schema.beta;
  defaults.l1 = schema.l1;
  defaults.l2 = schema.l2;
  defaults.epsilon = schema.epsilon;
  defaults.accumulator = schema.accumulator;
  defaults.init_a = schema.init_a;
  defaults.init_b = schema.init_b;
  defaults.seed = schema.seed;
  defaults.consistency = DLRUN_BSP;
  std::memset(options, 0, struct_size);
  defaults.struct_size = struct_size;
  std::memcpy(options, &defaults, std::min(struct_size, sizeof(defaults)));
}

int dlrun_table_open(dlrun_session* session, const dlrun_table_options* options,
                     dlrun_table** out) {
  return guarded([&]() -> Status {
    if (session == nullptr || options == nullptr || out == nullptr) {
      return null_argument(session == nullptr ? "session" : options == nullptr ? "options" : "out");
    }
    *out = nullptr;
    dlrun_table_options given{};
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

// ---- inputs

int dlrun_input_open(dlrun_session* session, const char* name, int64_t timeout_ms,
                     dlrun_input** out) {
  return guarded([&]() -> Status {
    if (session == nullptr || name == nullptr || out == nullptr) {
      return null_argument(session == nullptr ? "session" : name == nullptr ? "name" : "out");
    }
    *out = nullptr;
    DLRUN_ASSIGN(auto input, client::Input::open(session->session, name, wait_of(timeout_ms)));
    *out = new dlrun_input{std::move(input)};
    return {};
  });
}

void dlrun_input_close(dlrun_input* input) {
  guarded([&]() -> Status {
    delete input;
    return {};
  });
}

int dlrun_input_held_max(dlrun_input* input, uint32_t* batches) {
  return guarded([&]() -> Status {
    if (input == nullptr || batches == nullptr)
      return null_argument(input == nullptr ? "input" : "batches");
    *batches = input->input->held_max();
    return {};
  });
}

int dlrun_input_next(dlrun_input* input, dlrun_batch* batch, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (input == nullptr || batch == nullptr)
      return null_argument(input == nullptr ? "input" : "batch");
    if (batch->struct_size < kBatchV1) return write_struct(dlrun_batch{}, batch, kBatchV1);
    DLRUN_ASSIGN(const auto view, input->input->next(wait_of(timeout_ms)));
    dlrun_batch facts{};
    facts.pass = view.pass;
    facts.layout = view.no_rows ? DLRUN_NO_ROWS : DLRUN_PASS_END;
    if (!view.pass_ended && !view.no_rows) {
      const bool matrix = view.kind == dlrun::io::BatchKind::kDense;
      facts.lease = view.sequence + 1;
      facts.rows = view.rows;
      if (view.kind == dlrun::io::BatchKind::kTable) {
        facts.layout = DLRUN_TABLE;
        facts.columns = view.columns.size();
        return write_struct(facts, batch, kBatchV1);
      }
      facts.layout = matrix ? DLRUN_MATRIX : DLRUN_CSR;
      facts.labels = view.labels.data();
      if (matrix) {
        facts.columns = view.cols;
        facts.dense = view.values.data();
      } else {
        facts.nnz = view.ids.size();
        facts.offsets = view.offsets.data();
        facts.ids = view.ids.data();
        facts.values = view.values.data();
        facts.fields = view.fields.empty() ? nullptr : view.fields.data();
      }
    }
    return write_struct(facts, batch, kBatchV1);
  });
}

int dlrun_input_column(dlrun_input* input, uint64_t lease, uint64_t index, dlrun_column* column) {
  return guarded([&]() -> Status {
    if (input == nullptr || column == nullptr)
      return null_argument(input == nullptr ? "input" : "column");
    if (lease == 0) return dlrun::fail(Errc::kInvalidArgument, "a mark has no columns");
    DLRUN_ASSIGN(const auto view, input->input->column(lease - 1, index));
    dlrun_column facts{};
    facts.type = static_cast<int32_t>(view.type);
    facts.name = view.name.data();
    facts.name_bytes = view.name.size();
    facts.width = view.width;
    facts.values = view.values;
    facts.data = view.data.data();
    facts.data_bytes = view.data.size();
    facts.value_offsets = view.value_offsets.empty() ? nullptr : view.value_offsets.data();
    facts.row_offsets = view.row_offsets.empty() ? nullptr : view.row_offsets.data();
    facts.valid = view.valid.empty() ? nullptr : view.valid.data();
    return write_struct(facts, column, kColumnV1);
  });
}

int dlrun_input_release(dlrun_input* input, uint64_t lease) {
  return guarded([&]() -> Status {
    if (input == nullptr) return null_argument("input");
    if (lease == 0)
      return dlrun::fail(Errc::kInvalidArgument, "a mark is not released: lease is 0");
    return input->input->release(lease - 1);
  });
}

}  // extern "C"
