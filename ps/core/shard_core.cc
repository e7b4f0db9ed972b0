#include "ps/core/shard_core.h"

#include <algorithm>

#include "ps/core/optimizer.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

constexpr Duration kBudgetMax = std::chrono::hours(24);

std::uint32_t seconds(TimePoint now) noexcept {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
}

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
  return "a parameter of the optimizer or the initializer";
}

bool waits_for_clocks(const TableSchema& schema) noexcept {
  return schema.consistency != Consistency::kAsp;
}

}  // namespace

ShardCore::ShardCore(ShardSettings settings, SlotMap map)
    : settings_(settings),
      map_(std::move(map)),
      slots_(kSlots, SlotState::kForeign),
      members_(settings.workers) {
  DLRUN_ASSERT(map_.owner.size() == kSlots);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (map_.owner[slot] == settings_.shard) slots_[slot] = SlotState::kServing;
  }
}

TableState* ShardCore::table_of(std::uint32_t id) {
  const auto it = tables_.find(id);
  return it == tables_.end() ? nullptr : &it->second;
}
const TableState* ShardCore::table_of(std::uint32_t id) const {
  const auto it = tables_.find(id);
  return it == tables_.end() ? nullptr : &it->second;
}

Status ShardCore::check(const RequestHeader& r, std::span<const std::uint64_t> keys,
                        std::span<const float> values) const {
  if (!same_token(r.token, settings_.token))
    return fail(Errc::kPermissionDenied, "the token is not this job's");
  if (r.version != kWireVersion) {
    return fail(Errc::kUnsupported, "wire version " + std::to_string(r.version) +
                                        "; this shard speaks " + std::to_string(kWireVersion));
  }
  if (r.epoch < map_.epoch) {
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
  if (r.kind == Kind::kCreateTable) return {};
  const TableState* table = table_of(r.table);
  if (table == nullptr)
    return fail(Errc::kNotFound,
                "no table " + std::to_string(r.table) + " on this shard: open it first");
  if (r.kind == Kind::kClock || r.kind == Kind::kScan) return {};
  const TableSchema& schema = table->schema();
  const auto bad = [&](std::string what) {
    return fail(Errc::kInvalidArgument, "table '" + schema.name + "': " + std::move(what));
  };
  if (r.dim != schema.dim) {
    return bad("dim " + std::to_string(r.dim) + " where the table has " +
               std::to_string(schema.dim));
  }
  if (std::uint64_t{r.n} * (8 + 4 * std::uint64_t{r.dim}) > kSegmentBytesMax) {
    return bad(std::to_string(r.n) + " keys are more than one request may carry");
  }
  if (keys.size() != r.n)
    return bad("n is " + std::to_string(r.n) + ", keys are " + std::to_string(keys.size()));
  const std::size_t values_expected = r.kind == Kind::kPush ? std::size_t{r.n} * r.dim : 0;
  if (values.size() != values_expected) {
    return bad(std::to_string(values.size()) + " values where " + std::to_string(values_expected) +
               " belong");
  }
  if (schema.kind == KeyKind::kDense) {
    for (const std::uint64_t key : keys) {
      if (key >= schema.rows) {
        return bad("row " + std::to_string(key) + " of a dense table of " +
                   std::to_string(schema.rows) + " rows");
      }
    }
  }
  return check_slots(r, keys);
}

Status ShardCore::check_slots(const RequestHeader& r, std::span<const std::uint64_t> keys) const {
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
    case Kind::kClock:
      effects.push_back(answer(asker, request, advance(request, now)));
      unpark(now, effects);
      return;
    case Kind::kLeave:
      leave(request, now, effects);
      effects.push_back(answer(asker, request, {}));
      return;
    case Kind::kPull:
    case Kind::kScan: {
      const Result<bool> ready = readable(request, *table_of(request.table));
      if (!ready) {
        effects.push_back(answer(asker, request, tl::unexpected(ready.error())));
      } else if (*ready) {
        effects.push_back(read(asker, request, keys));
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

Status ShardCore::push(const RequestHeader& r, std::span<const std::uint64_t> keys,
                       std::span<const float> values, TimePoint now) {
  TableState& table = *table_of(r.table);
  const TableSchema& schema = table.schema();
  if (r.sequence == 0) return fail(Errc::kInvalidArgument, "a push needs a sequence from 1 on");
  if (waits_for_clocks(schema) && r.worker == kNoWorker) {
    return fail(Errc::kInvalidArgument,
                "table '" + schema.name + "' takes pushes from workers only");
  }
  std::vector<Gradient> gradients(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    gradients[i] = {slot_of(r.table, keys[i]), keys[i], values.data() + i * schema.dim};
  }
  sort_gradients(gradients);

  // Leaves the gradients of the slots that have not taken this push yet, and the list of those
  // slots.
  std::vector<std::uint32_t> slots;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < gradients.size();) {
    const std::uint32_t slot = gradients[i].slot;
    std::size_t end = i;
    while (end < gradients.size() && gradients[end].slot == slot) ++end;
    const auto window = windows_.find({slot, r.client});
    const auto seen =
        window == windows_.end() ? DedupWindow::Seen::kNew : window->second.look(r.sequence);
    if (seen == DedupWindow::Seen::kTooOld) {
      return fail(Errc::kFailedPrecondition,
                  "push " + std::to_string(r.sequence) + " is older than the last " +
                      std::to_string(kSequencesOpenMax) + " of its client");
    }
    if (seen == DedupWindow::Seen::kNew) {
      slots.push_back(slot);
      for (; i < end; ++i) gradients[kept++] = gradients[i];
    }
    i = end;
  }
  gradients.resize(kept);
  if (gradients.empty()) return {};

  if (waits_for_clocks(schema)) DLRUN_TRY(members_.admit(r.worker));
  const bool bsp = schema.consistency == Consistency::kBsp;
  if (const std::uint64_t clock = table.clocks().of(r.worker); bsp && r.clock != clock) {
    return fail(Errc::kFailedPrecondition,
                "table '" + schema.name + "': a push of clock " + std::to_string(r.clock) +
                    " from a worker whose clock is " + std::to_string(clock));
  }
  if (!clients_.contains(r.client) && clients_.size() >= settings_.clients_max) {
    return fail(Errc::kOverloaded,
                "this shard has " + std::to_string(clients_.size()) + " clients, its most");
  }
  const std::uint64_t bytes = gradients.size() * (8 + 4 * std::uint64_t{schema.dim});
  if (bsp && table.kept_bytes() + bytes > settings_.kept_bytes_max) {
    return fail(Errc::kOverloaded, "table '" + schema.name + "': pushes of open clocks hold " +
                                       std::to_string(table.kept_bytes()) +
                                       " bytes; a worker is far behind");
  }

  ++log_sequence_;
  clients_.insert_or_assign(r.client, r.worker);
  for (const std::uint32_t slot : slots) windows_[{slot, r.client}].mark(r.sequence);
  if (!bsp) {
    table.apply(gradients, log_sequence_, seconds(now));
    return {};
  }
  BufferedPush push{r.worker, r.client, r.sequence, {}, {}};
  push.keys.reserve(gradients.size());
  push.grads.reserve(gradients.size() * schema.dim);
  for (const Gradient& g : gradients) {
    push.keys.push_back(g.key);
    push.grads.insert(push.grads.end(), g.g, g.g + schema.dim);
  }
  table.keep(r.clock, std::move(push));
  return {};
}

Status ShardCore::advance(const RequestHeader& r, TimePoint now) {
  TableState& table = *table_of(r.table);
  if (r.worker == kNoWorker) return fail(Errc::kInvalidArgument, "only a worker has a clock");
  if (!waits_for_clocks(table.schema())) return {};
  DLRUN_TRY(members_.admit(r.worker));
  if (r.clock <= table.clocks().of(r.worker)) return {};
  ++log_sequence_;
  table.clocks().advance(r.worker, r.clock);
  table.close_below(lowest(table), log_sequence_, seconds(now));
  return {};
}

void ShardCore::leave(const RequestHeader& r, TimePoint now, Effects& effects) {
  ++log_sequence_;
  if (r.worker != kNoWorker) on_worker_left(r.worker, now, effects);
  forget_client(r.client);
}

void ShardCore::forget_client(ClientId client) {
  clients_.erase(client);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) windows_.erase({slot, client});
  if (!gone_.insert(client).second) return;
  gone_order_.push_back(client);
  if (gone_order_.size() > settings_.clients_max) {
    gone_.erase(gone_order_.front());
    gone_order_.pop_front();
  }
}

void ShardCore::on_worker_left(WorkerId worker, TimePoint now, Effects& effects) {
  if (!members_.leave(worker)) return;
  ++log_sequence_;
  std::vector<ClientId> clients;
  for (const auto& [client, its_worker] : clients_) {
    if (its_worker == worker) clients.push_back(client);
  }
  for (const ClientId client : clients) forget_client(client);
  for (auto& [id, table] : tables_) {
    table.clocks().remove(worker);
    table.close_below(lowest(table), log_sequence_, seconds(now));
  }
  unpark(now, effects);  // what this worker had parked is refused there: it has no clock any more
}

Result<bool> ShardCore::readable(const RequestHeader& r, const TableState& table) {
  const TableSchema& schema = table.schema();
  if (r.worker == kNoWorker || !waits_for_clocks(schema)) return true;
  DLRUN_TRY(members_.admit(r.worker));
  const std::uint64_t low = lowest(table);
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
      effects.push_back(read(p.asker, p.request, p.keys));
    } else {
      parked_bytes_ += sizeof(Parked) + p.keys.size() * 8;
      parked_.push_back(std::move(p));
    }
  }
}

