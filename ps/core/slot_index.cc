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

void SlotIndex::next_rows(std::uint32_t n, std::vector<RowId>& rows) {
  rows.clear();
  const std::uint32_t first_slot = hand_slot_;
  const std::uint32_t first_entry = hand_entry_;
  bool round = false;
  while (rows.size() < n) {
    const Slot& slot = slots_[hand_slot_];
    const std::uint32_t end = round ? std::min(first_entry, slot.mask + 1) : slot.mask + 1;
    if (slot.rows > 0) {
      for (; hand_entry_ < end && rows.size() < n; ++hand_entry_) {
        if (slot.entries[hand_entry_].row <= kRowsMax)
          rows.push_back(slot.entries[hand_entry_].row);
      }
      if (rows.size() == n) return;
    }
    if (round) return;
    hand_entry_ = 0;
    hand_slot_ = (hand_slot_ + 1) % kSlots;
    round = hand_slot_ == first_slot;
  }
}

}  // namespace dlrun::ps
