#include "ps/client/client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>

#include "ps/client/engine.h"
#include "ps/client/export.h"
#include "runtime/transport/zmq_transport.h"

namespace dlrun::ps {
namespace {

constexpr std::size_t kKeysMax = 1u << 31;

std::string name_of(const char* what, const Table& table) {
  return std::string(what) + " of table '" + table.schema.name + "'";
}

std::vector<std::uint64_t> all_rows(const TableSchema& schema) {
  std::vector<std::uint64_t> keys(schema.rows);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  return keys;
}

/// One clock() at a time, each waiting for its turn within its timeout.
class Turn {
 public:
  bool take(Duration timeout) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_for(lock, timeout, [&] { return !taken_; })) return false;
    taken_ = true;
    return true;
  }
  void give_back() {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace

struct Client::Impl {
  Impl(PsView view, ClientOptions options, std::unique_ptr<transport::Channel> channel)
      : engine(std::move(view), std::move(options), std::move(channel)) {}

  Status check_open(const Table& table) const {
    if (left) return fail(Errc::kFailedPrecondition, "this client has left");
    if (table.id == 0) return fail(Errc::kInvalidArgument, "not an open table");
    return {};
  }
  Status check_shape(const Table& table, const char* what, std::size_t keys,
                     std::size_t floats) const {
    DLRUN_TRY(check_open(table));
    if (keys > kKeysMax)
      return fail(Errc::kInvalidArgument, name_of(what, table) + ": more than 2^31 keys");
    if (floats != keys * table.schema.dim) {
      return fail(Errc::kInvalidArgument, name_of(what, table) + ": " + std::to_string(floats) +
                                              " floats for " + std::to_string(keys) +
                                              " keys of dim " + std::to_string(table.schema.dim));
    }
    return {};
  }
  Status check_dense(const Table& table, const char* what) const {
    if (table.schema.kind == KeyKind::kDense) return {};
    return fail(Errc::kInvalidArgument, name_of(what, table) + ": the table is not dense");
  }
  Result<std::shared_ptr<Call>> start_pull(const Table& table, std::span<const std::uint64_t> keys,
                                           std::span<float> out, bool keys_stay, Duration timeout) {
    DLRUN_TRY(check_shape(table, "pull", keys.size(), out.size()));
    auto call = engine.make_call("pull", table.schema.name, timeout);
    call->out = out;
    engine.pull(call, table.schema, keys, keys_stay);
    return call;
  }
  Result<std::shared_ptr<Call>> start_push(const Table& table, std::span<const std::uint64_t> keys,
                                           std::span<const float> grads, Duration timeout) {
    DLRUN_TRY(check_shape(table, "push", keys.size(), grads.size()));
    auto call = engine.make_call("push", table.schema.name, timeout);
    engine.push(call, table.schema, keys, grads);
    return call;
  }

  Engine engine;
  std::atomic<bool> left = false;
  Turn clocking;
};

struct PendingCall::Impl {
  std::shared_ptr<Client::Impl> client;
  std::shared_ptr<Call> call;
  ~Impl() { client->engine.abandon(call); }
};

PendingCall::PendingCall() noexcept = default;
PendingCall::PendingCall(PendingCall&&) noexcept = default;
PendingCall& PendingCall::operator=(PendingCall&&) noexcept = default;
PendingCall::~PendingCall() = default;
PendingCall::PendingCall(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

Status PendingCall::wait() {
  if (impl_ == nullptr) return fail(Errc::kFailedPrecondition, "no pull to wait for");
  Status status = impl_->client->engine.wait(impl_->call);
  impl_.reset();
  return status;
}

Result<bool> PendingCall::wait_for(Duration timeout) {
  if (impl_ == nullptr) return fail(Errc::kFailedPrecondition, "no call to wait for");
  return impl_->client->engine.wait_for(impl_->call, timeout);
}

Client::Client(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(PsView view, ClientOptions options) {
  DLRUN_TRY(check_view(view));
  if (options.segment_bytes_max == 0 || options.segment_bytes_max > kSegmentBytesMax) {
    return fail(Errc::kInvalidArgument,
                "segment_bytes_max must be 1 to " + std::to_string(kSegmentBytesMax));
  }
  if (options.client.value == 0) {
    std::random_device random;
    options.client.value = (std::uint64_t{random()} << 32 | random()) | 1;
  }
  if (options.clock == nullptr) options.clock = std::make_shared<SystemClock>();
  if (options.transport == nullptr) options.transport = std::make_shared<transport::ZmqTransport>();
  DLRUN_ASSIGN(auto channel, options.transport->dial({}));
  return std::unique_ptr<Client>(
      new Client(std::make_shared<Impl>(std::move(view), std::move(options), std::move(channel))));
}

Result<Table> Client::open_table(TableSchema schema, Duration timeout) {
  if (impl_->left) return fail(Errc::kFailedPrecondition, "this client has left");
  if (schema.id == 0) schema.id = table_id(schema.name);
  DLRUN_TRY(validate(schema));
  Table table{schema.id, std::move(schema)};
  auto call = impl_->engine.make_call("opening", table.schema.name, timeout);
  impl_->engine.tell(
      call, RequestHeader{.kind = Kind::kCreateTable, .table = table.id, .schema = table.schema});
  DLRUN_TRY(impl_->engine.wait(call));
  return table;
}

Status Client::pull(const Table& table, std::span<const std::uint64_t> keys, std::span<float> out,
                    Duration timeout) {
  DLRUN_ASSIGN(const auto call, impl_->start_pull(table, keys, out, true, timeout));
  return impl_->engine.wait(call);
}

Result<PendingCall> Client::pull_async(const Table& table, std::span<const std::uint64_t> keys,
                                       std::span<float> out, Duration timeout) {
  DLRUN_ASSIGN(auto call, impl_->start_pull(table, keys, out, false, timeout));
  impl_->engine.wait_sent(call);
  return pending(std::move(call));
}

Status Client::push(const Table& table, std::span<const std::uint64_t> keys,
                    std::span<const float> grads, Duration timeout) {
  DLRUN_ASSIGN(const auto call, impl_->start_push(table, keys, grads, timeout));
  return impl_->engine.wait(call);
}

Result<PendingCall> Client::push_async(const Table& table, std::span<const std::uint64_t> keys,
                                       std::span<const float> grads, Duration timeout) {
  DLRUN_ASSIGN(auto call, impl_->start_push(table, keys, grads, timeout));
  impl_->engine.wait_sent(call);
  return pending(std::move(call));
}

Result<PendingCall> Client::begin_pull(const Table& table, std::span<const std::uint64_t> keys,
                                       std::span<float> out, Duration timeout) {
  DLRUN_ASSIGN(auto call, impl_->start_pull(table, keys, out, true, timeout));
  return pending(std::move(call));
}

Result<PendingCall> Client::begin_push(const Table& table, std::span<const std::uint64_t> keys,
                                       std::span<const float> grads, Duration timeout) {
  DLRUN_ASSIGN(auto call, impl_->start_push(table, keys, grads, timeout));
  return pending(std::move(call));
}

PendingCall Client::pending(std::shared_ptr<Call> call) const {
  return PendingCall(
      std::unique_ptr<PendingCall::Impl>(new PendingCall::Impl{impl_, std::move(call)}));
}

Status Client::pull_dense(const Table& table, std::span<float> out, Duration timeout) {
  DLRUN_TRY(impl_->check_dense(table, "pull"));
  return pull(table, all_rows(table.schema), out, timeout);
}

Status Client::push_dense(const Table& table, std::span<const float> grads, Duration timeout) {
  DLRUN_TRY(impl_->check_dense(table, "push"));
  return push(table, all_rows(table.schema), grads, timeout);
}

Status Client::clock(const Table& table, Duration timeout) {
  return clock(std::span(&table, 1), timeout);
}

Status Client::clock(std::span<const Table> tables, Duration timeout) {
  for (const Table& table : tables) DLRUN_TRY(impl_->check_open(table));
  if (tables.empty()) return {};
  Engine& engine = impl_->engine;
  auto call = tables.size() == 1 ? engine.make_call("clock", tables[0].schema.name, timeout)
                                 : engine.make_call("clock of several tables", "", timeout);
  if (!impl_->clocking.take(std::min<Duration>(timeout, std::chrono::hours(24)))) {
    return fail(Errc::kDeadlineExceeded,
                call->what() + ": another clock() of this client takes too long");
  }
  const std::unique_ptr<Turn, void (*)(Turn*)> turn(&impl_->clocking,
                                                    [](Turn* t) { t->give_back(); });
  std::vector<std::uint32_t> ids;
  for (const Table& table : tables) ids.push_back(table.id);
  DLRUN_TRY(engine.wait_quiet(ids, call->deadline));
  for (const std::uint32_t id : ids) {
    engine.tell(call,
                RequestHeader{.kind = Kind::kClock, .table = id, .clock = engine.clock_of(id) + 1});
  }
  DLRUN_TRY(engine.wait(call));
  for (const std::uint32_t id : ids) engine.set_clock(id, engine.clock_of(id) + 1);
  return {};
}

CheckpointCall Client::checkpoint_called(const Table& table) const {
  return impl_->engine.called(table.id);
}

Status Client::mark(std::uint64_t checkpoint, Duration timeout) {
  if (impl_->left) return fail(Errc::kFailedPrecondition, "this client has left");
  Engine& engine = impl_->engine;
  if (engine.options().worker == kNoWorker)
    return fail(Errc::kInvalidArgument, "only a worker's client marks a checkpoint");
  auto call = engine.make_call("mark of a checkpoint", "", timeout);
  if (!impl_->clocking.take(std::min<Duration>(timeout, std::chrono::hours(24)))) {
    return fail(Errc::kDeadlineExceeded,
                call->what() + ": another clock() or mark() of this client takes too long");
  }
  const std::unique_ptr<Turn, void (*)(Turn*)> turn(&impl_->clocking,
                                                    [](Turn* t) { t->give_back(); });
  engine.hold_pushes();
  const std::unique_ptr<Engine, void (*)(Engine*)> hold(&engine,
                                                        [](Engine* e) { e->release_pushes(); });
  DLRUN_TRY(engine.wait_pushes(call->deadline));
  engine.tell(
      call, RequestHeader{
                .kind = Kind::kMark, .sequence = engine.last_sequence(), .checkpoint = checkpoint});
  Status marked = engine.wait(call);
  if (marked || marked.error().code == Errc::kFailedPrecondition) engine.set_marked(checkpoint);
  return marked;
}

std::uint64_t Client::clock_of(const Table& table) const {
  return impl_->engine.clock_of(table.id);
}

Status Client::set_learning_rate(const Table& table, float rate, Duration timeout) {
  DLRUN_TRY(impl_->check_open(table));
  TableSchema changed = table.schema;
  changed.learning_rate = rate;
  DLRUN_TRY(validate(changed));
  auto call = impl_->engine.make_call("change of the learning rate", table.schema.name, timeout);
  impl_->engine.tell(call, RequestHeader{.kind = Kind::kTune,
                                         .table = table.id,
                                         .clock = impl_->engine.clock_of(table.id),
                                         .rate = rate});
  return impl_->engine.wait(call);
}

Status Client::set_codecs(const Table& table, CodecSpec push, CodecSpec pull) {
  DLRUN_TRY(impl_->check_open(table));
  const auto bad = [&](const char* what) {
    return fail(Errc::kInvalidArgument, name_of("codecs", table) + ": " + what);
  };
  const auto sparse = [](Codec codec) { return codec == Codec::kOneBit || codec == Codec::kTopK; };
  if (sparse(pull.codec)) return bad("one bit and top-k are for pushes");
  if (sparse(push.codec) && table.schema.optimizer == Optimizer::kAssign)
    return bad("one bit and top-k need gradients, this table assigns");
  if (push.codec == Codec::kTopK && (push.k < 1 || push.k > table.schema.dim))
    return bad("k must be 1 to dim");
  impl_->engine.set_codecs(table.schema, push, pull);
  return {};
}

Status Client::leave(Duration timeout) {
  if (impl_->left) return {};
  Engine& engine = impl_->engine;
  auto call = engine.make_call("leaving", "", timeout);
  DLRUN_TRY(engine.wait_quiet({}, call->deadline));
  engine.tell(call, RequestHeader{.kind = Kind::kLeave});
  DLRUN_TRY(engine.wait(call));
  impl_->left = true;
  return {};
}

Status Client::scan(const Table& table, const PageFn& page, Duration timeout) {
  DLRUN_TRY(impl_->check_open(table));
  Engine& engine = impl_->engine;
  const TimePoint deadline = engine.now() + timeout;
  const auto rows = std::max<std::uint32_t>(1, engine.segment_bytes() / (8 + 4 * table.schema.dim));
  for (std::uint32_t shard = 0; shard < engine.shards(); ++shard) {
    for (ScanCursor cursor; cursor.slot < kSlots;) {
      auto call = engine.make_call("scan", table.schema.name, deadline - engine.now());
      engine.tell(call,
                  RequestHeader{.kind = Kind::kScan,
                                .table = table.id,
                                .clock = engine.clock_of(table.id),
                                .n = rows,
                                .dim = table.schema.dim,
                                .cursor = cursor},
                  ShardId{shard});
      DLRUN_TRY(engine.wait(call));
      if (!call->page_keys.empty() && !page(call->page_keys, call->page_values)) {
        return fail(Errc::kCancelled, call->what() + ": stopped");
      }
      const ScanCursor next = call->page.cursor;
      if (next.slot < cursor.slot || (next.slot == cursor.slot && next.key <= cursor.key)) {
        return fail(Errc::kCorrupt,
                    call->what() + ": shard " + std::to_string(shard) + " does not move on");
      }
      cursor = next;
    }
  }
  return {};
}

Status Client::export_table(const Table& table, const std::string& path_prefix, Duration timeout) {
  Rows rows;
  DLRUN_TRY(scan(
      table,
      [&](std::span<const std::uint64_t> keys, std::span<const float> values) {
        rows.keys.insert(rows.keys.end(), keys.begin(), keys.end());
        rows.values.insert(rows.values.end(), values.begin(), values.end());
        return true;
      },
      timeout));
  return write_rows(table.schema, rows, path_prefix);
}

Status Client::set_view(PsView view) { return impl_->engine.set_view(std::move(view)); }
Client::Stats Client::stats() const { return impl_->engine.stats(); }

}  // namespace dlrun::ps