void ShardCore::on_tick(TimePoint now, Effects& effects) {
  if (const auto due = next_deadline(); due && *due <= now) unpark(now, effects);
}

std::optional<TimePoint> ShardCore::next_deadline() const {
  std::optional<TimePoint> due;
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
  return reply;
}

Reply ShardCore::read(Asker asker, const RequestHeader& request,
                      std::span<const std::uint64_t> keys) const {
  const TableState& table = *table_of(request.table);
  Reply reply = answer(asker, request, {});
  const std::uint32_t dim = table.schema().dim;
  if (request.kind == Kind::kScan) {
    read_page(request, table, reply);
  } else {
    reply.values.resize(keys.size() * dim);
    for (std::size_t i = 0; i < keys.size(); ++i)
      table.read(keys[i], reply.values.data() + i * dim);
    reply.header.n = request.n;
  }
  reply.header.dim = dim;
  return reply;
}

void ShardCore::read_page(const RequestHeader& request, const TableState& table,
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
        reply.values.resize(reply.keys.size() * dim);
        table.read(key, reply.values.data() + reply.values.size() - dim);
      }
      if (full) break;
    }
    cursor = {cursor.slot + 1, 0};
  }
  reply.header.cursor = cursor;
  reply.header.n = static_cast<std::uint32_t>(reply.keys.size());
}

