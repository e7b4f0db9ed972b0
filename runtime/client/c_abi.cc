/// runtime/client/c_abi.cc: dlrun/dlrun.h over Session and Input (c_abi_table.cc: over Table). The
/// only composition root of libdlrun: the environment is read here. No exception leaves: what the
/// standard library may throw (memory) becomes a code.

#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/client/c_abi.h"
#include "runtime/client/input.h"
#include "runtime/client/session.h"

namespace client = dlrun::client;
using dlrun::Errc;
using dlrun::Result;
using dlrun::Status;
using namespace dlrun::client::abi;  // NOLINT(google-build-using-namespace)

struct dlrun_input {
  std::unique_ptr<client::Input> input;
};

namespace {
thread_local std::string last_error;
}  // namespace

int dlrun::client::abi::set_error(Errc code, const std::string& text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return static_cast<int>(code);
}

namespace {

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

constexpr std::size_t kSessionInfoV1 = offsetof(dlrun_session_info, inputs) + sizeof(std::uint32_t);
constexpr std::size_t kInputInfoV1 = offsetof(dlrun_input_info, batch_rows) + sizeof(std::uint32_t);
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
    DLRUN_ASSIGN(auto session, client::Session::open(std::move(agent), given.helper != 0));
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
