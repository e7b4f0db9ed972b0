// The parts of ShardCore about checkpoints: the cut of one, and a shard that begins with one.
#include <algorithm>

#include "ps/core/shard_core.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {

struct ShardCore::Cut {
  std::uint64_t id = 0;
  CutPhase phase = CutPhase::kMarking;
  std::string why;
  TimePoint deadline;
  std::vector<std::uint32_t> tables;  ///< by id
  bool has_asp = false;
  std::map<ClientId, ClientMark> marks;
  /// Of clients with a push that is after, as they are without it.
  std::map<ClientId, ClientState> windows;
  PartInfo part;                      ///< from kWriting on
  std::vector<WindowRecord> records;  ///< the same
  std::size_t table_at = 0;
  std::uint32_t slot_at = 0;
  BlockBuilder rows{};
  BlockBuilder sightings{};
};

struct ShardCore::Restore {
  struct Part {
    std::int64_t shift_s = 0;
    std::vector<bool> slots;  ///< that it served
    bool all_of_mine = false;
  };
  std::vector<Part> parts;
  bool with_windows = false;
};

void ShardCore::DeleteCut::operator()(Cut* cut) const noexcept { delete cut; }
void ShardCore::DeleteRestore::operator()(Restore* restore) const noexcept { delete restore; }

std::vector<TableProgress> ShardCore::progress() const {
  std::vector<TableProgress> progress;
  for (const auto& [id, table] : tables_) {
    if (table.schema().consistency == Consistency::kAsp) continue;
    TableProgress p{.table = id, .lowest = lowest(table), .fastest = table.clocks().start()};
    if (p.lowest == ClockSet::kNobody) p.lowest = table.clocks().start();
    for (const auto& [worker, clock] : table.clocks().list())
      p.fastest = std::max(p.fastest, clock);
    progress.push_back(p);
  }
  return progress;
}

Status ShardCore::begin_cut(const CutPlan& plan, TimePoint now) {
  const auto refuse = [&](std::string what) {
    return fail(Errc::kFailedPrecondition,
                "checkpoint " + std::to_string(plan.id) + ": " + std::move(what));
  };
  if (plan.id == 0) return fail(Errc::kInvalidArgument, "a checkpoint's id is not 0");
  if (plan.id == last_cut_ && cut_ != nullptr && cut_->phase != CutPhase::kCancelled) return {};
  if (plan.id <= last_cut_) return refuse("over here, the last is " + std::to_string(last_cut_));
  if (cut_ != nullptr && (cut_->phase == CutPhase::kMarking || cut_->phase == CutPhase::kWriting))
    return refuse("checkpoint " + std::to_string(last_cut_) + " is still under way");
  if (restore_ != nullptr ||
      std::find(slots_.begin(), slots_.end(), SlotState::kAwaited) != slots_.end())
    return fail(Errc::kUnavailable, "slots are on their way to this shard");

  std::map<std::uint32_t, std::uint64_t> clocks;
  for (const TableClock& c : plan.clocks) clocks[c.table] = c.clock;
  for (const auto& [id, clock] : clocks) {
    const TableState* table = table_of(id);
    if (table == nullptr) return refuse("table " + std::to_string(id) + " is not open here");
    if (table->schema().consistency == Consistency::kAsp)
      return refuse("table '" + table->schema().name + "' has no clocks");
  }
  for (const TableProgress& p : progress()) {
    const TableSchema& schema = table_of(p.table)->schema();
    const auto clock = clocks.find(p.table);
    if (clock == clocks.end()) return refuse("the plan leaves table '" + schema.name + "' out");
    if (std::max(p.fastest, p.lowest) >= clock->second && members_.active() > 0)
      return refuse("a worker is at clock " + std::to_string(p.fastest) + " of table '" +
                    schema.name + "', where it was to be cut at " + std::to_string(clock->second));
  }

  last_cut_ = plan.id;
  cut_.reset(new Cut{.id = plan.id, .deadline = now + plan.marks_within});
  for (auto& [id, table] : tables_) {
    const auto clock = clocks.find(id);
    table.drop_fork();
    table.fork(clock == clocks.end() ? 0 : clock->second);
    cut_->tables.push_back(id);
    cut_->has_asp |= table.schema().consistency == Consistency::kAsp;
  }
  step_cut(now);
  return {};
}

