#include "ps/core/shard_core.h"

#include <algorithm>

#include "ps/core/optimizer.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

constexpr Duration kBudgetMax = std::chrono::hours(24);
constexpr std::size_t kSpareMax = 8;

bool same_token(const std::array<std::uint8_t, 32>& a,
                const std::array<std::uint8_t, 32>& b) noexcept {
  unsigned difference = 0;  // looks at every byte, so that time tells nothing
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::string first_difference(const TableSchema& a, const TableSchema& b) {
  if (a.name != b.name) return "name ('" + a.name + "' has the same id: give one of them an id)";
  if (a.kind != b.kind) return "kind";
  if (a.rows != b.rows) return "rows";
  if (a.dim != b.dim) return "dim";
  if (a.optimizer != b.optimizer) return "optimizer";
  if (a.initializer != b.initializer) return "initializer";
  if (a.consistency != b.consistency) return "consistency";
  if (a.staleness != b.staleness) return "staleness";
  if (a.seed != b.seed) return "seed";
  if (a.dtype != b.dtype) return "dtype";
  if (a.admission != b.admission) return "admission";
  if (a.eviction != b.eviction) return "eviction";
  return "a parameter of the optimizer, the initializer or a policy";
}

/// Those that need no memory of what was sent before.
bool codes_replies(Codec codec) noexcept {
  return codec != Codec::kOneBit && codec != Codec::kTopK;
}

tl::unexpected<Error> bad(const TableSchema& schema, const std::string& what) {
  return fail(Errc::kInvalidArgument, "table '" + schema.name + "': " + what);
}

bool waits_for_clocks(const TableSchema& schema) noexcept {
  return schema.consistency != Consistency::kAsp;
}

}  // namespace

ShardCore::ShardCore(ShardSettings settings, SlotMap map)
    : settings_(std::move(settings)),
      map_(std::move(map)),
      slots_(kSlots, SlotState::kForeign),
      members_(settings_.workers) {
  DLRUN_ASSERT(map_.owner.size() == kSlots);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (map_.owner[slot] == settings_.shard) slots_[slot] = SlotState::kServing;
  }
  find_all_serving();
}

void ShardCore::find_all_serving() {
  all_serving_ = std::all_of(slots_.begin(), slots_.end(),
                             [](SlotState state) { return state == SlotState::kServing; });
}

TableState* ShardCore::table_of(std::uint32_t id) {
  const auto it = tables_.find(id);
  return it == tables_.end() ? nullptr : &it->second;
}
const TableState* ShardCore::table_of(std::uint32_t id) const {
  const auto it = tables_.find(id);
  return it == tables_.end() ? nullptr : &it->second;
}

Status ShardCore::check(const RequestHeader& r) const {
  if (!same_token(r.token, settings_.token))
    return fail(Errc::kPermissionDenied, "the token is not this job's");
  if (r.version != kWireVersion && !settings_.bugs.has("ps_version_ignored")) {
    return fail(Errc::kUnsupported, "wire version " + std::to_string(r.version) +
                                        "; this shard speaks " + std::to_string(kWireVersion));
  }
  if (r.epoch < map_.epoch && !settings_.bugs.has("ps_stale_epoch_accepted")) {
    return fail(Errc::kStaleEpoch, "epoch " + to_string(r.epoch) + " is over, now " +
                                       to_string(map_.epoch) + ": refetch the slot map");
  }
  if (r.epoch > map_.epoch) {
    return fail(Errc::kUnavailable, "epoch " + to_string(r.epoch) +
                                        " has not reached this shard (" + to_string(map_.epoch) +
                                        ") yet");
  }
  if (r.budget <= Duration::zero())
    return fail(Errc::kDeadlineExceeded, "no time left when it arrived");
  if (r.kind == Kind::kLeave) return {};
  if (gone_.contains(r.client)) return fail(Errc::kFailedPrecondition, "this client has left");
  if (r.kind == Kind::kCreateTable || r.kind == Kind::kMark) return {};
  const TableState* table = table_of(r.table);
  if (table == nullptr)
    return fail(Errc::kNotFound,
                "no table " + std::to_string(r.table) + " on this shard: open it first");
  if (r.kind == Kind::kClock || r.kind == Kind::kScan || r.kind == Kind::kTune) return {};
  const TableSchema& schema = table->schema();
  if (r.dim != schema.dim) {
    return bad(schema, "dim " + std::to_string(r.dim) + " where the table has " +
                           std::to_string(schema.dim));
  }
  if (std::uint64_t{r.n} * (8 + 4 * std::uint64_t{r.dim}) > kSegmentBytesMax)
    return bad(schema, std::to_string(r.n) + " keys are more than one request may carry");
  return {};
}

