#pragma once
/// ps/core/table.h: one table on one shard: rows, clocks, and under BSP the pushes of clocks that
/// are still open.
/// BSP: a push at clock c is kept until no member's clock is <= c. Then, per key,
/// the gradients of that clock are added in the order (worker, client, sequence) and one optimizer
/// step is made with the sum: what arrived when plays no part. (kAssign: the last in that order is
/// set.)
///
/// A batch goes through a pipe: the index line of a key is fetched 16 keys before its step, the row
/// is found and fetched 8 before. So some lines of memory are under way at all times, and no more
/// than the core can have.
/// Words of a row: weights (f32, or two halves a word), then state.
/// Admission, eviction: ps/core/msg.h. Rows go at the end of an apply(), never within it.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ps/core/checkpoint_block.h"
#include "ps/core/clock_set.h"
#include "ps/core/msg.h"
#include "ps/core/optimizer.h"
#include "ps/core/row_store.h"

namespace dlrun::ps {

/// A push, or what is left of it for some slots, that waits for its clock to close.
struct BufferedPush {
  WorkerId worker;
  ClientId client;
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> keys;  ///< ascending, distinct
  std::vector<float> grads;         ///< [keys, dim]
  std::uint64_t bytes() const noexcept { return keys.size() * 8 + grads.size() * 4; }
  friend bool operator==(const BufferedPush&, const BufferedPush&) = default;
};

/// What a slot of a table is made of: canonical (rows by key, pushes by clock and order), so that
/// two equal states compare equal.
struct TableImage {
  TableSchema schema;
  float rate = 0.0f;
  std::map<std::uint64_t, float> rates;  ///< of clocks to come
  std::uint64_t hand = 0;                ///< of eviction (ps/core/slot_index.h), of the whole table
  struct Row {
    std::uint64_t key = 0;
    std::uint64_t version = 0;
    std::uint32_t last_use_s = 0;
    std::uint32_t frequency = 0;  ///< 0 but for Eviction::kLfu
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::vector<Row> rows;
  std::vector<std::uint32_t> data;                                 ///< [rows, words]
  std::vector<std::pair<std::uint32_t, std::uint32_t>> sightings;  ///< (fingerprint, count)
  std::vector<std::pair<WorkerId, std::uint64_t>> clocks;
  std::map<std::uint64_t, std::vector<BufferedPush>> open;
  friend bool operator==(const TableImage&, const TableImage&) = default;
};

/// The `now_s` of a table.
inline std::uint32_t whole_seconds(TimePoint now) noexcept {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
}

bool strictly_ascending(std::span<const std::uint64_t> keys) noexcept;

/// Keys ascending and distinct, equal ones summed in the order they came (kAssign: the last), in
/// buffers that live as long as this.
class Combiner {
 public:
  struct Batch {
    std::span<const std::uint64_t> keys;
    const float* grads = nullptr;
  };
  /// Hands back the arguments themselves when there is nothing to do.
  Batch combine(const TableSchema& schema, std::span<const std::uint64_t> keys, const float* grads);

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> grads_;
};

/// Of a push, while a checkpoint is made: before its worker's mark, so that the checkpoint has it,
/// or after.
enum class Side : std::uint8_t { kBefore, kAfter };

class TableState {
 public:
  explicit TableState(TableSchema schema);
  /// Of 4 bytes, in a row: weights and state.
  static std::uint32_t words(const TableSchema& schema) noexcept;

  const TableSchema& schema() const noexcept { return schema_; }
  const RowStore& rows() const noexcept { return rows_; }
  ClockSet& clocks() noexcept { return clocks_; }
  const ClockSet& clocks() const noexcept { return clocks_; }

  /// Weights [keys, dim], in the order of the keys, which may repeat. Changes nothing.
  void read(std::span<const std::uint64_t> keys, float* out, std::uint32_t now_s) const;
  /// One optimizer step for each of the keys, which are distinct; then evicts.
  void apply(std::span<const std::uint64_t> keys, const float* grads, std::uint64_t version,
             std::uint32_t now_s, Side side = Side::kBefore);

  void keep(std::uint64_t clock, BufferedPush push);
  std::uint64_t kept_bytes() const noexcept { return kept_bytes_; }
  /// Applies what is kept of clocks < `clock`, clock by clock.
  void close_below(std::uint64_t clock, std::uint64_t version, std::uint32_t now_s);

  float rate() const noexcept { return stepper_.rate(); }
  void set_rate(float rate, Side side = Side::kBefore) noexcept;
  /// BSP: when `clock` closes.
  void set_rate_from(std::uint64_t clock, float rate) { rates_[clock] = rate; }
  /// Where eviction goes on.
  void set_hand(std::uint64_t hand) noexcept { rows_.index().set_hand(hand); }

