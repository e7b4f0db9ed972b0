#pragma once
/// dlrun/dlrun.hpp: the C ABI (dlrun.h) as C++17 values with owners. Standard library only.
///
///   dlrun::api::Session task;                     // from the environment of a dlrun task
///   auto w = task.table({.name = "w", .dim = 1});  // C++20 for the designators
///   auto train = task.input("train");
///   while (auto batch = train.next()) {
///     auto rows = w.pull(keys);
///     w.push(keys, grads);
///     w.clock();
///   }
///
/// Errors: dlrun::api::Failure, with the code of dlrun_errc; destructors swallow.
/// Moves leave an empty object whose calls throw. Times: std::chrono, 0 = the library's default.
/// Threads: as dlrun.h says.

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dlrun/dlrun.h"

namespace dlrun::api {

using Timeout = std::chrono::milliseconds;

class Failure : public std::runtime_error {
 public:
  Failure(int code, const std::string& text)
      : std::runtime_error(std::string(dlrun_errc_name(code)) + ": " + text),
        code_(static_cast<dlrun_errc>(code)) {}
  dlrun_errc code() const noexcept { return code_; }

 private:
  dlrun_errc code_;
};

inline void check(int code) {
  if (code != DLRUN_OK) throw Failure(code, dlrun_last_error());
}

/// Owns a handle of the C ABI.
template <class T, void (*Close)(T*)>
class Handle {
 public:
  explicit Handle(T* raw = nullptr) noexcept : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() { Close(raw_); }
  T* get() const noexcept { return raw_; }

 private:
  T* raw_;
};

enum class Optimizer : std::int32_t {
  kSgd = DLRUN_SGD,
  kAdagrad = DLRUN_ADAGRAD,
  kFtrl = DLRUN_FTRL,
  kAssign = DLRUN_ASSIGN,  ///< a push sets the row
  kMomentum = DLRUN_MOMENTUM,
  kNesterov = DLRUN_NESTEROV,
  kAdagradRow = DLRUN_ADAGRAD_ROW,
  kRmsProp = DLRUN_RMSPROP,
  kAdam = DLRUN_ADAM,
  kAdamW = DLRUN_ADAMW,
  kAmsGrad = DLRUN_AMSGRAD,
  kGroupFtrl = DLRUN_GROUP_FTRL,
};
enum class Initializer : std::int32_t {
  kZero = DLRUN_ZERO,
  kConstant = DLRUN_CONSTANT,
  kUniform = DLRUN_UNIFORM,
  kNormal = DLRUN_NORMAL,
  kTruncatedNormal = DLRUN_TRUNCATED_NORMAL,
};
enum class Consistency : std::int32_t { kBsp = DLRUN_BSP, kSsp = DLRUN_SSP, kAsp = DLRUN_ASP };

/// As dlrun_table_options of dlrun.h says; what is not set is what the loaded library takes for it.
struct TableOptions {
  std::string name;
  std::uint64_t rows = 0;  ///< > 0: dense; 0: sparse
  std::uint32_t dim = defaults().dim;
  Optimizer optimizer = static_cast<Optimizer>(defaults().optimizer);
  float learning_rate = defaults().learning_rate;
  float beta = defaults().beta, l1 = defaults().l1, l2 = defaults().l2;
  float epsilon = defaults().epsilon, accumulator = defaults().accumulator;
  Initializer initializer = static_cast<Initializer>(defaults().initializer);
  float init_a = defaults().init_a, init_b = defaults().init_b;
  std::uint64_t seed = defaults().seed;
  Consistency consistency = static_cast<Consistency>(defaults().consistency);
  std::uint32_t staleness = defaults().staleness;
  Timeout timeout = {};  ///< of opening it
  /// The rest by the names of dlrun.h: `options.more.dtype = DLRUN_STORE_F16`. What has a name
  /// above is taken from there.
  dlrun_table_options more = defaults();

  static dlrun_table_options defaults() {
    dlrun_table_options raw;
    dlrun_table_options_init(&raw, sizeof raw);
    return raw;
  }
};

/// A pull or push under way: given up when it dies before it has ended.
class Pending {
 public:
  /// Of a pull; `begin` is given the arrays, which stay where they are.
  template <class Begin>
  Pending(std::vector<std::uint64_t> keys, std::vector<float> values, Begin begin)
      : keys_(std::move(keys)), values_(std::move(values)) {
    dlrun_pending* raw = nullptr;
    check(begin(keys_, values_, &raw));
    handle_ = Handle<dlrun_pending, dlrun_pending_close>(raw);
  }
  Pending(Pending&&) = default;
  Pending& operator=(Pending&&) = delete;  // it would free arrays that are still written to

