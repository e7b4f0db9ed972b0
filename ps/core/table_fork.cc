// The part of TableState about the cut of a checkpoint: two tables in one while some pushes are
// before it and others after.
//
// The table itself goes on as ever. Of a key whose last word differs between the two, the other
// word (the table without the pushes that are after) stands aside, in a table of the same schema.
// A key is forked when
//   it has a row here, and the row's number is among the forked ones; or
//   it has none here, and has one aside, or the sightings of its slot are aside.
// A push that is after forks its keys first. One that is before goes to the table, and for those of
// its keys that are forked also aside. A row that is born of a forked key is forked.
#include <algorithm>
#include <bitset>
#include <cstring>

#include "ps/core/table.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

/// The same steps and births; nothing is evicted but what has expired.
TableSchema schema_aside(TableSchema schema) {
  schema.eviction = Eviction::kNone;
  return schema;
}

}  // namespace

struct TableState::Fork {
  Fork(const TableSchema& schema, std::uint64_t clock_)
      : clock(clock_), aside(schema_aside(schema)) {}

  bool has(RowId row) const noexcept { return row < rows.size() && rows[row]; }
  void set(RowId row, bool forked) {
    if (forked && row >= rows.size()) rows.resize(std::max<std::size_t>(row + 1, 2 * rows.size()));
    if (row < rows.size()) rows[row] = forked;
  }

  std::vector<bool> rows;  ///< of the table, by number: copied aside, or born of a forked key
  std::uint64_t clock;
  bool settled = false;
  Side side = Side::kBefore;  ///< of the push that is being applied
  TableState aside;
  std::uint64_t hand = 0;
  std::bitset<kSlots> written;
  std::bitset<kSlots> sightings;  ///< slots whose sightings are aside
  std::vector<std::uint64_t> keys;
  std::vector<float> grads;
};

void TableState::DeleteFork::operator()(Fork* fork) const noexcept { delete fork; }

void TableState::fork(std::uint64_t clock) {
  DLRUN_ASSERT(fork_ == nullptr);
  fork_.reset(new Fork(schema_, clock));
  fork_->aside.set_rate(rate());
}

std::uint64_t TableState::fork_clock() const noexcept { return fork_->clock; }
bool TableState::settled() const noexcept { return fork_ != nullptr && fork_->settled; }

void TableState::settle() {
  if (fork_->settled) return;
  fork_->settled = true;
  fork_->hand = rows_.index().hand();
  // Its rates change as clocks close, and all that have closed are before.
  if (schema_.consistency == Consistency::kBsp) fork_->aside.set_rate(rate());
}

float TableState::cut_rate() const noexcept { return fork_->aside.rate(); }
std::uint64_t TableState::cut_hand() const noexcept { return fork_->hand; }
void TableState::drop_fork() noexcept { fork_.reset(); }

std::uint64_t TableState::aside_bytes() const noexcept {
  if (fork_ == nullptr) return 0;
  constexpr std::uint64_t kIndexBytes = 32;
  return fork_->aside.rows_.rows() * (rows_.row_bytes() + kIndexBytes);
}

void TableState::set_rate(float rate, Side side) noexcept {
  stepper_.set_rate(rate);
  if (fork_ != nullptr && !fork_->settled && side == Side::kBefore) fork_->aside.set_rate(rate);
}

bool TableState::absence_is_forked(std::uint64_t hash) const {
  if (fork_->sightings.test(slot_of_hash(hash))) return true;
  return fork_->aside.rows_.rows() != 0 && fork_->aside.rows_.index().find(hash);
}

void TableState::fork_birth(std::uint64_t hash, RowId row) {
  fork_->set(row, fork_->side == Side::kAfter || absence_is_forked(hash));
}

void TableState::fork_gone(RowId row) { fork_->set(row, false); }

void TableState::copy_aside(Place from) {
  RowStore& aside = fork_->aside.rows_;
  fork_->set(from.row(), true);
  const Place copy = aside.add_hash(from.hash());
  aside.set_stamp(copy, aside.stamps().take(rows_.version(from), rows_.last_use_s(from)));
  aside.set_frequency(copy.row(), rows_.frequency(from.row()));
  std::memcpy(aside.data(copy.row()), rows_.data(from.row()), rows_.words() * sizeof(float));
}