  TableImage export_slot(std::uint32_t slot) const;
  /// The slot must be empty here.
  void import_slot(std::uint32_t slot, const TableImage& image, std::uint64_t version);
  void erase_slot(std::uint32_t slot);
  /// Keys of the slot, ascending, from `from` on, at most `n_max`.
  std::vector<std::uint64_t> keys_of_slot(std::uint32_t slot, std::uint64_t from,
                                          std::size_t n_max) const;

  // The cut of a checkpoint (docs/ps.md). From fork() to drop_fork() the table behaves as ever;
  // beside it are kept copies of what pushes of Side::kAfter changed, as it would be without them.
  /// `clock`: BSP, SSP: what is of clocks < it is before; ASP: 0, apply() is told.
  void fork(std::uint64_t clock);
  bool forked() const noexcept { return fork_ != nullptr; }
  std::uint64_t fork_clock() const noexcept;
  /// All that comes is after. close_below() does it by itself when it passes the clock.
  void settle();
  bool settled() const noexcept;
  /// Rate and hand of what was cut; settled.
  float cut_rate() const noexcept;
  std::uint64_t cut_hand() const noexcept;
  /// The slot as it was cut, keys ascending; its copies go, and none are made any more. Settled;
  /// each slot once. Returns the rows.
  std::uint64_t write_slot(std::uint32_t slot, BlockBuilder& rows, BlockBuilder& sightings);
  std::uint64_t aside_bytes() const noexcept;
  void drop_fork() noexcept;

  /// A row of a checkpoint, whose key is absent; its last use is moved by `shift_s`, its version
  /// stays.
  void restore_row(const RowRecord& row, std::int64_t shift_s);
  void restore_sighting(const SightingRecord& sighting);

  struct Stats {
    std::uint64_t evicted = 0;
    std::uint64_t not_admitted = 0;  ///< gradients dropped
  };
  const Stats& stats() const noexcept { return stats_; }
  /// Keys that apply() evicted since they were last taken; kept only after watch_evictions().
  void watch_evictions() { watch_ = true; }
  std::vector<std::uint64_t> take_evicted() { return std::exchange(evicted_, {}); }

  std::uint64_t digest() const;

 private:
  static constexpr std::uint32_t kWave = 8;

  using Place = RowStore::Place;

  bool expired(Place row, std::uint32_t now_s) const noexcept {
    if (schema_.ttl_s == 0) return false;
    const std::uint32_t last_use_s = rows_.last_use_s(row);
    return now_s > last_use_s && now_s - last_use_s > schema_.ttl_s;
  }
  bool admits(std::uint64_t key, std::uint64_t hash, std::uint64_t version);
  void birth(std::uint64_t key, RowId row);
  void step_wave(std::uint32_t n, const RowId* rows, const float* const* grads);
  void read_row(RowId row, float* out) const noexcept;
  void read_missing(std::uint64_t key, float* out) const noexcept;
  void evict(std::size_t touched, std::uint32_t now_s);
  void evict_row(Place row);
  void clear_row(std::uint64_t key, RowId row);
  void erase_kept(std::uint32_t slot);
  void take_rates_until(std::uint64_t clock);
  void close_to(std::uint64_t clock, std::uint64_t version, std::uint32_t now_s);

  struct Fork;
  struct DeleteFork {
    void operator()(Fork* fork) const noexcept;
  };
  bool counts_sightings() const noexcept {
    return schema_.admission == Admission::kSightings && schema_.admission_n > 1;
  }
  // Of an apply(): at its begin, for each key before anything changes, and before evict().
  void fork_begin(Side side);
  void fork_key(std::uint64_t hash, Place row, const float* grad);
  void fork_end(std::uint64_t version, std::uint32_t now_s);
  bool absence_is_forked(std::uint64_t hash) const;
  void fork_birth(std::uint64_t hash, RowId row);
  void fork_eviction(Place row);
  void fork_gone(RowId row);
  void copy_aside(Place row);
  void copy_sightings_aside(std::uint32_t slot);

  TableSchema schema_;
  std::uint32_t weight_words_;
  RowStore rows_;
  Stepper stepper_;
  ClockSet clocks_;
  std::map<std::uint64_t, std::vector<BufferedPush>> open_;
  std::map<std::uint64_t, float> rates_;
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t rows_max_;  ///< by the byte budget
  Combiner combiner_;
  std::vector<float> wide_;  ///< [kWave, dim]: half weights of a wave as floats
  std::vector<float> initial_;
  std::vector<Place> seen_by_hand_;
  std::vector<std::uint64_t> victims_;  ///< evict(), by hash
  std::unique_ptr<Fork, DeleteFork> fork_;
  Stats stats_;
  bool watch_ = false;
  std::vector<std::uint64_t> evicted_;
};

}  // namespace dlrun::ps