  /// Waits for at most this long; throws what went wrong.
  bool wait_for(Timeout timeout) {
    int done = 0;
    check(dlrun_pending_wait(handle_.get(), timeout.count() < 0 ? 0 : timeout.count(), &done));
    return done != 0;
  }
  /// Waits. Of a pull: [keys, dim].
  std::vector<float>& get() {
    while (!wait_for(std::chrono::seconds(1))) {
    }
    return values_;
  }

 private:
  std::vector<std::uint64_t> keys_;
  std::vector<float> values_;
  Handle<dlrun_pending, dlrun_pending_close> handle_;  ///< last: it goes before the arrays
};

class Table {
 public:
  Table(dlrun_session* session, const TableOptions& options)
      : rows_(options.rows), dim_(options.dim) {
    dlrun_table_options raw = options.more;
    raw.name = options.name.c_str();
    raw.kind = options.rows > 0 ? DLRUN_DENSE : DLRUN_SPARSE;
    raw.rows = options.rows;
    raw.dim = options.dim;
    raw.optimizer = static_cast<std::int32_t>(options.optimizer);
    raw.learning_rate = options.learning_rate;
    raw.beta = options.beta;
    raw.l1 = options.l1;
    raw.l2 = options.l2;
    raw.epsilon = options.epsilon;
    raw.accumulator = options.accumulator;
    raw.initializer = static_cast<std::int32_t>(options.initializer);
    raw.init_a = options.init_a;
    raw.init_b = options.init_b;
    raw.seed = options.seed;
    raw.consistency = static_cast<std::int32_t>(options.consistency);
    raw.staleness = options.staleness;
    raw.timeout_ms = options.timeout.count();
    dlrun_table* table = nullptr;
    check(dlrun_table_open(session, &raw, &table));
    handle_ = Handle<dlrun_table, dlrun_table_close>(table);
  }

  std::uint32_t dim() const noexcept { return dim_; }

  /// [keys.size(), dim]
  std::vector<float> pull(const std::vector<std::uint64_t>& keys, Timeout timeout = {}) {
    std::vector<float> values(keys.size() * dim_);
    check(
        dlrun_table_pull(handle_.get(), keys.data(), keys.size(), values.data(), timeout.count()));
    return values;
  }
  void push(const std::vector<std::uint64_t>& keys, const std::vector<float>& grads,
            Timeout timeout = {}) {
    expect(grads.size(), keys.size() * dim_);
    check(dlrun_table_push(handle_.get(), keys.data(), keys.size(), grads.data(), timeout.count()));
  }
  /// They begin and return; what the pull sees is what it sees now, and clock() waits for both. So
  /// the next batch's rows come while this one trains. `timeout`: of the whole call.
  Pending pull_async(std::vector<std::uint64_t> keys, Timeout timeout = {}) {
    const std::size_t count = keys.size() * dim_;
    return {std::move(keys), std::vector<float>(count),
            [&](auto& keys_of, auto& values, dlrun_pending** out) {
              return dlrun_table_pull_async(handle_.get(), at(keys_of), keys_of.size(),
                                            values.data(), timeout.count(), out);
            }};
  }
  Pending push_async(std::vector<std::uint64_t> keys, std::vector<float> grads,
                     Timeout timeout = {}) {
    expect(grads.size(), keys.size() * dim_);
    return {std::move(keys), std::move(grads),
            [&](auto& keys_of, auto& values, dlrun_pending** out) {
              return dlrun_table_push_async(handle_.get(), at(keys_of), keys_of.size(),
                                            values.data(), timeout.count(), out);
            }};
  }
  /// [rows, dim] of a dense table
  std::vector<float> pull(Timeout timeout = {}) {
    std::vector<float> values(rows_ * dim_);
    check(dlrun_table_pull_dense(handle_.get(), values.data(), timeout.count()));
    return values;
  }
  void push(const std::vector<float>& grads, Timeout timeout = {}) {
    expect(grads.size(), rows_ * dim_);
    check(dlrun_table_push_dense(handle_.get(), grads.data(), timeout.count()));
  }
  /// One worker says it, not all.
  void set_learning_rate(float rate, Timeout timeout = {}) {
    check(dlrun_table_set_learning_rate(handle_.get(), rate, timeout.count()));
  }
  void clock(Timeout timeout = {}) { check(dlrun_table_clock(handle_.get(), timeout.count())); }
  void export_npy(const std::string& path, Timeout timeout = {}) {
    check(dlrun_table_export(handle_.get(), path.c_str(), timeout.count()));
  }

