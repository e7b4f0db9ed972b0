#include "ps/core/slot_index.h"

#include <algorithm>
#include <bit>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {
constexpr std::uint32_t kEntriesFirst = 8;
constexpr std::uint32_t kEntriesMax = 1u << 27;
/// What a slot without rows points at; never written.
constexpr SlotIndex::Entry kEmptyTable[1] = {{0, kNoRow}};
SlotIndex::Entry* empty_table() noexcept { return const_cast<SlotIndex::Entry*>(kEmptyTable); }
}  // namespace

SlotIndex::SlotIndex() : slots_(kSlots, Slot{empty_table(), 0, 32, 0, 0}) {}

void SlotIndex::place(Slot& slot, Entry entry) noexcept {
  std::uint32_t i = home(slot, entry.fingerprint);
  while (slot.entries[i].row != kNoRow) i = (i + 1) & slot.mask;
  slot.entries[i] = entry;
}

void SlotIndex::rebuild(Slot& slot, std::uint32_t entries, bool age) {
  DLRUN_ASSERT(entries <= kEntriesMax);
  const Slot old = slot;
  const auto log2_entries = static_cast<std::uint32_t>(std::bit_width(entries) - 1);
  slot.entries = static_cast<Entry*>(pool_.take(log2_entries + 3));
  slot.mask = entries - 1;
  slot.shift = 32 - log2_entries;
  for (std::uint32_t i = 0; i < entries; ++i) slot.entries[i] = {0, kNoRow};
  slot.sightings = 0;
  for (std::uint32_t i = 0; i <= old.mask; ++i) {
    Entry e = old.entries[i];
    if (e.row == kNoRow) continue;
    if (e.row > kRowsMax) {
      if (age) e.row = kSighting | (e.row & kRowsMax) / 2;
      if (e.row == kSighting) continue;
      ++slot.sightings;
    }
    place(slot, e);
  }
  if (old.entries != empty_table())
    pool_.give_back(old.entries, static_cast<std::uint32_t>(std::bit_width(old.mask)) + 3);
}

void SlotIndex::make_room(Slot& slot) {
  const std::uint64_t used = std::uint64_t{slot.rows} + slot.sightings + 1;
  const std::uint64_t entries = slot.entries == empty_table() ? 0 : std::uint64_t{slot.mask} + 1;
  if (used * 4 > entries * 3)
    rebuild(slot, entries == 0 ? kEntriesFirst : static_cast<std::uint32_t>(entries * 2), false);
}

void SlotIndex::add(std::uint64_t hash, RowId row) {
  Slot& slot = slots_[slot_of_hash(hash)];
  const std::uint32_t fingerprint = fingerprint_of_hash(hash);
  if (slot.sightings > 0) {
    for (std::uint32_t i = home(slot, fingerprint); slot.entries[i].row != kNoRow;
         i = (i + 1) & slot.mask) {
      if (slot.entries[i].fingerprint != fingerprint || slot.entries[i].row <= kRowsMax) continue;
      slot.entries[i].row = row;
      --slot.sightings;
      ++slot.rows;
      return;
    }
  }
  make_room(slot);
  place(slot, {fingerprint, row});
  ++slot.rows;
}

void SlotIndex::remove_at(Slot& slot, std::uint32_t hole) noexcept {
  for (std::uint32_t i = (hole + 1) & slot.mask; slot.entries[i].row != kNoRow;
       i = (i + 1) & slot.mask) {
    // An entry may move back into the hole when its home is not between the hole and itself.
    if (((i - home(slot, slot.entries[i].fingerprint)) & slot.mask) >= ((i - hole) & slot.mask)) {
      slot.entries[hole] = slot.entries[i];
      hole = i;
    }
  }
  slot.entries[hole] = {0, kNoRow};
}

void SlotIndex::remove(std::uint64_t hash, RowId row) noexcept {
  Slot& slot = slots_[slot_of_hash(hash)];
  std::uint32_t i = home(slot, fingerprint_of_hash(hash));
  while (slot.entries[i].row != row) {
    DLRUN_ASSERT(slot.entries[i].row != kNoRow);
    i = (i + 1) & slot.mask;
  }
  remove_at(slot, i);
  --slot.rows;
}

std::uint32_t SlotIndex::sight(std::uint64_t hash) {
  Slot& slot = slots_[slot_of_hash(hash)];
  const std::uint32_t fingerprint = fingerprint_of_hash(hash);
  for (std::uint32_t i = home(slot, fingerprint); slot.entries[i].row != kNoRow;
       i = (i + 1) & slot.mask) {
    Entry& e = slot.entries[i];
    if (e.fingerprint != fingerprint || e.row <= kRowsMax) continue;
    if ((e.row & kRowsMax) < kRowsMax - 1) ++e.row;
    return e.row & kRowsMax;
  }
  add_sightings(slot_of_hash(hash), fingerprint, 1);
  return 1;
}

void SlotIndex::add_sightings(std::uint32_t number, std::uint32_t fingerprint,
                              std::uint32_t count) {
  Slot& slot = slots_[number];
  if (slot.sightings >= kSightingsMax) rebuild(slot, slot.mask + 1, true);
  make_room(slot);
  place(slot, {fingerprint, kSighting | count});
  ++slot.sightings;
}

void SlotIndex::clear(std::uint32_t number) noexcept {
  Slot& slot = slots_[number];
  if (slot.entries != empty_table())
    pool_.give_back(slot.entries, static_cast<std::uint32_t>(std::bit_width(slot.mask)) + 3);
  slot = {empty_table(), 0, 32, 0, 0};
}

/// found_: at least `n` rows with fingerprints from `first` on, or all of the slot, by fingerprint.
void SlotIndex::find_from(const Slot& slot, std::uint32_t first, std::size_t n) {
  found_.clear();
  if (slot.rows == 0) return;
  const std::uint64_t entries = std::uint64_t{slot.mask} + 1;
  // What has its home before an empty place stands before it too: there, nothing smaller is left.
  for (std::uint64_t i = home(slot, first);; ++i) {
    const Entry e = slot.entries[i & slot.mask];
    if (e.row == kNoRow) {
      if (found_.size() >= n || i >= entries) break;
      continue;
    }
    const bool went_round = home(slot, e.fingerprint) > (i & slot.mask);  // past the table's end
    if (e.row <= kRowsMax && e.fingerprint >= first && went_round == (i >= entries))
      found_.push_back(e);
  }
  std::sort(found_.begin(), found_.end(),
            [](Entry a, Entry b) { return a.fingerprint < b.fingerprint; });
}

void SlotIndex::hand_on(std::uint64_t end, std::uint32_t n, std::vector<RowId>& rows) {
  while (hand_ < end) {
    const std::uint64_t slot_begin = hand_ >> 32 << 32;
    find_from(slots_[hand_ >> 32], static_cast<std::uint32_t>(hand_), n - rows.size());
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const std::uint64_t at = slot_begin + found_[i].fingerprint;
      if (at >= end) break;
      if (rows.size() >= n && found_[i].fingerprint != found_[i - 1].fingerprint) return;
      rows.push_back(found_[i].row);
      hand_ = at + 1;
    }
    if (rows.size() >= n) return;
    hand_ = std::min(end, slot_begin + (std::uint64_t{1} << 32));
  }
}

void SlotIndex::next_rows(std::uint32_t n, std::vector<RowId>& rows) {
  rows.clear();
  const std::uint64_t begin = hand_;
  hand_on(kHandEnd, n, rows);
  if (hand_ == kHandEnd) hand_ = 0;
  if (rows.size() < n) hand_on(begin, n, rows);
}

}  // namespace dlrun::ps