void ShardCore::cancel_cut(std::uint64_t checkpoint, std::string why) {
  if (cut_ == nullptr || cut_->id != checkpoint || cut_->phase == CutPhase::kCancelled) return;
  for (auto& [id, table] : tables_) table.drop_fork();
  cut_.reset(new Cut{.id = checkpoint, .phase = CutPhase::kCancelled, .why = std::move(why)});
}

ShardCore::CutStatus ShardCore::cut() const {
  if (cut_ == nullptr) return {};
  CutStatus status{.checkpoint = cut_->id, .phase = cut_->phase, .why = cut_->why};
  for (const auto& [id, table] : tables_) status.aside_bytes += table.aside_bytes();
  status.pressing =
      cut_->phase == CutPhase::kWriting && status.aside_bytes > settings_.aside_bytes_max;
  return status;
}

std::optional<TimePoint> ShardCore::cut_deadline() const {
  if (cut_ == nullptr || cut_->phase != CutPhase::kMarking) return std::nullopt;
  return cut_->deadline;
}

void ShardCore::tell_of_cut(const RequestHeader& request, ReplyHeader& reply) const {
  if (cut_->phase != CutPhase::kMarking) return;
  reply.checkpoint = cut_->id;
  const TableState* table = table_of(request.table);
  if (table != nullptr && table->forked()) reply.cut_clock = table->fork_clock();
}

Side ShardCore::side_of(const RequestHeader& r, const TableState& table) const {
  if (!table.forked()) return Side::kBefore;
  if (table.settled()) return Side::kAfter;
  if (table.schema().consistency != Consistency::kAsp)
    return r.worker != kNoWorker && r.clock >= table.fork_clock() ? Side::kAfter : Side::kBefore;
  const auto mark = cut_->marks.find(r.client);
  return mark != cut_->marks.end() && r.sequence > mark->second.sequence ? Side::kAfter
                                                                         : Side::kBefore;
}

/// Before the client's window takes the request.
void ShardCore::cut_window(const RequestHeader& r, Side side, std::span<const std::uint64_t> keys) {
  if (cut_->phase != CutPhase::kMarking) return;
  const auto without = cut_->windows.find(r.client);
  if (side == Side::kBefore) {
    if (without != cut_->windows.end()) mark(r, without->second, keys);
    return;
  }
  if (without != cut_->windows.end()) return;
  const auto known = clients_.find(r.client);
  cut_->windows.emplace(r.client, known == clients_.end() ? fresh_client(r.worker) : known->second);
}

void ShardCore::bound_cut() {
  if (cut_->phase != CutPhase::kMarking) return;
  std::uint64_t bytes = 0;
  for (const auto& [id, table] : tables_) bytes += table.aside_bytes();
  if (bytes <= settings_.aside_bytes_max) return;
  cancel_cut(cut_->id, "copies of rows hold " + std::to_string(bytes) +
                           " bytes while marks are missing: a worker is far behind");
}