Status ShardCore::check(const RequestHeader& r, std::span<const std::uint64_t> keys,
                        std::span<const float> values) const {
  DLRUN_TRY(check(r));
  if (r.kind != Kind::kPull && r.kind != Kind::kPush) return {};
  const TableSchema& schema = table_of(r.table)->schema();
  if (keys.size() != r.n)
    return bad(schema, "n is " + std::to_string(r.n) + ", keys are " + std::to_string(keys.size()));
  const std::size_t values_expected = r.kind == Kind::kPush ? std::size_t{r.n} * r.dim : 0;
  if (values.size() != values_expected) {
    return bad(schema, std::to_string(values.size()) + " values where " +
                           std::to_string(values_expected) + " belong");
  }
  if (r.kind == Kind::kPull && !codes_replies(r.codec.codec))
    return bad(schema,
               "replies do not come in codec " + std::to_string(static_cast<int>(r.codec.codec)));
  if (schema.kind == KeyKind::kDense) {
    for (const std::uint64_t key : keys) {
      if (key >= schema.rows) {
        return bad(schema, "row " + std::to_string(key) + " of a dense table of " +
                               std::to_string(schema.rows) + " rows");
      }
    }
  }
  return check_slots(r, keys);
}

Status ShardCore::check_slots(const RequestHeader& r, std::span<const std::uint64_t> keys) const {
  if (all_serving_) return {};
  for (const std::uint64_t key : keys) {
    const std::uint32_t slot = slot_of(r.table, key);
    if (slots_[slot] == SlotState::kServing) continue;
    if (slots_[slot] == SlotState::kAwaited) {
      return fail(Errc::kUnavailable,
                  "the rows of slot " + std::to_string(slot) + " are on their way to this shard");
    }
    return fail(Errc::kStaleEpoch, "slot " + std::to_string(slot) + " belongs to shard " +
                                       std::to_string(map_.owner[slot].value) +
                                       ", not to this one: refetch the slot map");
  }
  return {};
}

void ShardCore::refuse(Asker asker, const RequestHeader& request, Error error,
                       Effects& effects) const {
  effects.push_back(answer(asker, request, tl::unexpected(std::move(error))));
}

void ShardCore::on_request(Asker asker, const RequestHeader& request,
                           std::span<const std::uint64_t> keys, std::span<const float> values,
                           TimePoint now, Effects& effects) {
  if (Status ok = check(request, keys, values); !ok) {
    effects.push_back(answer(asker, request, std::move(ok)));
    return;
  }
  switch (request.kind) {
    case Kind::kCreateTable:
      effects.push_back(answer(asker, request, create_table(request)));
      return;
    case Kind::kPush:
      effects.push_back(answer(asker, request, push(request, keys, values, now)));
      return;
    case Kind::kTune:
      effects.push_back(answer(asker, request, tune(request)));
      return;
    case Kind::kClock:
      effects.push_back(answer(asker, request, advance(request, now)));
      unpark(now, effects);
      return;
    case Kind::kMark:
      effects.push_back(answer(asker, request, take_mark(request, now)));
      return;
    case Kind::kLeave:
      leave(request, now, effects);
      effects.push_back(answer(asker, request, {}));
      return;
    case Kind::kPull:
    case Kind::kScan: {
      if (settings_.bugs.has("pull_takes_a_place")) (void)members_.admit(request.worker);
      const Result<bool> ready = readable(request, *table_of(request.table));
      if (!ready) {
        effects.push_back(answer(asker, request, tl::unexpected(ready.error())));
      } else if (*ready) {
        read(asker, request, keys, now, effects);
      } else if (Status parked = park(asker, request, keys, now); !parked) {
        effects.push_back(answer(asker, request, std::move(parked)));
      }
      return;
    }
  }
  effects.push_back(answer(asker, request, fail(Errc::kUnsupported, "unknown kind of request")));
}

