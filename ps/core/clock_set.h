#pragma once
/// ps/core/clock_set.h: who has a clock (Members, one per shard) and how far each is (ClockSet, one
/// per table). The set starts with as many members as the generation has workers, all at clock 0,
/// most of them not yet known by name; a worker takes one of these places with its first operation
/// that changes state (a pull takes none), and gives its place up when it leaves, known or not.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ps/core/msg.h"

namespace dlrun::ps {

class Members {
 public:
  explicit Members(std::uint32_t workers) : places_(workers) {}
  /// OK when `worker` has a place or could take a free one. kFailedPrecondition: it has left, or
  /// no place is free.
  Status may_admit(WorkerId worker) const;
  /// As may_admit(); takes the place.
  Status admit(WorkerId worker);
  /// The place is gone. false: nothing changed (left before, or never had one and none is free).
  bool leave(WorkerId worker);
  bool left(WorkerId worker) const { return left_.contains(worker); }
  /// Places that are left, taken or not.
  std::uint32_t active() const noexcept { return places_; }
  std::uint64_t digest() const noexcept;

 private:
  std::uint32_t places_;
  std::set<WorkerId> present_;
  std::set<WorkerId> left_;
};

class ClockSet {
 public:
  /// What lowest() is when nobody is left to wait for.
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  /// Where the clocks of all begin: 0, or those of a checkpoint. Before the first advance().
  void start_at(std::uint64_t clock) noexcept { start_ = clock; }
  std::uint64_t start() const noexcept { return start_; }
  std::uint64_t of(WorkerId worker) const noexcept;
  /// To the larger of what it has and `clock`.
  void advance(WorkerId worker, std::uint64_t clock);
  void remove(WorkerId worker) { clocks_.erase(worker); }
  /// The lowest clock of the `active` members; those that have not advanced here count as start().
  /// O(workers).
  std::uint64_t lowest(std::uint32_t active) const noexcept;
  std::vector<std::pair<WorkerId, std::uint64_t>> list() const {
    return {clocks_.begin(), clocks_.end()};
  }

 private:
  std::uint64_t start_ = 0;
  std::map<WorkerId, std::uint64_t> clocks_;  ///< of members with a clock > start_
};

}  // namespace dlrun::ps