Status ShardCore::take_mark(const RequestHeader& r, TimePoint now) {
  const std::string name = "checkpoint " + std::to_string(r.checkpoint);
  if (r.worker == kNoWorker) return fail(Errc::kInvalidArgument, "only a worker's client marks");
  if (r.checkpoint > last_cut_)
    return fail(Errc::kUnavailable, name + " has not been called at this shard yet");
  if (cut_ == nullptr || cut_->id != r.checkpoint || cut_->phase == CutPhase::kCancelled)
    return fail(Errc::kFailedPrecondition,
                name + " is over here" +
                    (cut_ != nullptr && cut_->id == r.checkpoint ? ": " + cut_->why : ""));
  DLRUN_TRY(members_.may_admit(r.worker));
  if (const auto marked = cut_->marks.find(r.client); marked != cut_->marks.end()) {
    if (marked->second.sequence == r.sequence) return {};
    return fail(Errc::kFailedPrecondition, "this client has marked " + name + " at push " +
                                               std::to_string(marked->second.sequence));
  }
  const auto known = clients_.find(r.client);
  if (known != clients_.end() && known->second.window.highest() > r.sequence)
    return fail(Errc::kFailedPrecondition,
                "push " + std::to_string(known->second.window.highest()) +
                    " of this client came before its mark at " + std::to_string(r.sequence));
  // A client that has pushed nothing here may come late: none of its pushes is in.
  if (cut_->phase != CutPhase::kMarking && cut_->has_asp && known != clients_.end())
    return fail(Errc::kFailedPrecondition, name + " was cut before this client's mark");
  cut_->marks.emplace(r.client, ClientMark{r.client, r.worker, r.sequence});
  step_cut(now);
  return {};
}

/// Every client of a worker that has pushed here, and each worker by one client at least.
bool ShardCore::all_marked() const {
  for (const auto& [client, state] : clients_) {
    if (state.worker != kNoWorker && !cut_->marks.contains(client)) return false;
  }
  std::set<WorkerId> workers;
  for (const auto& [client, mark] : cut_->marks) {
    if (!members_.left(mark.worker)) workers.insert(mark.worker);
  }
  return workers.size() >= members_.active();
}

void ShardCore::step_cut(TimePoint now) {
  if (cut_ == nullptr || cut_->phase != CutPhase::kMarking) return;
  const bool marked = !cut_->has_asp || all_marked();
  bool settled = true;
  for (const std::uint32_t id : cut_->tables) {
    TableState& table = *table_of(id);
    const bool asp = table.schema().consistency == Consistency::kAsp;
    if (!table.settled() && (asp ? marked : lowest(table) >= table.fork_clock())) table.settle();
    settled = settled && table.settled();
  }
  if (settled) return settle_cut(now);
  if (cut_->deadline <= now)
    cancel_cut(cut_->id, marked ? "the workers did not come to its clocks in time"
                                : "not every worker marked it in time");
}

void ShardCore::settle_cut(TimePoint now) {
  Cut& c = *cut_;
  c.phase = CutPhase::kWriting;
  c.part.checkpoint = c.id;
  c.part.shard = settings_.shard;
  c.part.log_sequence = log_sequence_;
  c.part.now_s = whole_seconds(now);
  c.part.slots = serving();
  for (const std::uint32_t id : c.tables) {
    const TableState& table = *table_of(id);
    c.part.tables.push_back({.schema = table.schema(),
                             .clock = table.fork_clock(),
                             .rate = table.cut_rate(),
                             .hand = table.cut_hand()});
  }
  for (const auto& [client, now_state] : clients_) {
    const auto without = c.windows.find(client);
    const ClientState& state = without == c.windows.end() ? now_state : without->second;
    c.records.push_back({client, state.worker, kSlots, state.window});
    for (const auto& [slot, moved] : state.moved)
      c.records.push_back({client, state.worker, slot, moved.window});
  }
  c.windows.clear();
}

std::vector<SlotRun> ShardCore::serving() const {
  std::vector<SlotRun> runs;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slots_[slot] != SlotState::kServing) continue;
    if (!runs.empty() && runs.back().last + 1 == slot) {
      runs.back().last = slot;
    } else {
      runs.push_back({slot, slot});
    }
  }
  return runs;
}