Status ShardCore::create_table(const RequestHeader& request) {
  if (!request.schema) return fail(Errc::kInvalidArgument, "no schema");
  const TableSchema& schema = *request.schema;
  DLRUN_TRY(validate(schema));
  if (const TableState* table = table_of(schema.id)) {
    if (table->schema() == schema) return {};
    return fail(Errc::kAlreadyExists, "table '" + schema.name + "' exists with another " +
                                          first_difference(table->schema(), schema));
  }
  if (tables_.size() >= settings_.tables_max) {
    return fail(Errc::kResourceExhausted,
                "this shard has " + std::to_string(tables_.size()) + " tables, its most");
  }
  ++log_sequence_;
  tables_.emplace(schema.id, TableState(schema));
  return {};
}

Status ShardCore::room_for(ClientId client) const {
  if (clients_.size() < settings_.clients_max || clients_.contains(client)) return {};
  return fail(Errc::kOverloaded,
              "this shard has " + std::to_string(clients_.size()) + " clients, its most");
}

ShardCore::ClientState& ShardCore::client_of(const RequestHeader& r) {
  const auto it = clients_.find(r.client);
  if (it == clients_.end()) return new_client(r.client, r.worker);
  it->second.worker = r.worker;
  return it->second;
}

ShardCore::ClientState ShardCore::fresh_client(WorkerId worker) const {
  ClientState state{.worker = worker};
  for (const std::uint32_t slot : imported_) state.moved.emplace(slot, ClientState::Moved{});
  state.until_unknown = !state.moved.empty();
  return state;
}

ShardCore::ClientState& ShardCore::new_client(ClientId client, WorkerId worker) {
  return clients_.emplace(client, fresh_client(worker)).first->second;
}

Result<Combiner::Batch> ShardCore::not_taken(const RequestHeader& r, const ClientState* client,
                                             Combiner::Batch batch, std::uint32_t dim) {
  const auto too_old = [&] {
    return fail(Errc::kFailedPrecondition,
                "push " + std::to_string(r.sequence) + " is older than the last " +
                    std::to_string(kSequencesOpenMax) + " of its client");
  };
  using Seen = DedupWindow::Seen;
  const Seen here = client == nullptr ? Seen::kNew : client->window.look(r.sequence);
  if (client == nullptr || client->moved.empty()) {
    if (here == Seen::kTooOld) return too_old();
    return here == Seen::kNew ? batch : Combiner::Batch{};
  }
  keys_left_.clear();
  values_left_.clear();
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    const auto moved = client->moved.find(slot_of(r.table, batch.keys[i]));
    const Seen seen = moved == client->moved.end() ? here : moved->second.window.look(r.sequence);
    if (seen == Seen::kTooOld) return too_old();
    if (seen == Seen::kApplied) continue;
    keys_left_.push_back(batch.keys[i]);
    values_left_.insert(values_left_.end(), batch.grads + i * dim, batch.grads + (i + 1) * dim);
  }
  return Combiner::Batch{keys_left_, values_left_.data()};
}

void ShardCore::mark(const RequestHeader& r, ClientState& client,
                     std::span<const std::uint64_t> keys) {
  // Also when all the keys are of slots that came from elsewhere: no other request with this number
  // brings keys of the others.
  if (client.window.look(r.sequence) == DedupWindow::Seen::kNew) client.window.mark(r.sequence);
  if (client.moved.empty()) return;
  for (const std::uint64_t key : keys) {
    const auto moved = client.moved.find(slot_of(r.table, key));
    if (moved != client.moved.end() &&
        moved->second.window.look(r.sequence) == DedupWindow::Seen::kNew)
      moved->second.window.mark(r.sequence);
  }
  if (client.until_unknown) {
    for (auto& [slot, moved] : client.moved) {
      if (moved.until == 0) moved.until = r.sequence + 2 * kSequencesOpenMax;
    }
    client.until_unknown = false;
    client.next_until = 0;
  }
  if (r.sequence < client.next_until) return;
  std::erase_if(client.moved, [&](const auto& entry) { return entry.second.until <= r.sequence; });
  client.next_until = ~std::uint64_t{0};
  for (const auto& [slot, moved] : client.moved)
    client.next_until = std::min(client.next_until, moved.until);
}

