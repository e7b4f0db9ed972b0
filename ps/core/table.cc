#include "ps/core/table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

#include "ps/core/optimizer.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

bool before(const Gradient& a, const Gradient& b) noexcept {
  return std::tie(a.slot, a.key) < std::tie(b.slot, b.key);
}

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

std::uint64_t mix_floats(std::uint64_t h, const float* x, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) h = mix64(h ^ std::bit_cast<std::uint32_t>(x[i])) + i;
  return h;
}

}  // namespace

void sort_gradients(std::vector<Gradient>& gradients) {
  if (!std::is_sorted(gradients.begin(), gradients.end(), before)) {
    std::stable_sort(gradients.begin(), gradients.end(), before);
  }
}

TableState::TableState(TableSchema schema)
    : schema_(std::move(schema)),
      rows_(schema_.dim + state_floats(schema_), kSlots),
      sum_(schema_.dim) {}

void TableState::read(std::uint64_t key, float* out) const noexcept {
  const RowId row = rows_.find(key);
  if (row == kNoRow) {
    init_weights(schema_, key, out);
  } else {
    std::memcpy(out, rows_.data(row), schema_.dim * sizeof(float));
  }
}

void TableState::step(std::uint64_t key, std::uint32_t slot, const float* g, std::uint64_t version,
                      std::uint32_t now_s) {
  RowId row = rows_.find(key);
  if (row == kNoRow) {
    row = rows_.add(key, slot);
    init_row(schema_, key, rows_.data(row), rows_.data(row) + schema_.dim);
  }
  apply_gradient(schema_, rows_.data(row), rows_.data(row) + schema_.dim, g);
  RowHeader& header = rows_.header(row);
  header.version = version;
  header.last_use_s = now_s;
  if (header.frequency != std::numeric_limits<std::uint32_t>::max()) ++header.frequency;
}

void TableState::apply(std::span<const Gradient> sorted, std::uint64_t version,
                       std::uint32_t now_s) {
  const std::uint32_t dim = schema_.dim;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end].key == sorted[i].key) ++end;
    if (end == i + 1 || schema_.optimizer == Optimizer::kAssign) {
      step(sorted[i].key, sorted[i].slot, sorted[end - 1].g, version, now_s);
    } else {
      std::copy_n(sorted[i].g, dim, sum_.data());
      for (std::size_t j = i + 1; j < end; ++j) {
        for (std::uint32_t d = 0; d < dim; ++d) sum_[d] += sorted[j].g[d];
      }
      step(sorted[i].key, sorted[i].slot, sum_.data(), version, now_s);
    }
    i = end;
  }
}

void TableState::keep(std::uint64_t clock, BufferedPush push) {
  if (push.keys.empty()) return;
  kept_bytes_ += push.bytes();
  open_[clock].push_back(std::move(push));
}

void TableState::close_below(std::uint64_t clock, std::uint64_t version, std::uint32_t now_s) {
  while (!open_.empty() && open_.begin()->first < clock) {
    std::vector<BufferedPush> pushes = std::move(open_.begin()->second);
    open_.erase(open_.begin());
    std::sort(pushes.begin(), pushes.end(), in_order);
    std::vector<Gradient> gradients;
    for (const BufferedPush& push : pushes) {
      kept_bytes_ -= push.bytes();
      for (std::size_t i = 0; i < push.keys.size(); ++i) {
        gradients.push_back(
            {slot_of(schema_.id, push.keys[i]), push.keys[i], push.grads.data() + i * schema_.dim});
      }
    }
    sort_gradients(gradients);
    apply(gradients, version, now_s);
  }
}

std::vector<std::uint64_t> TableState::keys_of_slot(std::uint32_t slot, std::uint64_t from,
                                                    std::size_t n_max) const {
  std::vector<std::uint64_t> keys;
  keys.reserve(rows_.rows_of_slot(slot));
  for (RowId row = rows_.first_of_slot(slot); row != kNoRow; row = rows_.header(row).next_in_slot) {
    if (rows_.header(row).key >= from) keys.push_back(rows_.header(row).key);
  }
  if (keys.size() > n_max) {
    std::nth_element(keys.begin(), keys.begin() + n_max, keys.end());
    keys.resize(n_max);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

TableImage TableState::export_slot(std::uint32_t slot) const {
  TableImage image{.schema = schema_, .clocks = clocks_.list()};
  for (const std::uint64_t key : keys_of_slot(slot, 0, rows_.rows())) {
    const RowId row = rows_.find(key);
    const RowHeader& header = rows_.header(row);
    image.rows.push_back({key, header.version, header.last_use_s, header.frequency});
    image.data.insert(image.data.end(), rows_.data(row), rows_.data(row) + rows_.floats());
  }
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
  for (std::size_t i = 0; i < image.rows.size(); ++i) {
    const RowId row = rows_.add(image.rows[i].key, slot);
    std::copy_n(image.data.data() + i * rows_.floats(), rows_.floats(), rows_.data(row));
    RowHeader& header = rows_.header(row);
    header.version = version;
    header.last_use_s = image.rows[i].last_use_s;
    header.frequency = image.rows[i].frequency;
  }
  for (const auto& [clock, pushes] : image.open) {
    for (const BufferedPush& push : pushes) keep(clock, push);
  }
}

void TableState::erase_slot(std::uint32_t slot) {
  rows_.erase_slot(slot);
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

std::uint64_t TableState::digest() const {
  std::uint64_t rows = 0;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    for (RowId row = rows_.first_of_slot(slot); row != kNoRow;
         row = rows_.header(row).next_in_slot) {
      const RowHeader& header = rows_.header(row);
      const std::uint64_t h = mix64(mix64(header.key) + mix64(header.version ^ 1) +
                                    header.last_use_s + header.frequency);
      rows += mix_floats(h, rows_.data(row),
                         rows_.floats());  // a sum: the order of insertion is not part of the state
    }
  }
  std::uint64_t h = mix64(rows ^ schema_.id);
  for (const auto& [worker, clock] : clocks_.list()) h = mix64(h ^ worker.value) + mix64(clock);
  for (const auto& [clock, pushes] : open_) {
    std::uint64_t sum = 0;
    for (const BufferedPush& push : pushes) {
      std::uint64_t p = mix64(push.worker.value ^ mix64(push.client.value ^ mix64(push.sequence)));
      for (const std::uint64_t key : push.keys) p = mix64(p ^ key);
      sum += mix_floats(p, push.grads.data(), push.grads.size());
    }
    h = mix64(h ^ clock) + sum;
  }
  return h;
}

}  // namespace dlrun::ps