void ShardCore::write_cut(std::size_t bytes, std::vector<Block>& blocks) {
  if (cut_ == nullptr || cut_->phase != CutPhase::kWriting) return;
  Cut& c = *cut_;
  const auto hand_over = [&](BlockBuilder& builder) {
    for (Block& block : builder.take()) blocks.push_back(std::move(block));
  };
  std::size_t before = c.rows.bytes();
  while (c.table_at < c.tables.size() && c.rows.bytes() - before < bytes) {
    TableState& table = *table_of(c.tables[c.table_at]);
    for (; c.slot_at < kSlots && c.rows.bytes() - before < bytes; ++c.slot_at) {
      if (slots_[c.slot_at] == SlotState::kServing)
        c.part.tables[c.table_at].rows += table.write_slot(c.slot_at, c.rows, c.sightings);
    }
    if (c.slot_at < kSlots) break;
    c.rows.close();
    c.sightings.close();
    table.drop_fork();
    ++c.table_at;
    c.slot_at = 0;
  }
  hand_over(c.rows);
  hand_over(c.sightings);
  if (c.table_at < c.tables.size()) return;
  BlockBuilder windows;
  windows.begin_windows();
  for (const WindowRecord& record : c.records) windows.window(record);
  windows.close();
  hand_over(windows);
  c.records.clear();
  c.phase = CutPhase::kWritten;
}

PartInfo ShardCore::part_info() const {
  DLRUN_ASSERT(cut_ != nullptr && cut_->phase == CutPhase::kWritten);
  PartInfo part = cut_->part;
  for (const auto& [client, mark] : cut_->marks) part.marks.push_back(mark);
  part.left.assign(gone_.begin(), gone_.end());
  return part;
}

// ---- a shard that begins with a checkpoint

Status ShardCore::begin_restore(const Manifest& manifest, bool with_windows, TimePoint now) {
  if (log_sequence_ != 0 || !tables_.empty() || restore_ != nullptr)
    return fail(Errc::kFailedPrecondition, "a shard that has done something cannot be restored");
  if (manifest.parts.empty()) return fail(Errc::kInvalidArgument, "a manifest without parts");
  const std::vector<TablePart>& tables = manifest.parts[0].tables;
  if (tables.size() > settings_.tables_max)
    return fail(Errc::kResourceExhausted,
                "a checkpoint of " + std::to_string(tables.size()) + " tables");
  for (const TablePart& t : tables) DLRUN_TRY(validate(t.schema));
  restore_.reset(new Restore{.with_windows = with_windows});
  for (const PartInfo& part : manifest.parts) {
    Restore::Part p{.shift_s = std::int64_t{whole_seconds(now)} - part.now_s,
                    .slots = std::vector<bool>(kSlots)};
    for (const SlotRun& run : part.slots) {
      for (std::uint32_t slot = run.first; slot <= run.last && slot < kSlots; ++slot)
        p.slots[slot] = true;
    }
    p.all_of_mine = true;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot)
      p.all_of_mine = p.all_of_mine && (slots_[slot] == SlotState::kForeign || p.slots[slot]);
    restore_->parts.push_back(std::move(p));
    // No version to come is one that a row has already.
    log_sequence_ = std::max(log_sequence_, part.log_sequence);
  }
  for (SlotState& slot : slots_) {
    if (slot == SlotState::kServing) slot = SlotState::kAwaited;
  }
  find_all_serving();
  // Where eviction goes on is known to a shard that has the slots that it had.
  const std::size_t me = settings_.shard.value;
  const bool same = me < manifest.parts.size() && restore_->parts[me].all_of_mine;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const TablePart& t = tables[i];
    TableState& table = tables_.try_emplace(t.schema.id, t.schema).first->second;
    table.set_rate(t.rate);
    table.clocks().start_at(t.clock);
    if (same && i < manifest.parts[me].tables.size())
      table.set_hand(manifest.parts[me].tables[i].hand);
  }
  return {};
}

bool ShardCore::wants_block(const BlockHeader& header) const noexcept {
  if (header.kind == BlockKind::kEnd) return false;
  if (header.kind == BlockKind::kWindows) return restore_ != nullptr && restore_->with_windows;
  for (std::uint32_t slot = header.slot_first; slot <= header.slot_last && slot < kSlots; ++slot) {
    if (slots_[slot] != SlotState::kForeign) return true;
  }
  return false;
}