Status ShardCore::push(const RequestHeader& r, std::span<const std::uint64_t> keys,
                       std::span<const float> values, TimePoint now) {
  TableState& table = *table_of(r.table);
  const TableSchema& schema = table.schema();
  if (r.sequence == 0) return fail(Errc::kInvalidArgument, "a push needs a sequence from 1 on");
  if (waits_for_clocks(schema) && r.worker == kNoWorker) {
    return fail(Errc::kInvalidArgument,
                "table '" + schema.name + "' takes pushes from workers only");
  }
  const auto known = clients_.find(r.client);
  DLRUN_ASSIGN(const Combiner::Batch batch,
               not_taken(r, known == clients_.end() ? nullptr : &known->second,
                         combiner_.combine(schema, keys, values.data()), schema.dim));
  if (batch.keys.empty()) {
    repeated_ += keys.empty() ? 0 : 1;
    return {};
  }

  const bool waits = waits_for_clocks(schema);
  if (waits) DLRUN_TRY(members_.may_admit(r.worker));
  const bool bsp = schema.consistency == Consistency::kBsp;
  if (const std::uint64_t clock = table.clocks().of(r.worker); bsp && r.clock != clock) {
    return fail(Errc::kFailedPrecondition,
                "table '" + schema.name + "': a push of clock " + std::to_string(r.clock) +
                    " from a worker whose clock is " + std::to_string(clock));
  }
  const std::uint64_t bytes = batch.keys.size() * (8 + 4 * std::uint64_t{schema.dim});
  if (bsp && table.kept_bytes() + bytes > settings_.kept_bytes_max) {
    return fail(Errc::kOverloaded, "table '" + schema.name + "': pushes of open clocks hold " +
                                       std::to_string(table.kept_bytes()) +
                                       " bytes; a worker is far behind");
  }
  DLRUN_TRY(room_for(r.client));

  // Nothing has changed so far, and nothing is refused from here on.
  if (waits) DLRUN_TRY(members_.admit(r.worker));
  ++log_sequence_;
  const Side side = cut_ == nullptr ? Side::kBefore : side_of(r, table);
  if (cut_ != nullptr) cut_window(r, side, batch.keys);
  mark(r, client_of(r), batch.keys);
  if (!bsp) {
    table.apply(batch.keys, batch.grads, log_sequence_, whole_seconds(now), side);
    if (cut_ != nullptr) bound_cut();
    return {};
  }
  table.keep(r.clock, {r.worker,
                       r.client,
                       r.sequence,
                       {batch.keys.begin(), batch.keys.end()},
                       {batch.grads, batch.grads + batch.keys.size() * schema.dim}});
  return {};
}

Status ShardCore::tune(const RequestHeader& r) {
  TableState& table = *table_of(r.table);
  const TableSchema& schema = table.schema();
  if (r.sequence == 0) return fail(Errc::kInvalidArgument, "a change needs a sequence from 1 on");
  TableSchema changed = schema;
  changed.learning_rate = r.rate;
  DLRUN_TRY(validate(changed));
  const auto known = clients_.find(r.client);
  if (known != clients_.end() && known->second.window.look(r.sequence) != DedupWindow::Seen::kNew) {
    ++repeated_;
    return {};
  }
  DLRUN_TRY(room_for(r.client));
  ++log_sequence_;
  const Side side = cut_ == nullptr ? Side::kBefore : side_of(r, table);
  if (cut_ != nullptr) cut_window(r, side, {});
  mark(r, client_of(r), {});
  if (schema.consistency == Consistency::kBsp && r.worker != kNoWorker) {
    table.set_rate_from(std::max(r.clock, lowest(table)), r.rate);
  } else {
    table.set_rate(r.rate, side);
  }
  return {};
}

Status ShardCore::advance(const RequestHeader& r, TimePoint now) {
  TableState& table = *table_of(r.table);
  if (r.worker == kNoWorker) return fail(Errc::kInvalidArgument, "only a worker has a clock");
  if (!waits_for_clocks(table.schema())) return {};
  DLRUN_TRY(members_.may_admit(r.worker));
  if (r.clock <= table.clocks().of(r.worker)) return {};
  DLRUN_TRY(members_.admit(r.worker));
  ++log_sequence_;
  table.clocks().advance(r.worker, r.clock);
  table.close_below(lowest(table), log_sequence_, whole_seconds(now));
  step_cut(now);
  return {};
}

