#include "runtime/sim/sim_mover.h"

namespace dlrun::sim {

using std::chrono::milliseconds;

const ps::PsView* SlotMover::view(const PsJob& job) const {
  const auto it = states_.find(job);
  return it == states_.end() ? nullptr : &it->second.view;
}

void SlotMover::move_some() {
  std::vector<PsJob> may;
  for (const auto& [job, state] : states_)
    if (state.view.shards.size() > 1 && state.unsettled.empty()) may.push_back(job);
  if (may.empty()) return;
  SplitMix64& rng = world_.loop().rng();
  const PsJob job = may[rng.below(may.size())];
  State& state = states_.at(job);
  const std::vector<std::uint64_t> keys = world_.ps_checker().keys_of(job);
  const std::uint64_t shards = state.view.shards.size();
  for (std::uint64_t n = 1 + rng.below(12); n > 0; --n) {
    const std::uint64_t key = keys.empty() ? rng.below(8) : keys[rng.below(keys.size())];
    ShardId& owner = state.view.map.owner[ps::slot_of(ps::table_id("counts"), key)];
    owner = ShardId{static_cast<std::uint32_t>((owner.value + 1 + rng.below(shards - 1)) % shards)};
    ++moved_;
  }
  state.view.map.epoch.counter += std::uint64_t{1} << 32;
  for (const ps::ShardEndpoint& shard : state.view.shards) state.unsettled.insert(shard.shard);
  push(job, state.view.map.epoch);
}

void SlotMover::push(const PsJob& job, Epoch epoch) {
  const auto it = states_.find(job);
  if (it == states_.end() || it->second.view.map.epoch != epoch || it->second.unsettled.empty())
    return;
  for (const ShardId shard : it->second.unsettled) {
    const std::string& to = it->second.view.shards[shard.value].tcp;
    world_.network().send(
        node_, node_of_endpoint(to), [this, job, epoch, shard, to, view = it->second.view] {
          ShardHost* host = world_.host_at(to);
          if (host == nullptr || !host->on_view(view)) return;
          world_.network().send(node_of_endpoint(to), node_, [this, job, epoch, shard] {
            const auto found = states_.find(job);
            if (found != states_.end() && found->second.view.map.epoch == epoch)
              found->second.unsettled.erase(shard);
          });
        });
  }
  world_.loop().after(milliseconds(250), [this, job, epoch] { push(job, epoch); });
}

}  // namespace dlrun::sim
