// The part of TableState about the cut of a checkpoint: two tables in one while some pushes are
// before it and others after.
//
// The table itself goes on as ever. Of a key whose last word differs between the two, the other
// word (the table without the pushes that are after) stands aside, in a table of the same schema.
// A key is forked when
//   it has a row here, and the row's header has this fork's number; or
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
  Fork(const TableSchema& schema, std::uint32_t number_, std::uint64_t clock_)
      : number(number_), clock(clock_), aside(schema_aside(schema)) {}

  std::uint32_t number;
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
  if (++forks_ == 0) ++forks_;  // 0: of no fork
  fork_.reset(new Fork(schema_, forks_, clock));
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
  constexpr std::uint64_t kIndexBytes = 16;
  return fork_->aside.rows_.rows() * (rows_.row_bytes() + kIndexBytes);
}

void TableState::set_rate(float rate, Side side) noexcept {
  stepper_.set_rate(rate);
  if (fork_ != nullptr && !fork_->settled && side == Side::kBefore) fork_->aside.set_rate(rate);
}

bool TableState::absence_is_forked(std::uint64_t key, std::uint64_t hash) const {
  if (fork_->aside.rows_.rows() == 0) return fork_->sightings.test(slot_of_hash(hash));
  return fork_->sightings.test(slot_of_hash(hash)) || fork_->aside.rows_.find(key, hash) != kNoRow;
}

std::uint32_t TableState::fork_of_birth(std::uint64_t key, std::uint64_t hash) const {
  return fork_->side == Side::kAfter || absence_is_forked(key, hash) ? fork_->number : 0;
}

void TableState::copy_aside(RowId row, std::uint64_t hash) {
  RowStore& aside = fork_->aside.rows_;
  RowHeader& from = rows_.header(row);
  from.fork = fork_->number;
  const RowId copy = aside.add(from.key, hash);
  RowHeader& to = aside.header(copy);
  to.version = from.version;
  to.last_use_s = from.last_use_s;
  to.frequency = from.frequency;
  std::memcpy(aside.data(copy), rows_.data(row), rows_.words() * sizeof(float));
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

void TableState::fork_key(std::uint64_t key, std::uint64_t hash, RowId row, const float* grad) {
  Fork& f = *fork_;
  const std::uint32_t slot = slot_of_hash(hash);
  if (f.written.test(slot)) return;
  if (f.side == Side::kAfter) {
    if (row == kNoRow) {
      if (counts_sightings()) copy_sightings_aside(slot);
    } else if (rows_.header(row).fork != f.number) {
      copy_aside(row, hash);
    }
    return;
  }
  const bool forked =
      row == kNoRow ? absence_is_forked(key, hash) : rows_.header(row).fork == f.number;
  if (!forked) return;
  f.keys.push_back(key);
  f.grads.insert(f.grads.end(), grad, grad + schema_.dim);
}

void TableState::fork_end(std::uint64_t version, std::uint32_t now_s) {
  Fork& f = *fork_;
  if (!f.keys.empty()) f.aside.apply(f.keys, f.grads.data(), version, now_s);
}

void TableState::fork_eviction(RowId row) {
  const RowHeader& header = rows_.header(row);
  const std::uint64_t hash = rows_.hash(header.key);
  if (fork_->side == Side::kBefore || header.fork == fork_->number ||
      fork_->written.test(slot_of_hash(hash)))
    return;
  copy_aside(row, hash);
}

std::uint64_t TableState::write_slot(std::uint32_t slot, BlockBuilder& rows,
                                     BlockBuilder& sightings) {
  Fork& f = *fork_;
  DLRUN_ASSERT(f.settled && !f.written.test(slot));
  struct Place {
    std::uint64_t key;
    const RowStore* store;
    RowId row;
  };
  std::vector<Place> places;
  places.reserve(rows_.rows_of_slot(slot) + f.aside.rows_.rows_of_slot(slot));
  std::vector<RowId> ids;
  ids.reserve(rows_.rows_of_slot(slot));
  rows_.index().for_each(slot, [&](RowId row) {
    ids.push_back(row);
    rows_.prefetch(row);
  });
  for (const RowId row : ids) {
    const RowHeader& header = rows_.header(row);
    if (header.fork != f.number) places.push_back({header.key, &rows_, row});
  }
  f.aside.rows_.index().for_each(slot, [&](RowId row) {
    places.push_back({f.aside.rows_.header(row).key, &f.aside.rows_, row});
  });
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.key < b.key; });
  rows.begin_rows(schema_.id, rows_.words());
  for (const Place& place : places) {
    const RowHeader& header = place.store->header(place.row);
    rows.row(slot, {header.key, header.version, header.last_use_s, header.frequency,
                    reinterpret_cast<const char*>(place.store->data(place.row))});
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
  const RowId row = rows_.add(record.key);
  RowHeader& header = rows_.header(row);
  header.version = record.version;
  header.last_use_s = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(std::int64_t{record.last_use_s} + shift_s, 0, 0xffffffff));
  header.frequency = record.frequency;
  std::memcpy(rows_.data(row), record.data, rows_.words() * sizeof(float));
}

void TableState::restore_sighting(const SightingRecord& s) {
  rows_.index().add_sightings(s.slot, s.fingerprint, s.count);
}

}  // namespace dlrun::ps
