#pragma once
/// ps/core/slot_index.h: the index of one table on one shard: for each of the 4096 slots an open
/// addressing table hash -> row. The hash (ps/core/msg.h) is a bijection of the key, so whoever has
/// found it has found the key, without a look at the row.
/// A table is made of cache lines of four entries (hash, row, stamp: ps/core/row_store.h). Home:
/// the line that the top bits of the fingerprint name; what finds it full stands in the next with
/// room. At most 3/4 full, removal brings back, no tombstones. All four of a line are compared at
/// once: mostly one line is read, and no branch depends on which of them it is. A slot doubles by
/// itself and looks at no row: the longest pause is O(rows of a slot).
///
/// An entry may also count sightings of a key that has no row yet (admission): kSighting | count.
/// Two keys of one slot with the same fingerprint share their count.
/// Bounds: rows < 2^31; sightings of a slot <= kSightingsMax, then all counts are halved and those
/// that were 1 go. Memory of outgrown tables serves the next ones; none goes back to the system.
/// Complexity: O(1) expected.
/// Threads: single owner.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>
#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

#include "ps/core/msg.h"
#include "ps/core/pages.h"

namespace dlrun::ps {

using RowId = std::uint32_t;
inline constexpr RowId kNoRow = ~RowId{0};
inline constexpr RowId kRowsMax = 0x7fffffff;

class SlotIndex {
 public:
  static constexpr std::uint32_t kSightingsMax = 4096;
  static constexpr std::uint32_t kLineEntries = 4;

  struct alignas(64) Line {
    std::uint64_t hash[kLineEntries];
    RowId row[kLineEntries];  ///< kNoRow: empty
    std::uint32_t stamp[kLineEntries];
  };

  /// Of a row, or of none. Good until moves() is another.
  class Place {
   public:
    Place() = default;
    Place(Line* line, std::uint32_t at) : line_(line), at_(at) {}
    explicit operator bool() const noexcept { return line_ != nullptr; }
    std::uint64_t hash() const noexcept { return line_->hash[at_]; }
    RowId row() const noexcept { return line_->row[at_]; }
    std::uint32_t& stamp() const noexcept { return line_->stamp[at_]; }

   private:
    friend SlotIndex;
    Line* line_ = nullptr;
    std::uint32_t at_ = 0;
  };

  SlotIndex();

  [[gnu::always_inline]] void prefetch(std::uint64_t hash) const noexcept {
    const Slot slot = slots_[slot_of_hash(hash)];
    __builtin_prefetch(slot.lines() + home(slot, hash), 1);
  }
  Place find(std::uint64_t hash) const noexcept {
    const Slot slot = slots_[slot_of_hash(hash)];
    for (std::uint32_t i = home(slot, hash);; i = (i + 1) & slot.mask()) {
      Line& line = slot.lines()[i];
      if (const unsigned hit = rows_with(line, hash); hit != 0)
        return {&line, static_cast<std::uint32_t>(std::countr_zero(hit))};
      if (empty(line) != 0) return {};
    }
  }
  /// The caller has made sure that the hash has no row. Takes the place of its sightings.
  Place add(std::uint64_t hash, RowId row, std::uint32_t stamp = 0);
  void remove(Place place) noexcept;
  /// A higher number each time that entries have moved or gone.
  std::uint64_t moves() const noexcept { return moves_; }
  /// Counts one more sighting of a key without a row; returns the count, this one included.
  std::uint32_t sight(std::uint64_t hash);

  /// f(place) for each row, in the order of the slot's table.
  template <class F>
  void for_each(std::uint32_t slot, F f) const {
    const Slot s = slots_[slot];
    for (std::uint32_t i = 0; counts_[slot].rows > 0 && i <= s.mask(); ++i) {
      for (std::uint32_t k = 0; k < kLineEntries; ++k) {
        if (s.lines()[i].row[k] <= kRowsMax) f(Place(&s.lines()[i], k));
      }
    }
  }
  /// f(fingerprint, count)
  template <class F>
  void for_each_sighting(std::uint32_t slot, F f) const {
    const Slot s = slots_[slot];
    for (std::uint32_t i = 0; counts_[slot].sightings > 0 && i <= s.mask(); ++i) {
      const Line& line = s.lines()[i];
      for (std::uint32_t k = 0; k < kLineEntries; ++k) {
        if (line.row[k] != kNoRow && line.row[k] > kRowsMax)
          f(fingerprint_of_hash(line.hash[k]), line.row[k] & kRowsMax);
      }
    }
  }
  void add_sightings(std::uint32_t slot, std::uint32_t fingerprint, std::uint32_t count);
  /// Forgets rows and sightings of the slot.
  void clear(std::uint32_t slot) noexcept;

