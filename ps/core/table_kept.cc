// The parts of TableState about pushes that wait for their clock, and about slots that move.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "ps/core/table.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

bool in_order(const BufferedPush& a, const BufferedPush& b) noexcept {
  return std::tie(a.worker, a.client, a.sequence, a.keys) <
         std::tie(b.worker, b.client, b.sequence, b.keys);
}

/// The part of a kept push whose keys do (or do not) live in `slot`.
BufferedPush part_of(const BufferedPush& push, std::uint32_t table, std::uint32_t dim,
                     std::uint32_t slot, bool inside) {
  BufferedPush part{push.worker, push.client, push.sequence, {}, {}};
  for (std::size_t i = 0; i < push.keys.size(); ++i) {
    if ((slot_of(table, push.keys[i]) == slot) != inside) continue;
    part.keys.push_back(push.keys[i]);
    part.grads.insert(part.grads.end(), push.grads.begin() + i * dim,
                      push.grads.begin() + (i + 1) * dim);
  }
  return part;
}

}  // namespace

bool strictly_ascending(std::span<const std::uint64_t> keys) noexcept {
  bool ascending = true;  // no early exit: the loop is vectorised, and the answer is mostly yes
  for (std::size_t i = 1; i < keys.size(); ++i) ascending &= keys[i - 1] < keys[i];
  return ascending;
}

Combiner::Batch Combiner::combine(const TableSchema& schema, std::span<const std::uint64_t> keys,
                                  const float* grads) {
  if (strictly_ascending(keys)) return {keys, grads};
  const std::size_t dim = schema.dim;
  order_.resize(keys.size());
  for (std::uint32_t i = 0; i < keys.size(); ++i) order_[i] = {keys[i], i};
  std::sort(order_.begin(), order_.end());
  keys_.clear();
  grads_.clear();
  for (const auto& [key, row] : order_) {
    const float* g = grads + row * dim;
    if (keys_.empty() || keys_.back() != key) {
      keys_.push_back(key);
      grads_.insert(grads_.end(), g, g + dim);
      continue;
    }
    float* sum = grads_.data() + grads_.size() - dim;
    const bool assign = schema.optimizer == Optimizer::kAssign;
    for (std::size_t d = 0; d < dim; ++d) sum[d] = assign ? g[d] : sum[d] + g[d];
  }
  return {keys_, grads_.data()};
}

void TableState::keep(std::uint64_t clock, BufferedPush push) {
  if (push.keys.empty()) return;
  kept_bytes_ += push.bytes();
  open_[clock].push_back(std::move(push));
}

void TableState::close_below(std::uint64_t clock, std::uint64_t version, std::uint32_t now_s) {
  // The cut of a checkpoint may fall between two clocks that close at once.
  if (forked() && !settled() && clock >= fork_clock()) {
    close_to(fork_clock(), version, now_s);
    settle();
  }
  close_to(clock, version, now_s);
}

void TableState::close_to(std::uint64_t clock, std::uint64_t version, std::uint32_t now_s) {
  while (!open_.empty() && open_.begin()->first < clock) {
    const std::uint64_t closing = open_.begin()->first;
    std::vector<BufferedPush> pushes = std::move(open_.begin()->second);
    open_.erase(open_.begin());
    take_rates_until(closing);
    std::sort(pushes.begin(), pushes.end(), in_order);
    std::vector<std::uint64_t> keys;
    std::vector<float> grads;
    for (BufferedPush& push : pushes) {
      kept_bytes_ -= push.bytes();
      if (pushes.size() == 1) {
        keys = std::move(push.keys);
        grads = std::move(push.grads);
      } else {
        keys.insert(keys.end(), push.keys.begin(), push.keys.end());
        grads.insert(grads.end(), push.grads.begin(), push.grads.end());
      }
    }
    const Combiner::Batch batch = combiner_.combine(schema_, keys, grads.data());
    apply(batch.keys, batch.grads, version, now_s);
  }
  if (clock > 0) take_rates_until(clock - 1);
}

void TableState::take_rates_until(std::uint64_t clock) {
  while (!rates_.empty() && rates_.begin()->first <= clock) {
    set_rate(rates_.begin()->second);
    rates_.erase(rates_.begin());
  }
}

TableImage TableState::export_slot(std::uint32_t slot) const {
  TableImage image{.schema = schema_,
                   .rate = rate(),
                   .rates = rates_,
                   .hand = rows_.index().hand(),
                   .clocks = clocks_.list()};
  const std::size_t words = rows_.words();
  for (const std::uint64_t key : keys_of_slot(slot, 0, rows_.rows())) {
    const Place row = rows_.find(key);
    image.rows.push_back(
        {key, rows_.version(row), rows_.last_use_s(row), rows_.frequency(row.row())});
    image.data.resize(image.data.size() + words);
    std::memcpy(image.data.data() + image.data.size() - words, rows_.data(row.row()), words * 4);
  }
  rows_.index().for_each_sighting(slot, [&](std::uint32_t fingerprint, std::uint32_t count) {
    image.sightings.emplace_back(fingerprint, count);
  });
  std::sort(image.sightings.begin(), image.sightings.end());
  for (const auto& [clock, pushes] : open_) {
    for (const BufferedPush& push : pushes) {
      BufferedPush part = part_of(push, schema_.id, schema_.dim, slot, true);
      if (!part.keys.empty()) image.open[clock].push_back(std::move(part));
    }
  }
  for (auto& [clock, pushes] : image.open) std::sort(pushes.begin(), pushes.end(), in_order);
  return image;
}

void TableState::import_slot(std::uint32_t slot, const TableImage& image, std::uint64_t version) {
  DLRUN_ASSERT(rows_.rows_of_slot(slot) == 0);
  const std::size_t words = rows_.words();
  for (std::size_t i = 0; i < image.rows.size(); ++i) {
    const Place row = rows_.add(image.rows[i].key);
    std::memcpy(rows_.data(row.row()), image.data.data() + i * words, words * 4);
    rows_.set_stamp(row, rows_.stamps().take(version, image.rows[i].last_use_s));
    rows_.set_frequency(row.row(), image.rows[i].frequency);
  }
  for (const auto& [fingerprint, count] : image.sightings)
    rows_.index().add_sightings(slot, fingerprint, count);
  for (const auto& [clock, pushes] : image.open) {
    for (const BufferedPush& push : pushes) keep(clock, push);
  }
}

void TableState::erase_kept(std::uint32_t slot) {
  for (auto it = open_.begin(); it != open_.end();) {
    std::vector<BufferedPush> rest;
    for (const BufferedPush& push : it->second) {
      kept_bytes_ -= push.bytes();
      BufferedPush part = part_of(push, schema_.id, schema_.dim, slot, false);
      kept_bytes_ += part.bytes();
      if (!part.keys.empty()) rest.push_back(std::move(part));
    }
    it->second = std::move(rest);
    it = it->second.empty() ? open_.erase(it) : std::next(it);
  }
}

}  // namespace dlrun::ps
