// The parts of ShardCore about slots that come and go, and about the state as a whole.
#include <algorithm>

#include "ps/core/shard_core.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {

Status ShardCore::install_map(SlotMap map, TimePoint now, Effects& effects) {
  if (map.owner.size() != kSlots)
    return fail(Errc::kInvalidArgument, "a slot map needs " + std::to_string(kSlots) + " owners");
  if (map.epoch <= map_.epoch) return {};
  if (cut_ != nullptr) cancel_cut(last_cut_, "the slot map has changed");
  ++log_sequence_;
  map_ = std::move(map);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    const bool mine = map_.owner[slot] == settings_.shard;
    if (mine && slots_[slot] == SlotState::kForeign) {
      slots_[slot] = SlotState::kAwaited;
    } else if (!mine && slots_[slot] != SlotState::kForeign) {
      slots_[slot] = SlotState::kForeign;
      for (auto& [id, table] : tables_) table.erase_slot(slot);
      for (auto& [client, state] : clients_) state.moved.erase(slot);
      imported_.erase(slot);
    }
  }
  find_all_serving();
  for (Parked& p : parked_) {
    effects.push_back(answer(p.asker, p.request,
                             fail(Errc::kStaleEpoch, "the slot map has changed: refetch it")));
  }
  parked_.clear();
  parked_bytes_ = 0;
  on_tick(now, effects);
  return {};
}

SlotImage ShardCore::export_slot(std::uint32_t slot) const {
  DLRUN_ASSERT(slot < kSlots);
  SlotImage image{.slot = slot};
  for (const auto& [id, table] : tables_) image.tables.push_back(table.export_slot(slot));
  for (const auto& [client, state] : clients_) {
    if (settings_.bugs.has("slot_moves_without_window")) continue;
    const auto moved = state.moved.find(slot);
    image.windows.push_back(
        {client, state.worker, moved == state.moved.end() ? state.window : moved->second.window});
  }
  return image;
}

Status ShardCore::import_slot(const SlotImage& image, TimePoint now, Effects& effects) {
  if (image.slot >= kSlots || slots_[image.slot] != SlotState::kAwaited) {
    return fail(Errc::kFailedPrecondition,
                "slot " + std::to_string(image.slot) + " is not awaited by this shard");
  }
  for (const TableImage& t : image.tables) {
    const TableState* table = table_of(t.schema.id);
    if (table != nullptr && table->schema() != t.schema) {
      return fail(Errc::kAlreadyExists,
                  "table '" + t.schema.name + "' is here with another schema");
    }
    if (t.data.size() != t.rows.size() * TableState::words(t.schema)) {
      return fail(Errc::kCorrupt, "table '" + t.schema.name + "': rows and data do not match");
    }
  }
  std::size_t strange = 0;
  for (const SlotImage::Window& w : image.windows)
    strange += !gone_.contains(w.client) && !clients_.contains(w.client) ? 1 : 0;
  if (clients_.size() + strange > settings_.clients_max)
    return fail(Errc::kOverloaded,
                "slot " + std::to_string(image.slot) + " comes with " + std::to_string(strange) +
                    " clients more than the " + std::to_string(clients_.size()) +
                    " of this shard: its most are " + std::to_string(settings_.clients_max));
  ++log_sequence_;
  for (const TableImage& t : image.tables) {
    const auto [entry, made] = tables_.try_emplace(t.schema.id, t.schema);
    TableState& table = entry->second;
    if (made) {
      table.set_rate(t.rate);
      table.set_hand(t.hand);
      for (const auto& [clock, rate] : t.rates) table.set_rate_from(clock, rate);
    }
    table.import_slot(image.slot, t, log_sequence_);
    // A worker told its clock to some shard only after every shard had acknowledged what came
    // before: the larger one is true.
    for (const auto& [worker, clock] : t.clocks) {
      if (members_.admit(worker)) table.clocks().advance(worker, clock);
    }
    table.close_below(lowest(table), log_sequence_, whole_seconds(now));
  }
  for (auto& [client, state] : clients_) {
    state.moved.insert_or_assign(image.slot, ClientState::Moved{});
    state.until_unknown = true;
  }
  imported_.insert(image.slot);
  for (const SlotImage::Window& w : image.windows) {
    if (gone_.contains(w.client)) continue;
    const auto known = clients_.find(w.client);
    ClientState& state = known == clients_.end() ? new_client(w.client, w.worker) : known->second;
    state.moved[image.slot].window = w.window;
    state.until_unknown = true;
  }
  slots_[image.slot] = SlotState::kServing;
  find_all_serving();
  unpark(now, effects);
  return {};
}

std::uint64_t ShardCore::digest() const {
  std::uint64_t h = mix64(map_.epoch.term ^ mix64(map_.epoch.counter));
  for (std::uint32_t slot = 0; slot < kSlots; ++slot)
    h = mix64(h ^ static_cast<std::uint64_t>(slots_[slot]));
  for (const auto& [id, table] : tables_) h = mix64(h ^ table.digest());
  h = mix64(h ^ members_.digest());
  for (const auto& [client, state] : clients_) {
    h = mix64(h ^ state.window.digest(mix64(client.value))) + state.worker.value;
    for (const auto& [slot, moved] : state.moved)
      h = mix64(h ^ moved.window.digest(slot + 1)) + moved.until;
  }
  for (const std::uint32_t slot : imported_) h = mix64(h ^ slot);
  for (const ClientId client : gone_order_) h = mix64(h + client.value);
  return mix64(h ^ log_sequence_);
}

}  // namespace dlrun::ps
