#pragma once
/// runtime/cluster/core/barrier_set.h: who stands at which barrier of one generation of a job.
/// A barrier is named within a role. Its rounds are counted from 1; the round that is open is the
/// one after the last that JobRecord::barriers_met holds, so the set itself keeps arrivals only,
/// and a job that is recovered starts with an empty one: agents repeat their arrivals until they
/// are answered.
/// Bounds: kBarriersMax barriers entered and not met.
/// Threads: single owner. Never throws.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/cluster/core/job_record.h"

namespace dlrun::cluster {

class BarrierSet {
 public:
  using Key = JobRecord::BarrierKey;  ///< role, name

  /// Once or again: the same. False: too many barriers stand open, nothing is kept (its agent
  /// repeats it until it is answered, and the job's events say so).
  bool arrive(const Key& key, std::size_t task);

  /// When every task of `expected` has arrived: all who arrived, and the barrier is closed.
  /// nullopt: somebody is missing, or nobody ever arrived.
  std::optional<std::set<std::size_t>> close_if_met(const Key& key,
                                                    const std::vector<std::size_t>& expected);

  std::size_t arrived(const Key& key) const;  ///< those that have ended since included
  std::vector<Key> open_in(const std::string& role) const;
  void clear() { open_.clear(); }

 private:
  std::map<Key, std::set<std::size_t>> open_;
};

/// The round that an arrival at `key` is counted for; an older one is a repeat.
std::uint64_t open_round(const JobRecord& record, const BarrierSet::Key& key);

}  // namespace dlrun::cluster
