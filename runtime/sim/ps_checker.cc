#include "runtime/sim/ps_checker.h"

#include <algorithm>

namespace dlrun::sim {

namespace {
std::string key_of(const TaskId& who, std::uint64_t key) {
  return "key " + std::to_string(key) + " of " + to_string(who);
}
}  // namespace

std::uint64_t PsChecker::Job::count(std::uint64_t key, std::uint64_t below) const {
  const auto row = rows.find(key);
  std::uint64_t n = 0;
  if (row != rows.end())
    for (const auto& [clock, pushes] : row->second) n += clock < below ? pushes : 0;
  return n;
}

std::uint64_t PsChecker::Job::low() const {
  std::uint64_t low = ~0ull;
  for (const auto& [worker, member] : members)
    if (!member.over) low = std::min(low, member.told);
  return low;
}

PsChecker::Job::Member* PsChecker::member(const TaskId& worker) {
  Job& job = jobs_[ps_job(worker)];
  const auto it = job.members.find(ps::worker_id(worker));
  return it == job.members.end() ? nullptr : &it->second;
}

void PsChecker::on_generation(const PsJob& id, std::vector<ps::WorkerId> workers) {
  for (const ps::WorkerId worker : workers) jobs_[id].members.try_emplace(worker);
}

void PsChecker::on_worker_over(const TaskId& worker) {
  if (Job::Member* m = member(worker)) m->over = true;
}

bool PsChecker::is_over(const TaskId& worker) const {
  const auto job = jobs_.find(ps_job(worker));
  if (job == jobs_.end()) return true;
  const auto it = job->second.members.find(ps::worker_id(worker));
  return it == job->second.members.end() || it->second.over;
}

void PsChecker::on_clock_done(const TaskId& worker, std::uint64_t clock) {
  if (Job::Member* m = member(worker)) m->done = clock;
}

void PsChecker::on_left(const TaskId& worker) {
  if (Job::Member* m = member(worker)) m->left = true;
}

void PsChecker::on_push_accepted(const TaskId& shard_task, const ps::RequestHeader& request,
                                 std::span<const std::uint64_t> keys) {
  Job& job = jobs_[ps_job(shard_task)];
  const Shard& shard = shards_[shard_task];
  const std::string what = to_string(shard_task) + " took a push ";
  if (request.epoch != shard.map)
    violated_(what + "of epoch " + to_string(request.epoch) + " under " + to_string(shard.map));
  if (request.version != ps::kWireVersion)
    violated_(what + "of wire version " + std::to_string(request.version));
  for (const std::uint64_t key : keys) {
    if (!job.seen.insert({request.client, request.sequence, key}).second) continue;
    ++pushes_;
    ++job.rows[key][request.clock];
    if (job.schema.consistency != ps::Consistency::kAsp && shard.gone.contains(request.worker))
      violated_(what + "of a worker that it was told is gone");
  }
}

void PsChecker::on_row(const TaskId& shard, std::uint64_t key, float value) {
  const Job& job = jobs_[ps_job(shard)];
  std::uint64_t low = ~0ull;  // what this shard must know of
  for (const auto& [worker, member] : job.members)
    if (!member.left && !shards_[shard].gone.contains(worker)) low = std::min(low, member.done);
  const bool bsp = job.schema.consistency == ps::Consistency::kBsp;
  const std::uint64_t all = job.count(key);
  const std::uint64_t least = bsp ? job.count(key, low) : all;
  if (value < static_cast<float>(least) || value > static_cast<float>(all))
    violated_(key_of(shard, key) + " is " + std::to_string(value) + " at its end, after " +
              std::to_string(all) + " acknowledged pushes, " + std::to_string(least) +
              " of them of clocks that are over");
}

std::vector<std::uint64_t> PsChecker::keys_of(const PsJob& id) const {
  std::vector<std::uint64_t> keys;
  if (const auto it = jobs_.find(id); it != jobs_.end())
    for (const auto& [key, row] : it->second.rows) keys.push_back(key);
  return keys;
}

void PsChecker::on_clock_told(const TaskId& worker, std::uint64_t clock) {
  if (Job::Member* m = member(worker)) m->told = clock;
}

std::vector<std::uint64_t> PsChecker::on_pull(const PsJob& id,
                                              std::span<const std::uint64_t> keys) const {
  std::vector<std::uint64_t> counts(keys.size(), 0);
  if (const auto it = jobs_.find(id); it != jobs_.end())
    for (std::size_t i = 0; i < keys.size(); ++i) counts[i] = it->second.count(keys[i]);
  return counts;
}

void PsChecker::on_pulled(const TaskId& worker, std::uint64_t clock,
                          std::span<const std::uint64_t> keys, std::span<const float> values,
                          const std::vector<std::uint64_t>& before) {
  const Job& job = jobs_[ps_job(worker)];
  const ps::TableSchema& schema = job.schema;
  ++pulls_;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool bsp = schema.consistency == ps::Consistency::kBsp;
    const std::uint64_t most = bsp ? job.count(keys[i], clock) : job.count(keys[i]);
    const std::uint64_t least = bsp ? most : before[i];
    if (values[i] < static_cast<float>(least) || values[i] > static_cast<float>(most))
      violated_(to_string(worker) + " at clock " + std::to_string(clock) + " read " +
                std::to_string(values[i]) + " of key " + std::to_string(keys[i]) + ", from " +
                std::to_string(least) + " to " + std::to_string(most) + " would be right");
  }
  if (schema.consistency == ps::Consistency::kAsp) return;
  const std::uint64_t behind = schema.consistency == ps::Consistency::kSsp ? schema.staleness : 0;
  if (job.low() < ~0ull && job.low() + behind < clock)
    violated_(to_string(worker) + " read at clock " + std::to_string(clock) +
              " while a member is at " + std::to_string(job.low()) + ", bound " +
              std::to_string(behind));
}

}  // namespace dlrun::sim