 private:
  /// Never NULL: without keys that would be the whole of a dense table.
  static const std::uint64_t* at(const std::vector<std::uint64_t>& keys) {
    static constexpr std::uint64_t kNone = 0;
    return keys.empty() ? &kNone : keys.data();
  }
  static void expect(std::size_t got, std::size_t want) {
    if (got != want) {
      throw Failure(DLRUN_INVALID_ARGUMENT,
                    std::to_string(got) + " gradients instead of " + std::to_string(want));
    }
  }

  std::uint64_t rows_;
  std::uint32_t dim_;
  Handle<dlrun_table, dlrun_table_close> handle_;
};

/// A batch in the ring: gives its slot back when it dies. Must not outlive its Input.
class Batch {
 public:
  Batch(dlrun_input* input, const dlrun_batch& raw) noexcept : input_(input), raw_(raw) {}
  Batch(Batch&& other) noexcept : input_(std::exchange(other.input_, nullptr)), raw_(other.raw_) {}
  Batch& operator=(Batch&& other) noexcept {
    std::swap(input_, other.input_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Batch() {
    if (input_ != nullptr && raw_.lease != 0) dlrun_input_release(input_, raw_.lease);
  }
  const dlrun_batch* operator->() const noexcept { return &raw_; }
  const dlrun_batch& operator*() const noexcept { return raw_; }
  /// Of a table: 0 <= index < columns.
  dlrun_column column(std::uint64_t index) const {
    dlrun_column out{};
    out.struct_size = sizeof out;
    check(dlrun_input_column(input_, raw_.lease, index, &out));
    return out;
  }

 private:
  dlrun_input* input_;
  dlrun_batch raw_;
};

class Input {
 public:
  Input(dlrun_session* session, const std::string& name, Timeout timeout) {
    dlrun_input* input = nullptr;
    check(dlrun_input_open(session, name.c_str(), timeout.count(), &input));
    handle_ = Handle<dlrun_input, dlrun_input_close>(input);
  }
  /// The next batch; nullopt at the end of the last pass. Marks between passes are passed over.
  std::optional<Batch> next(Timeout timeout = {}) {
    dlrun_batch raw{};
    do {
      raw.struct_size = sizeof raw;
      const int code = dlrun_input_next(handle_.get(), &raw, timeout.count());
      if (code == DLRUN_END_OF_DATA) return std::nullopt;
      check(code);
    } while (raw.layout == DLRUN_PASS_END);
    return Batch(handle_.get(), raw);
  }

 private:
  Handle<dlrun_input, dlrun_input_close> handle_;
};

class Session {
 public:
  explicit Session(Timeout timeout = {}) {
    dlrun_session_options options{};
    options.struct_size = sizeof options;
    options.timeout_ms = timeout.count();
    dlrun_session* session = nullptr;
    check(dlrun_session_open(&options, &session));
    handle_ = Handle<dlrun_session, dlrun_session_close>(session);
    info_.struct_size = sizeof info_;
    check(dlrun_session_get_info(handle_.get(), &info_));
  }
  const dlrun_session_info& info() const noexcept { return info_; }
  std::uint32_t rank() const noexcept { return info_.rank; }
  std::uint32_t world() const noexcept { return info_.world; }

  /// Every rank with the same tag; the number of the commit. dlrun_commit has the outcomes.
  std::uint64_t commit(const std::string& tag = {}, Timeout timeout = {}) {
    std::uint64_t number = 0;
    check(dlrun_commit(handle_.get(), tag.c_str(), timeout.count(), &number));
    return number;
  }
  /// The tag of the commit that this generation begins from.
  std::optional<std::string> committed() const {
    if (info_.commit_number == 0) return std::nullopt;
    return std::string(info_.commit_tag);
  }

  Table table(const TableOptions& options) { return Table(handle_.get(), options); }
  Input input(const std::string& name, Timeout timeout = {}) {
    return Input(handle_.get(), name, timeout);
  }
  void progress(double fraction, const std::string& text = {}) {
    check(dlrun_progress(handle_.get(), fraction, text.c_str()));
  }
  void ready() { check(dlrun_ready(handle_.get())); }
  void barrier(const std::string& name, Timeout timeout = {}) {
    check(dlrun_barrier(handle_.get(), name.c_str(), timeout.count()));
  }
  void leave(Timeout timeout = {}) { check(dlrun_leave(handle_.get(), timeout.count())); }
  bool stop_requested() const {
    int stop = 0;
    check(dlrun_stop_requested(handle_.get(), &stop));
    return stop != 0;
  }

 private:
  Handle<dlrun_session, dlrun_session_close> handle_;
  dlrun_session_info info_{};
};

}  // namespace dlrun::api