Status ShardCore::install_map(SlotMap map, TimePoint now, Effects& effects) {
  if (map.owner.size() != kSlots)
    return fail(Errc::kInvalidArgument, "a slot map needs " + std::to_string(kSlots) + " owners");
  if (map.epoch <= map_.epoch) return {};
  ++log_sequence_;
  map_ = std::move(map);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    const bool mine = map_.owner[slot] == settings_.shard;
    if (mine && slots_[slot] == SlotState::kForeign) {
      slots_[slot] = SlotState::kAwaited;
    } else if (!mine && slots_[slot] != SlotState::kForeign) {
      slots_[slot] = SlotState::kForeign;
      for (auto& [id, table] : tables_) table.erase_slot(slot);
      for (const auto& [client, worker] : clients_) windows_.erase({slot, client});
    }
  }
  for (Parked& p : parked_) {
    effects.push_back(answer(p.asker, p.request,
                             fail(Errc::kStaleEpoch, "the slot map has changed: refetch it")));
  }
  parked_.clear();
  parked_bytes_ = 0;
  on_tick(now, effects);
  return {};
}

SlotImage ShardCore::export_slot(std::uint32_t slot) const {
  DLRUN_ASSERT(slot < kSlots);
  SlotImage image{.slot = slot};
  for (const auto& [id, table] : tables_) image.tables.push_back(table.export_slot(slot));
  for (const auto& [client, worker] : clients_) {
    const auto window = windows_.find({slot, client});
    if (window != windows_.end()) image.windows.push_back({client, worker, window->second});
  }
  return image;
}

Status ShardCore::import_slot(const SlotImage& image, TimePoint now, Effects& effects) {
  if (image.slot >= kSlots || slots_[image.slot] != SlotState::kAwaited) {
    return fail(Errc::kFailedPrecondition,
                "slot " + std::to_string(image.slot) + " is not awaited by this shard");
  }
  for (const TableImage& t : image.tables) {
    const TableState* table = table_of(t.schema.id);
    if (table != nullptr && table->schema() != t.schema) {
      return fail(Errc::kAlreadyExists,
                  "table '" + t.schema.name + "' is here with another schema");
    }
    if (t.data.size() != t.rows.size() * (t.schema.dim + std::size_t{state_floats(t.schema)})) {
      return fail(Errc::kCorrupt, "table '" + t.schema.name + "': rows and data do not match");
    }
  }
  ++log_sequence_;
  for (const TableImage& t : image.tables) {
    TableState& table = tables_.try_emplace(t.schema.id, t.schema).first->second;
    table.import_slot(image.slot, t, log_sequence_);
    // A worker told its clock to some shard only after every shard had acknowledged what came
    // before: the larger one is true.
    for (const auto& [worker, clock] : t.clocks) {
      if (members_.admit(worker)) table.clocks().advance(worker, clock);
    }
    table.close_below(lowest(table), log_sequence_, seconds(now));
  }
  for (const SlotImage::Window& w : image.windows) {
    if (gone_.contains(w.client)) continue;
    clients_.insert_or_assign(w.client, w.worker);
    windows_.insert_or_assign(WindowKey{image.slot, w.client}, w.window);
  }
  slots_[image.slot] = SlotState::kServing;
  unpark(now, effects);
  return {};
}

std::uint64_t ShardCore::digest() const {
  std::uint64_t h = mix64(map_.epoch.term ^ mix64(map_.epoch.counter));
  for (std::uint32_t slot = 0; slot < kSlots; ++slot)
    h = mix64(h ^ static_cast<std::uint64_t>(slots_[slot]));
  for (const auto& [id, table] : tables_) h = mix64(h ^ table.digest());
  h = mix64(h ^ members_.digest());
  std::uint64_t windows = 0;
  for (const auto& [key, window] : windows_)
    windows += window.digest(mix64(key.client.value) ^ key.slot);
  return mix64(h ^ windows) ^ log_sequence_;
}

ShardCore::Stats ShardCore::stats() const {
  Stats s{.log_sequence = log_sequence_, .parked = parked_.size()};
  for (const auto& [id, table] : tables_) {
    s.rows += table.rows().rows();
    s.bytes += table.rows().bytes();
    s.kept_bytes += table.kept_bytes();
  }
  return s;
}

}  // namespace dlrun::ps