  /// A hand that goes round all rows in the order (slot, fingerprint), which is the same however
  /// they came to be here: the next `n` (> 0) from where it stands; more when the last of them
  /// shares its fingerprint, fewer when it has come round to where it began.
  void next_rows(std::uint32_t n, std::vector<Place>& rows);
  /// slot << 32 | fingerprint: the rows from there on are next.
  std::uint64_t hand() const noexcept { return hand_; }
  void set_hand(std::uint64_t hand) noexcept { hand_ = hand % kHandEnd; }

  std::uint32_t rows_of_slot(std::uint32_t slot) const noexcept { return counts_[slot].rows; }
  std::uint64_t bytes() const noexcept {
    return kSlots * (sizeof(Slot) + sizeof(Counts)) + pool_.bytes();
  }

 private:
  static constexpr RowId kSighting = 0x80000000;
  /// In 8 bytes, so that all slots together stay in the cache.
  class Slot {
   public:
    Slot(Line* lines, std::uint32_t log2_lines)
        : both_(reinterpret_cast<std::uintptr_t>(lines) | log2_lines) {}
    Line* lines() const noexcept { return reinterpret_cast<Line*>(both_ & ~kLog2Mask); }
    std::uint32_t log2_lines() const noexcept {
      return static_cast<std::uint32_t>(both_ & kLog2Mask);
    }
    std::uint32_t mask() const noexcept { return (1u << log2_lines()) - 1; }

   private:
    static constexpr std::uintptr_t kLog2Mask = alignof(Line) - 1;
    std::uintptr_t both_;
  };
  struct Counts {
    std::uint32_t rows = 0;
    std::uint32_t sightings = 0;
  };
  static std::uint32_t home(const Slot& slot, std::uint64_t hash) noexcept {
    return static_cast<std::uint32_t>(
        (std::uint64_t{fingerprint_of_hash(hash)} << slot.log2_lines()) >> 32);
  }
  // Bit k: of entry k.
  static unsigned rows_with(const Line& line, std::uint64_t hash) noexcept {
#if defined(__SSE4_1__)
    const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(hash));
    const auto* h = reinterpret_cast<const __m128i*>(line.hash);
    const int low = _mm_movemask_pd(_mm_castsi128_pd(_mm_cmpeq_epi64(_mm_load_si128(h), wanted)));
    const int high =
        _mm_movemask_pd(_mm_castsi128_pd(_mm_cmpeq_epi64(_mm_load_si128(h + 1), wanted)));
    const int none = _mm_movemask_ps(  // not rows: the sign bit
        _mm_castsi128_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(line.row))));
    return static_cast<unsigned>((low | high << 2) & ~none);
#else
    unsigned hit = 0;
    for (unsigned k = 0; k < kLineEntries; ++k) {
      const bool it = (line.hash[k] == hash) & (line.row[k] <= kRowsMax);
      hit |= static_cast<unsigned>(it) << k;
    }
    return hit;
#endif
  }
  static unsigned empty(const Line& line) noexcept {
    unsigned empty = 0;
    for (unsigned k = 0; k < kLineEntries; ++k)
      empty |= static_cast<unsigned>(line.row[k] == kNoRow) << k;
    return empty;
  }

  void make_room(std::uint32_t slot);
  void rebuild(std::uint32_t slot, std::uint32_t log2_lines, bool age);
  static Place place(const Slot& slot, std::uint64_t hash, RowId row, std::uint32_t stamp) noexcept;
  static Place sighting(const Slot& slot, std::uint64_t hash) noexcept;
  static Place to_bring_back(const Slot& slot, std::uint32_t hole) noexcept;
  void hand_on(std::uint64_t end, std::uint32_t n, std::vector<Place>& rows);
  void find_from(std::uint32_t slot, std::uint32_t first, std::size_t n);

  std::vector<Slot> slots_;
  std::vector<Counts> counts_;
  PowerPool pool_;
  std::uint64_t moves_ = 0;
  static constexpr std::uint64_t kHandEnd = std::uint64_t{kSlots} << 32;
  std::uint64_t hand_ = 0;
  std::vector<Place> found_;  ///< find_from()
};

}  // namespace dlrun::ps