void ShardCore::leave(const RequestHeader& r, TimePoint now, Effects& effects) {
  const bool worker_leaves = r.worker != kNoWorker && !settings_.bugs.has("worker_gone_ignored") &&
                             members_.leave(r.worker);
  if (!worker_leaves && gone_.contains(r.client)) return;
  ++log_sequence_;
  if (worker_leaves) drop_worker(r.worker, now);
  forget_client(r.client);
  step_cut(now);
  if (worker_leaves) unpark(now, effects);
}

void ShardCore::forget_client(ClientId client) {
  clients_.erase(client);
  if (!gone_.insert(client).second) return;
  gone_order_.push_back(client);
  if (gone_order_.size() > settings_.clients_max) {
    gone_.erase(gone_order_.front());
    gone_order_.pop_front();
  }
}

void ShardCore::on_worker_left(WorkerId worker, TimePoint now, Effects& effects) {
  if (settings_.bugs.has("worker_gone_ignored")) return;
  if (!members_.leave(worker)) return;
  ++log_sequence_;
  drop_worker(worker, now);
  step_cut(now);
  unpark(now, effects);  // what this worker had parked is refused there: it has no clock any more
}

void ShardCore::drop_worker(WorkerId worker, TimePoint now) {
  std::vector<ClientId> clients;
  for (const auto& [client, state] : clients_) {
    if (state.worker == worker) clients.push_back(client);
  }
  for (const ClientId client : clients) forget_client(client);
  for (auto& [id, table] : tables_) {
    table.clocks().remove(worker);
    table.close_below(lowest(table), log_sequence_, whole_seconds(now));
  }
}

Result<bool> ShardCore::readable(const RequestHeader& r, const TableState& table) const {
  const TableSchema& schema = table.schema();
  if (r.worker == kNoWorker || !waits_for_clocks(schema)) return true;
  DLRUN_TRY(members_.may_admit(r.worker));
  const std::uint64_t low = lowest(table) + (settings_.bugs.has("reads_one_clock_early") ? 1 : 0);
  if (schema.consistency == Consistency::kBsp) {
    if (const std::uint64_t clock = table.clocks().of(r.worker); r.clock != clock) {
      return fail(Errc::kFailedPrecondition,
                  "table '" + schema.name + "': a pull at clock " + std::to_string(r.clock) +
                      " from a worker whose clock is " + std::to_string(clock));
    }
    return low >= r.clock;
  }
  return r.clock <= schema.staleness || low >= r.clock - schema.staleness;
}

Status ShardCore::park(Asker asker, const RequestHeader& request,
                       std::span<const std::uint64_t> keys, TimePoint now) {
  const TimePoint deadline = now + std::min(request.budget, kBudgetMax);
  for (Parked& p : parked_) {
    if (p.request.client == request.client && p.request.request == request.request) {
      p.asker = asker;
      p.deadline = deadline;
      return {};
    }
  }
  const std::uint64_t bytes = sizeof(Parked) + keys.size_bytes();
  if (parked_.size() >= settings_.parked_max ||
      parked_bytes_ + bytes > settings_.parked_bytes_max) {
    return fail(Errc::kOverloaded,
                std::to_string(parked_.size()) + " pulls wait for slower workers at this shard");
  }
  parked_bytes_ += bytes;
  parked_.push_back({asker, request, {keys.begin(), keys.end()}, deadline});
  return {};
}

void ShardCore::unpark(TimePoint now, Effects& effects) {
  std::deque<Parked> waiting;
  waiting.swap(parked_);
  parked_bytes_ = 0;
  for (Parked& p : waiting) {
    const Result<bool> ready = readable(p.request, *table_of(p.request.table));
    if (!ready) {
      effects.push_back(answer(p.asker, p.request, tl::unexpected(ready.error())));
    } else if (p.deadline <= now) {
      effects.push_back(
          answer(p.asker, p.request, fail(Errc::kDeadlineExceeded, "waited for slower workers")));
    } else if (*ready) {
      read(p.asker, p.request, p.keys, now, effects);
    } else {
      parked_bytes_ += sizeof(Parked) + p.keys.size() * 8;
      parked_.push_back(std::move(p));
    }
  }
}