Status ShardCore::restore_block(std::size_t part, const BlockHeader& header, std::string_view raw) {
  const auto bad = [&](std::string what) {
    return fail(Errc::kCorrupt, "block " + std::to_string(header.number) + ": " + std::move(what));
  };
  if (restore_ == nullptr || part >= restore_->parts.size())
    return fail(Errc::kFailedPrecondition, "nothing is being restored here");
  if (raw.size() != header.raw_bytes)
    return bad(std::to_string(raw.size()) + " bytes where " + std::to_string(header.raw_bytes) +
               " belong");
  if (header.kind == BlockKind::kEnd) return {};
  if (header.kind == BlockKind::kWindows) {
    for (std::uint32_t i = 0; restore_->with_windows && i < header.n; ++i) {
      const WindowRecord record = window_at(raw, i);
      if (record.slot > kSlots) return bad("a window of slot " + std::to_string(record.slot));
      if (!clients_.contains(record.client)) DLRUN_TRY(room_for(record.client));
      restore_window(part, record);
    }
    return {};
  }
  TableState* table = table_of(header.table);
  if (table == nullptr) return bad("table " + std::to_string(header.table) + " of no manifest");
  const auto foreign = [&](std::uint32_t slot) { return slots_[slot] == SlotState::kForeign; };
  const auto outside = [&](std::uint32_t slot) {
    return slot < header.slot_first || slot > header.slot_last || slot >= kSlots ||
           !restore_->parts[part].slots[slot];
  };
  if (header.kind == BlockKind::kSightings) {
    for (std::uint32_t i = 0; i < header.n; ++i) {
      const SightingRecord s = sighting_at(raw, i);
      if (outside(s.slot)) return bad("a sighting of slot " + std::to_string(s.slot));
      if (s.count == 0 || s.count >= kRowsMax - 1)
        return bad("a key that was sighted " + std::to_string(s.count) + " times");
      if (!foreign(s.slot)) table->restore_sighting(s);
    }
    return {};
  }
  const TableSchema& schema = table->schema();
  if (header.record_bytes != kRowHeadBytes + 4 * TableState::words(schema))
    return bad("rows of " + std::to_string(header.record_bytes) + " bytes in table '" +
               schema.name + "'");
  for (std::uint32_t i = 0; i < header.n; ++i) {
    const RowRecord row = row_at(header, raw, i);
    const std::uint32_t slot = slot_of(schema.id, row.key);
    if (outside(slot))
      return bad("key " + std::to_string(row.key) + " of slot " + std::to_string(slot));
    if (foreign(slot)) continue;
    if (schema.kind == KeyKind::kDense && row.key >= schema.rows)
      return bad("row " + std::to_string(row.key) + " of a dense table of " +
                 std::to_string(schema.rows));
    if (row.version > log_sequence_)
      return bad("key " + std::to_string(row.key) + " has a version from after the cut");
    if (table->rows().find(row.key))
      return bad("key " + std::to_string(row.key) + " a second time");
    table->restore_row(row, restore_->parts[part].shift_s);
  }
  return {};
}

void ShardCore::restore_window(std::size_t part, const WindowRecord& record) {
  const Restore::Part& p = restore_->parts[part];
  const auto known = clients_.find(record.client);
  ClientState& state =
      known == clients_.end() ? new_client(record.client, record.worker) : known->second;
  if (record.slot == kSlots && p.all_of_mine) {
    state.window = record.window;
    return;
  }
  const auto set = [&](std::uint32_t slot) {
    if (slots_[slot] == SlotState::kForeign || !p.slots[slot]) return;
    state.moved[slot].window = record.window;
    state.until_unknown = true;
  };
  if (record.slot < kSlots) return set(record.slot);
  // Those of its own come behind it in the part.
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) set(slot);
}

Status ShardCore::end_restore() {
  if (restore_ == nullptr) return fail(Errc::kFailedPrecondition, "nothing is being restored here");
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slots_[slot] != SlotState::kAwaited) continue;
    slots_[slot] = SlotState::kServing;
  }
  find_all_serving();
  restore_.reset();
  return {};
}

}  // namespace dlrun::ps
