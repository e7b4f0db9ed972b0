#pragma once
/// ps/core/slot_index.h: the index of one table on one shard: for each of the 4096 slots an open
/// addressing table fingerprint -> row. The fingerprint is 32 bits of the key's hash
/// (ps/core/msg.h); whether a row found by it has the key is for the caller to check, in the row.
/// Entry: 8 bytes, eight to a cache line; home = top bits of the fingerprint; linear probing, at
/// most 3/4 full, removal shifts back, no tombstones. A slot doubles by itself and looks at no row:
/// the longest pause is O(rows of a slot).
///
/// An entry may also count sightings of a key that has no row yet (admission): kSighting | count.
/// Two keys of one slot with the same fingerprint share their count.
/// Bounds: rows < 2^31; sightings of a slot <= kSightingsMax, then all counts are halved and those
/// that were 1 go. Memory of outgrown tables serves the next ones; none goes back to the system.
/// Complexity: O(1) expected.
/// Threads: single owner.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ps/core/msg.h"
#include "ps/core/pages.h"

namespace dlrun::ps {

using RowId = std::uint32_t;
inline constexpr RowId kNoRow = ~RowId{0};
inline constexpr RowId kRowsMax = 0x7fffffff;

class SlotIndex {
 public:
  static constexpr std::uint32_t kSightingsMax = 4096;

  struct Entry {
    std::uint32_t fingerprint;
    RowId row;  ///< kNoRow: empty
  };

  SlotIndex();

  void prefetch(std::uint64_t hash) const noexcept {
    const Slot& slot = slots_[slot_of_hash(hash)];
    __builtin_prefetch(slot.entries + home(slot, fingerprint_of_hash(hash)));
  }
  /// The first row with this fingerprint; kNoRow when none has it.
  RowId candidate(std::uint64_t hash) const noexcept {
    const Slot& slot = slots_[slot_of_hash(hash)];
    const std::uint32_t fingerprint = fingerprint_of_hash(hash);
    for (std::uint32_t i = home(slot, fingerprint);; i = (i + 1) & slot.mask) {
      const Entry e = slot.entries[i];
      if (e.row == kNoRow || (e.fingerprint == fingerprint && e.row <= kRowsMax)) return e.row;
    }
  }
  /// The row with this fingerprint for which `is_it(row)`.
  template <class IsIt>
  RowId find(std::uint64_t hash, IsIt is_it) const {
    const Slot& slot = slots_[slot_of_hash(hash)];
    const std::uint32_t fingerprint = fingerprint_of_hash(hash);
    for (std::uint32_t i = home(slot, fingerprint);; i = (i + 1) & slot.mask) {
      const Entry e = slot.entries[i];
      if (e.row == kNoRow || (e.fingerprint == fingerprint && e.row <= kRowsMax && is_it(e.row)))
        return e.row;
    }
  }
  /// The caller has made sure that the key has no row. Takes the place of its sightings.
  void add(std::uint64_t hash, RowId row);
  /// `row` must be there.
  void remove(std::uint64_t hash, RowId row) noexcept;
  /// Counts one more sighting of a key without a row; returns the count, this one included.
  std::uint32_t sight(std::uint64_t hash);

  /// Of rows, in the order of the slot's table.
  template <class F>
  void for_each(std::uint32_t slot, F f) const {
    const Slot& s = slots_[slot];
    for (std::uint32_t i = 0; s.rows > 0 && i <= s.mask; ++i) {
      if (s.entries[i].row <= kRowsMax) f(s.entries[i].row);
    }
  }
  /// f(fingerprint, count)
  template <class F>
  void for_each_sighting(std::uint32_t slot, F f) const {
    const Slot& s = slots_[slot];
    for (std::uint32_t i = 0; s.sightings > 0 && i <= s.mask; ++i) {
      const Entry e = s.entries[i];
      if (e.row != kNoRow && e.row > kRowsMax) f(e.fingerprint, e.row & kRowsMax);
    }
  }
  void add_sightings(std::uint32_t slot, std::uint32_t fingerprint, std::uint32_t count);
  /// Forgets rows and sightings of the slot.
  void clear(std::uint32_t slot) noexcept;

  /// A hand that goes round all rows in the order (slot, fingerprint), which is the same however
  /// they came to be here: the next `n` (> 0) from where it stands; more when the last of them
  /// shares its fingerprint, fewer when it has come round to where it began.
  void next_rows(std::uint32_t n, std::vector<RowId>& rows);
  /// slot << 32 | fingerprint: the rows from there on are next.
  std::uint64_t hand() const noexcept { return hand_; }
  void set_hand(std::uint64_t hand) noexcept { hand_ = hand % kHandEnd; }

  std::uint32_t rows_of_slot(std::uint32_t slot) const noexcept { return slots_[slot].rows; }
  std::uint64_t bytes() const noexcept { return slots_.size() * sizeof(Slot) + pool_.bytes(); }

 private:
  static constexpr RowId kSighting = 0x80000000;
  struct Slot {
    Entry* entries;
    std::uint32_t mask;
    std::uint32_t shift;  ///< 32 - log2 of the number of entries
    std::uint32_t rows;
    std::uint32_t sightings;
  };
  static std::uint32_t home(const Slot& slot, std::uint32_t fingerprint) noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{fingerprint} >> slot.shift);
  }

  void make_room(Slot& slot);
  void rebuild(Slot& slot, std::uint32_t entries, bool age);
  void place(Slot& slot, Entry entry) noexcept;
  void remove_at(Slot& slot, std::uint32_t hole) noexcept;
  void hand_on(std::uint64_t end, std::uint32_t n, std::vector<RowId>& rows);
  void find_from(const Slot& slot, std::uint32_t first, std::size_t n);

  std::vector<Slot> slots_;
  PowerPool pool_;
  static constexpr std::uint64_t kHandEnd = std::uint64_t{kSlots} << 32;
  std::uint64_t hand_ = 0;
  std::vector<Entry> found_;  ///< find_from()
};

}  // namespace dlrun::ps
