#include "runtime/cluster/core/barrier_set.h"

#include <algorithm>
#include <utility>

namespace dlrun::cluster {

bool BarrierSet::arrive(const Key& key, std::size_t task) {
  if (open_.count(key) == 0 && open_.size() >= kBarriersMax) return false;
  open_[key].insert(task);
  return true;
}

std::optional<std::set<std::size_t>> BarrierSet::close_if_met(
    const Key& key, const std::vector<std::size_t>& expected) {
  const auto it = open_.find(key);
  if (it == open_.end()) return std::nullopt;
  const std::set<std::size_t>& arrived = it->second;
  if (!std::all_of(expected.begin(), expected.end(),
                   [&](std::size_t task) { return arrived.count(task) != 0; }))
    return std::nullopt;
  return std::move(open_.extract(it).mapped());
}

std::size_t BarrierSet::arrived(const Key& key) const {
  const auto it = open_.find(key);
  return it == open_.end() ? 0 : it->second.size();
}

std::vector<BarrierSet::Key> BarrierSet::open_in(const std::string& role) const {
  std::vector<Key> keys;
  for (const auto& [key, arrived] : open_)
    if (key.first == role) keys.push_back(key);
  return keys;
}

std::uint64_t open_round(const JobRecord& record, const BarrierSet::Key& key) {
  const auto met = record.barriers_met.find(key);
  return (met == record.barriers_met.end() ? 0 : met->second) + 1;
}

}  // namespace dlrun::cluster
