#include "ps/core/slot_index.h"

#include <algorithm>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {
constexpr std::uint32_t kLog2LinesFirst = 1;
constexpr std::uint32_t kLog2LinesMax = 24;
constexpr std::uint32_t kLog2Line = 6;
/// What a slot without rows points at; never written.
constexpr SlotIndex::Line kEmptyTable[1] = {{{}, {kNoRow, kNoRow, kNoRow, kNoRow}, {}}};
SlotIndex::Line* empty_table() noexcept { return const_cast<SlotIndex::Line*>(kEmptyTable); }

constexpr std::uint64_t hash_of(std::uint32_t slot, std::uint32_t fingerprint) noexcept {
  return std::uint64_t{slot} << 52 | std::uint64_t{fingerprint} << 20;
}
}  // namespace

SlotIndex::SlotIndex() : slots_(kSlots, Slot(empty_table(), 0)), counts_(kSlots) {
  static_assert(sizeof(Line) == std::size_t{1} << kLog2Line);
}

SlotIndex::Place SlotIndex::place(const Slot& slot, std::uint64_t hash, RowId row,
                                  std::uint32_t stamp) noexcept {
  std::uint32_t i = home(slot, hash);
  while (empty(slot.lines()[i]) == 0) i = (i + 1) & slot.mask();
  Line& line = slot.lines()[i];
  const auto at = static_cast<std::uint32_t>(std::countr_zero(empty(line)));
  line.hash[at] = hash;
  line.row[at] = row;
  line.stamp[at] = stamp;
  return {&line, at};
}

void SlotIndex::rebuild(std::uint32_t number, std::uint32_t log2_lines, bool age) {
  DLRUN_ASSERT(log2_lines <= kLog2LinesMax);
  ++moves_;
  const Slot old = slots_[number];
  const Slot slot(static_cast<Line*>(pool_.take(log2_lines + kLog2Line)), log2_lines);
  std::fill_n(slot.lines(), slot.mask() + 1, kEmptyTable[0]);
  std::uint32_t sightings = 0;
  for (std::uint32_t i = 0; i <= old.mask(); ++i) {
    const Line& line = old.lines()[i];
    for (std::uint32_t k = 0; k < kLineEntries; ++k) {
      RowId row = line.row[k];
      if (row == kNoRow) continue;
      if (row > kRowsMax) {
        if (age) row = kSighting | (row & kRowsMax) / 2;
        if (row == kSighting) continue;
        ++sightings;
      }
      place(slot, line.hash[k], row, line.stamp[k]);
    }
  }
  if (old.lines() != empty_table()) pool_.give_back(old.lines(), old.log2_lines() + kLog2Line);
  slots_[number] = slot;
  counts_[number].sightings = sightings;
}

void SlotIndex::make_room(std::uint32_t number) {
  const Slot slot = slots_[number];
  const std::uint64_t used = std::uint64_t{counts_[number].rows} + counts_[number].sightings + 1;
  if (slot.lines() == empty_table()) {
    rebuild(number, kLog2LinesFirst, false);
  } else if (used * 4 > (std::uint64_t{slot.mask()} + 1) * kLineEntries * 3) {
    rebuild(number, slot.log2_lines() + 1, false);
  }
}

SlotIndex::Place SlotIndex::sighting(const Slot& slot, std::uint64_t hash) noexcept {
  for (std::uint32_t i = home(slot, hash);; i = (i + 1) & slot.mask()) {
    Line& line = slot.lines()[i];
    for (std::uint32_t k = 0; k < kLineEntries; ++k) {
      if (line.row[k] != kNoRow && line.row[k] > kRowsMax &&
          fingerprint_of_hash(line.hash[k]) == fingerprint_of_hash(hash))
        return {&line, k};
    }
    if (empty(line) != 0) return {};
  }
}

SlotIndex::Place SlotIndex::add(std::uint64_t hash, RowId row, std::uint32_t stamp) {
  const std::uint32_t number = slot_of_hash(hash);
  Counts& counts = counts_[number];
  if (counts.sightings > 0) {
    if (const Place seen = sighting(slots_[number], hash)) {
      seen.line_->hash[seen.at_] = hash;
      seen.line_->row[seen.at_] = row;
      seen.line_->stamp[seen.at_] = stamp;
      --counts.sightings;
      ++counts.rows;
      return seen;
    }
  }
  make_room(number);
  ++counts.rows;
  return place(slots_[number], hash, row, stamp);
}