void TableState::copy_sightings_aside(std::uint32_t slot) {
  if (fork_->sightings.test(slot)) return;
  fork_->sightings.set(slot);
  rows_.index().for_each_sighting(slot, [&](std::uint32_t fingerprint, std::uint32_t count) {
    fork_->aside.rows_.index().add_sightings(slot, fingerprint, count);
  });
}

void TableState::fork_begin(Side side) {
  fork_->side = fork_->settled ? Side::kAfter : side;
  fork_->keys.clear();
  fork_->grads.clear();
}

void TableState::fork_key(std::uint64_t hash, Place row, const float* grad) {
  Fork& f = *fork_;
  const std::uint32_t slot = slot_of_hash(hash);
  if (f.written.test(slot)) return;
  if (f.side == Side::kAfter) {
    if (!row) {
      if (counts_sightings()) copy_sightings_aside(slot);
    } else if (!f.has(row.row())) {
      copy_aside(row);
    }
    return;
  }
  if (!(row ? f.has(row.row()) : absence_is_forked(hash))) return;
  f.keys.push_back(key_of_hash(schema_.id, hash));
  f.grads.insert(f.grads.end(), grad, grad + schema_.dim);
}

void TableState::fork_end(std::uint64_t version, std::uint32_t now_s) {
  Fork& f = *fork_;
  if (!f.keys.empty()) f.aside.apply(f.keys, f.grads.data(), version, now_s);
}

void TableState::fork_eviction(Place row) {
  if (fork_->side == Side::kBefore || fork_->has(row.row()) ||
      fork_->written.test(slot_of_hash(row.hash())))
    return;
  copy_aside(row);
}

std::uint64_t TableState::write_slot(std::uint32_t slot, BlockBuilder& rows,
                                     BlockBuilder& sightings) {
  Fork& f = *fork_;
  DLRUN_ASSERT(f.settled && !f.written.test(slot));
  struct Source {
    std::uint64_t key;
    const RowStore* store;
    Place row;
  };
  std::vector<Source> places;
  places.reserve(rows_.rows_of_slot(slot) + f.aside.rows_.rows_of_slot(slot));
  for (const RowStore* store : {&rows_, &f.aside.rows_}) {
    store->index().for_each(slot, [&](Place row) {
      if (store == &rows_ && f.has(row.row())) return;
      places.push_back({store->key(row), store, row});
      store->prefetch(row.row());
    });
  }
  std::sort(places.begin(), places.end(),
            [](const Source& a, const Source& b) { return a.key < b.key; });
  rows.begin_rows(schema_.id, rows_.words());
  for (const auto& [key, store, row] : places) {
    rows.row(slot, {key, store->version(row), store->last_use_s(row), store->frequency(row.row()),
                    reinterpret_cast<const char*>(store->data(row.row()))});
  }
  if (counts_sightings()) {
    std::vector<SightingRecord> seen;
    const RowStore& source = f.sightings.test(slot) ? f.aside.rows_ : rows_;
    source.index().for_each_sighting(slot, [&](std::uint32_t fingerprint, std::uint32_t count) {
      seen.push_back({slot, fingerprint, count});
    });
    std::sort(seen.begin(), seen.end(), [](const SightingRecord& a, const SightingRecord& b) {
      return a.fingerprint < b.fingerprint;
    });
    sightings.begin_sightings(schema_.id);
    for (const SightingRecord& s : seen) sightings.sighting(s);
  }
  f.written.set(slot);
  f.aside.rows_.erase_slot(slot);
  return places.size();
}

void TableState::restore_row(const RowRecord& record, std::int64_t shift_s) {
  const Place row = rows_.add(record.key);
  const auto last_use_s = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(std::int64_t{record.last_use_s} + shift_s, 0, 0xffffffff));
  rows_.set_stamp(row, rows_.stamps().take(record.version, last_use_s));
  rows_.set_frequency(row.row(), record.frequency);
  std::memcpy(rows_.data(row.row()), record.data, rows_.words() * sizeof(float));
}

void TableState::restore_sighting(const SightingRecord& s) {
  rows_.index().add_sightings(s.slot, s.fingerprint, s.count);
}

}  // namespace dlrun::ps