void ShardCore::on_tick(TimePoint now, Effects& effects) {
  step_cut(now);
  if (const auto due = next_deadline(); due && *due <= now) unpark(now, effects);
}

std::optional<TimePoint> ShardCore::next_deadline() const {
  std::optional<TimePoint> due = cut_deadline();
  for (const Parked& p : parked_) {
    if (!due || p.deadline < *due) due = p.deadline;
  }
  return due;
}

Reply ShardCore::answer(Asker asker, const RequestHeader& request, Status status) const {
  Reply reply{.asker = asker};
  reply.header.kind = request.kind;
  reply.header.request = request.request;
  reply.header.epoch = map_.epoch;
  if (!status) {
    reply.header.error = static_cast<std::int32_t>(status.error().code);
    reply.header.context =
        "shard " + std::to_string(settings_.shard.value) + ": " + status.error().context;
    if (status.error().code == Errc::kPermissionDenied) reply.header.epoch = {};
  } else if (const TableState* table = table_of(request.table)) {
    reply.header.clock = lowest(*table);
  }
  if (status && cut_ != nullptr) tell_of_cut(request, reply.header);
  return reply;
}

void ShardCore::read(Asker asker, const RequestHeader& request, std::span<const std::uint64_t> keys,
                     TimePoint now, Effects& effects) {
  const TableState& table = *table_of(request.table);
  Reply reply = answer(asker, request, {});
  const std::uint32_t dim = reply.header.dim = table.schema().dim;
  if (request.kind == Kind::kScan) {
    read_page(request, table, now, reply);
    effects.push_back(std::move(reply));
    return;
  }
  reply.header.n = request.n;
  reply.header.codec = {request.codec.codec, 0};
  const std::size_t floats = keys.size() * dim;
  if (sink_ != nullptr && floats > 0 && request.codec.codec == Codec::kF32) {
    if (float* to = sink_->place(asker, reply.header, floats)) {
      table.read(keys, to, whole_seconds(now));
      sink_->sent(asker);
      return;
    }
  }
  if (!spare_.empty()) {
    reply.values = std::move(spare_.back());
    spare_.pop_back();
  }
  reply.values.resize(floats);  // of a spare: no fresh memory, nothing to clear
  table.read(keys, reply.values.data(), whole_seconds(now));
  effects.push_back(std::move(reply));
}

void ShardCore::recycle(std::vector<float> values) {
  if (spare_.size() < kSpareMax) spare_.push_back(std::move(values));
}

void ShardCore::read_page(const RequestHeader& request, const TableState& table, TimePoint now,
                          Reply& reply) const {
  const std::uint32_t dim = table.schema().dim;
  std::size_t room = kSegmentBytesMax / (8 + 4 * std::size_t{dim});
  if (request.n > 0) room = std::min<std::size_t>(room, request.n);
  ScanCursor cursor = request.cursor;
  cursor.slot = std::min(cursor.slot, kSlots);
  while (cursor.slot < kSlots) {
    if (slots_[cursor.slot] == SlotState::kServing) {
      const auto keys = table.keys_of_slot(cursor.slot, cursor.key, room - reply.keys.size() + 1);
      bool full = false;
      for (const std::uint64_t key : keys) {
        if (reply.keys.size() == room) {
          cursor.key = key;
          full = true;
          break;
        }
        reply.keys.push_back(key);
      }
      if (full) break;
    }
    cursor = {cursor.slot + 1, 0};
  }
  reply.values.resize(reply.keys.size() * dim);
  table.read(reply.keys, reply.values.data(), whole_seconds(now));
  reply.header.cursor = cursor;
  reply.header.n = static_cast<std::uint32_t>(reply.keys.size());
}

ShardCore::Stats ShardCore::stats() const {
  Stats s{.log_sequence = log_sequence_, .parked = parked_.size(), .repeated = repeated_};
  for (const auto& [id, table] : tables_) {
    s.rows += table.rows().rows();
    s.bytes += table.rows().bytes();
    s.kept_bytes += table.kept_bytes();
    s.evicted += table.stats().evicted;
    s.not_admitted += table.stats().not_admitted;
  }
  return s;
}

}  // namespace dlrun::ps