/// The first entry that stands beyond line `hole` because that was full.
SlotIndex::Place SlotIndex::to_bring_back(const Slot& slot, std::uint32_t hole) noexcept {
  for (std::uint32_t i = (hole + 1) & slot.mask(); i != hole; i = (i + 1) & slot.mask()) {
    Line& line = slot.lines()[i];
    for (std::uint32_t k = 0; k < kLineEntries; ++k) {
      if (line.row[k] != kNoRow &&
          ((i - home(slot, line.hash[k])) & slot.mask()) >= ((i - hole) & slot.mask()))
        return {&line, k};
    }
    if (empty(line) != 0) break;
  }
  return {};
}

void SlotIndex::remove(Place hole) noexcept {
  ++moves_;
  const Slot slot = slots_[slot_of_hash(hole.hash())];
  --counts_[slot_of_hash(hole.hash())].rows;
  for (;;) {
    const bool was_full = empty(*hole.line_) == 0;
    hole.line_->row[hole.at_] = kNoRow;
    if (!was_full) return;
    const Place next = to_bring_back(slot, static_cast<std::uint32_t>(hole.line_ - slot.lines()));
    if (!next) return;
    hole.line_->hash[hole.at_] = next.hash();
    hole.line_->row[hole.at_] = next.row();
    hole.line_->stamp[hole.at_] = next.stamp();
    hole = next;
  }
}

std::uint32_t SlotIndex::sight(std::uint64_t hash) {
  if (const Place seen = sighting(slots_[slot_of_hash(hash)], hash)) {
    RowId& row = seen.line_->row[seen.at_];
    if ((row & kRowsMax) < kRowsMax - 1) ++row;
    return row & kRowsMax;
  }
  add_sightings(slot_of_hash(hash), fingerprint_of_hash(hash), 1);
  return 1;
}

void SlotIndex::add_sightings(std::uint32_t number, std::uint32_t fingerprint,
                              std::uint32_t count) {
  if (counts_[number].sightings >= kSightingsMax)
    rebuild(number, slots_[number].log2_lines(), true);
  make_room(number);
  place(slots_[number], hash_of(number, fingerprint), kSighting | count, 0);
  ++counts_[number].sightings;
}

void SlotIndex::clear(std::uint32_t number) noexcept {
  ++moves_;
  const Slot slot = slots_[number];
  if (slot.lines() != empty_table()) pool_.give_back(slot.lines(), slot.log2_lines() + kLog2Line);
  slots_[number] = Slot(empty_table(), 0);
  counts_[number] = {};
}

/// found_: at least `n` rows with fingerprints from `first` on, or all of the slot, by fingerprint.
void SlotIndex::find_from(std::uint32_t number, std::uint32_t first, std::size_t n) {
  found_.clear();
  if (counts_[number].rows == 0) return;
  const Slot slot = slots_[number];
  const std::uint64_t lines = std::uint64_t{slot.mask()} + 1;
  // What has its home no later than a line with room stands no later: there, nothing smaller is
  // left.
  for (std::uint64_t i = home(slot, hash_of(0, first));; ++i) {
    Line& line = slot.lines()[i & slot.mask()];
    for (std::uint32_t k = 0; k < kLineEntries; ++k) {
      if (line.row[k] > kRowsMax) continue;
      const bool went_round = home(slot, line.hash[k]) > (i & slot.mask());  // past the table's end
      if (fingerprint_of_hash(line.hash[k]) >= first && went_round == (i >= lines))
        found_.emplace_back(&line, k);
    }
    if (empty(line) != 0 && (found_.size() >= n || i >= lines)) break;
  }
  std::sort(found_.begin(), found_.end(), [](const Place& a, const Place& b) {
    return fingerprint_of_hash(a.hash()) < fingerprint_of_hash(b.hash());
  });
}

void SlotIndex::hand_on(std::uint64_t end, std::uint32_t n, std::vector<Place>& rows) {
  const auto fingerprint = [&](std::size_t i) { return fingerprint_of_hash(found_[i].hash()); };
  while (hand_ < end) {
    const std::uint64_t slot_begin = hand_ >> 32 << 32;
    find_from(static_cast<std::uint32_t>(hand_ >> 32), static_cast<std::uint32_t>(hand_),
              n - rows.size());
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const std::uint64_t at = slot_begin + fingerprint(i);
      if (at >= end) break;
      if (rows.size() >= n && fingerprint(i) != fingerprint(i - 1)) return;
      rows.push_back(found_[i]);
      hand_ = at + 1;
    }
    if (rows.size() >= n) return;
    hand_ = std::min(end, slot_begin + (std::uint64_t{1} << 32));
  }
}

void SlotIndex::next_rows(std::uint32_t n, std::vector<Place>& rows) {
  rows.clear();
  const std::uint64_t begin = hand_;
  hand_on(kHandEnd, n, rows);
  if (hand_ == kHandEnd) hand_ = 0;
  if (rows.size() < n) hand_on(begin, n, rows);
}

}  // namespace dlrun::ps
