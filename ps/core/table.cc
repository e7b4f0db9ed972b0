#include "ps/core/table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>

#include "ps/core/half.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

/// Rows the hand looks at, at a time, to evict the worst eighth of them.
constexpr std::uint32_t kHandRows = 64;
constexpr std::uint32_t kIndexBytesOfRow = 16;

std::uint32_t weight_words(const TableSchema& schema) noexcept {
  return schema.dtype == Dtype::kF32 ? schema.dim : (schema.dim + 1) / 2;
}

std::uint64_t mix_words(std::uint64_t h, const void* words, std::size_t n) noexcept {
  const auto* p = static_cast<const unsigned char*>(words);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t word;
    std::memcpy(&word, p + 4 * i, 4);
    h = mix64(h ^ word) + i;
  }
  return h;
}

}  // namespace

std::uint32_t TableState::words(const TableSchema& schema) noexcept {
  return weight_words(schema) + state_floats(schema);
}

TableState::TableState(TableSchema schema)
    : schema_(std::move(schema)),
      weight_words_(weight_words(schema_)),
      rows_(schema_.id, words(schema_)),
      stepper_(schema_),
      rows_max_(std::numeric_limits<std::uint64_t>::max()),
      wide_(schema_.dtype == Dtype::kF32 ? 0 : std::size_t{kWave} * schema_.dim) {
  if (schema_.eviction == Eviction::kLru || schema_.eviction == Eviction::kLfu) {
    rows_max_ =
        std::max<std::uint64_t>(1, schema_.budget_bytes / (rows_.row_bytes() + kIndexBytesOfRow));
  }
}

void TableState::read_row(RowId row, float* out) const noexcept {
  const auto* half = reinterpret_cast<const std::uint16_t*>(rows_.data(row));
  switch (schema_.dtype) {
    case Dtype::kF32:
      std::memcpy(out, rows_.data(row), schema_.dim * sizeof(float));
      return;
    case Dtype::kF16:
      return f16_to_f32(half, out, schema_.dim);
    case Dtype::kBf16:
      return bf16_to_f32(half, out, schema_.dim);
  }
}

void TableState::read_missing(std::uint64_t key, float* out) const noexcept {
  if (schema_.missing == Missing::kInitial) return init_weights(schema_, key, out);
  std::fill_n(out, schema_.dim, schema_.missing_value);
}

void TableState::read(std::span<const std::uint64_t> keys, float* out, std::uint32_t now_s) const {
  const std::size_t n = keys.size();
  const SlotIndex& index = rows_.index();
  std::uint64_t hashes[2][kWave];
  RowId found[2][kWave];
  const auto size_of = [&](std::size_t wave) {
    return std::min<std::size_t>(kWave, n - std::min(n, wave * kWave));
  };
  const auto hash_wave = [&](std::size_t wave) {
    for (std::size_t i = 0; i < size_of(wave); ++i) {
      hashes[wave % 2][i] = rows_.hash(keys[wave * kWave + i]);
      index.prefetch(hashes[wave % 2][i]);
    }
  };
  const auto find_wave = [&](std::size_t wave) {
    for (std::size_t i = 0; i < size_of(wave); ++i) {
      const RowId row = index.candidate(hashes[wave % 2][i]);
      found[wave % 2][i] = row;
      if (row != kNoRow) rows_.prefetch(row);
    }
  };
  const std::size_t waves = (n + kWave - 1) / kWave;
  hash_wave(0);
  find_wave(0);
  hash_wave(1);
  for (std::size_t wave = 0; wave < waves; ++wave) {
    find_wave(wave + 1);
    hash_wave(wave + 2);
    for (std::size_t i = 0; i < size_of(wave); ++i) {
      const std::uint64_t key = keys[wave * kWave + i];
      RowId row = found[wave % 2][i];
      if (row != kNoRow && rows_.header(row).key != key) row = rows_.find(key);
      float* to = out + (wave * kWave + i) * schema_.dim;
      if (row == kNoRow || expired(rows_.header(row), now_s)) {
        read_missing(key, to);
      } else {
        read_row(row, to);
      }
    }
  }
}

bool TableState::admits(std::uint64_t key, std::uint64_t hash, std::uint64_t version) {
  switch (schema_.admission) {
    case Admission::kAlways:
      return true;
    case Admission::kSightings:
      return schema_.admission_n <= 1 || rows_.index().sight(hash) >= schema_.admission_n;
    case Admission::kProbability: {
      const std::uint64_t draw = mix64(mix64(key ^ schema_.seed) + version);
      return static_cast<double>(draw >> 11) * 0x1.0p-53 < double{schema_.admission_p};
    }
  }
  return true;
}

/// Weights and state of a row that is all zero but for its key.
void TableState::birth(std::uint64_t key, RowId row) {
  float* data = rows_.data(row);
  if (schema_.dtype == Dtype::kF32) {
    init_row(schema_, key, data, data + weight_words_);
    return;
  }
  initial_.resize(schema_.dim);
  init_row(schema_, key, initial_.data(), data + weight_words_);
  auto* half = reinterpret_cast<std::uint16_t*>(data);
  if (schema_.dtype == Dtype::kF16) {
    f32_to_f16(initial_.data(), half, schema_.dim);
  } else {
    f32_to_bf16(initial_.data(), half, schema_.dim);
  }
}

void TableState::step_wave(std::uint32_t n, const RowId* rows, const float* const* grads) {
  float* weights[kWave];
  float* states[kWave];
  for (std::uint32_t i = 0; i < n; ++i) {
    weights[i] = rows_.data(rows[i]);
    states[i] = weights[i] + weight_words_;
  }
  if (schema_.dtype == Dtype::kF32) return stepper_(n, weights, states, grads);
  float* wide[kWave];
  for (std::uint32_t i = 0; i < n; ++i) {
    wide[i] = wide_.data() + std::size_t{i} * schema_.dim;
    read_row(rows[i], wide[i]);
  }
  stepper_(n, wide, states, grads);
  for (std::uint32_t i = 0; i < n; ++i) {
    auto* half = reinterpret_cast<std::uint16_t*>(weights[i]);
    if (schema_.dtype == Dtype::kF16) {
      f32_to_f16(wide[i], half, schema_.dim);
    } else {
      f32_to_bf16(wide[i], half, schema_.dim);
    }
  }
}

void TableState::apply(std::span<const std::uint64_t> keys, const float* grads,
                       std::uint64_t version, std::uint32_t now_s, Side side) {
  if (fork_ != nullptr) fork_begin(side);
  const std::size_t n = keys.size();
  SlotIndex& index = rows_.index();
  std::uint64_t hashes[3][kWave];
  RowId found[2][kWave];
  const auto size_of = [&](std::size_t wave) {
    return std::min<std::size_t>(kWave, n - std::min(n, wave * kWave));
  };
  const auto hash_wave = [&](std::size_t wave) {
    for (std::size_t i = 0; i < size_of(wave); ++i) {
      hashes[wave % 3][i] = rows_.hash(keys[wave * kWave + i]);
      index.prefetch(hashes[wave % 3][i]);
    }
  };
  const auto find_wave = [&](std::size_t wave) {
    for (std::size_t i = 0; i < size_of(wave); ++i) {
      const RowId row = index.candidate(hashes[wave % 3][i]);
      found[wave % 2][i] = row;
      if (row != kNoRow) rows_.prefetch(row);
    }
  };
  const std::size_t waves = (n + kWave - 1) / kWave;
  hash_wave(0);
  find_wave(0);
  hash_wave(1);
  for (std::size_t wave = 0; wave < waves; ++wave) {
    find_wave(wave + 1);
    hash_wave(wave + 2);
    // What was found one wave ago still holds: rows do not move, none goes before the end, and one
    // that was made since has another key.
    RowId rows[kWave];
    const float* g[kWave];
    std::uint32_t m = 0;
    for (std::size_t i = 0; i < size_of(wave); ++i) {
      const std::uint64_t key = keys[wave * kWave + i];
      const std::uint64_t hash = hashes[wave % 3][i];
      RowId row = found[wave % 2][i];
      if (row != kNoRow && rows_.header(row).key != key) row = rows_.find(key, hash);
      if (fork_ != nullptr) fork_key(key, hash, row, grads + (wave * kWave + i) * schema_.dim);
      if (row == kNoRow) {
        if (!admits(key, hash, version)) {
          ++stats_.not_admitted;
          continue;
        }
        const std::uint32_t fork = fork_ == nullptr ? 0 : fork_of_birth(key, hash);
        row = rows_.add(key, hash);
        rows_.header(row).fork = fork;
        birth(key, row);
      } else if (expired(rows_.header(row), now_s)) {
        rows_.header(row) = RowHeader{.key = key, .fork = rows_.header(row).fork};
        birth(key, row);
      }
      RowHeader& header = rows_.header(row);
      header.version = version;
      header.last_use_s = now_s;
      header.frequency += header.frequency != std::numeric_limits<std::uint32_t>::max() ? 1 : 0;
      rows[m] = row;
      g[m++] = grads + (wave * kWave + i) * schema_.dim;
    }
    step_wave(m, rows, g);
  }
  if (fork_ != nullptr) fork_end(version, now_s);
  if (schema_.eviction != Eviction::kNone) evict(n, now_s);
}

void TableState::evict_row(RowId row) {
  if (fork_ != nullptr) fork_eviction(row);
  if (watch_) evicted_.push_back(rows_.header(row).key);
  rows_.erase(row);
  ++stats_.evicted;
}

void TableState::evict(std::size_t touched, std::uint32_t now_s) {
  SlotIndex& index = rows_.index();
  while (rows_.rows() > rows_max_) {
    index.next_rows(kHandRows, seen_by_hand_);
    for (const RowId row : seen_by_hand_) __builtin_prefetch(&rows_.header(row), 1);
    const auto rank = [&](RowId row) {
      const RowHeader& h = rows_.header(row);
      const std::uint32_t often = schema_.eviction == Eviction::kLfu ? h.frequency : 0;
      return std::tuple(expired(h, now_s) ? 0 : 1, often, h.version, h.key);
    };
    const std::size_t victims = std::min<std::size_t>(
        rows_.rows() - rows_max_, std::max<std::size_t>(1, seen_by_hand_.size() / 8));
    std::partial_sort(seen_by_hand_.begin(), seen_by_hand_.begin() + victims, seen_by_hand_.end(),
                      [&](RowId a, RowId b) { return rank(a) < rank(b); });
    for (std::size_t i = 0; i < victims; ++i) evict_row(seen_by_hand_[i]);
  }
  if (schema_.ttl_s == 0) return;
  // Expired rows read as missing already; the sweep only gives their memory back.
  index.next_rows(static_cast<std::uint32_t>(touched / 4 + 16), seen_by_hand_);
  for (const RowId row : seen_by_hand_) {
    if (expired(rows_.header(row), now_s)) evict_row(row);
  }
}

std::vector<std::uint64_t> TableState::keys_of_slot(std::uint32_t slot, std::uint64_t from,
                                                    std::size_t n_max) const {
  std::vector<std::uint64_t> keys;
  keys.reserve(rows_.rows_of_slot(slot));
  rows_.index().for_each(slot, [&](RowId row) {
    if (rows_.header(row).key >= from) keys.push_back(rows_.header(row).key);
  });
  if (keys.size() > n_max) {
    std::nth_element(keys.begin(), keys.begin() + n_max, keys.end());
    keys.resize(n_max);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void TableState::erase_slot(std::uint32_t slot) {
  rows_.erase_slot(slot);
  erase_kept(slot);
}

std::uint64_t TableState::digest() const {
  std::uint64_t rows = 0;  // a sum: the order of insertion is not part of the state
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    rows_.index().for_each(slot, [&](RowId row) {
      const RowHeader& header = rows_.header(row);
      const std::uint64_t h = mix64(mix64(header.key) + mix64(header.version ^ 1) +
                                    header.last_use_s + header.frequency);
      rows += mix_words(h, rows_.data(row), rows_.words());
    });
    rows_.index().for_each_sighting(slot, [&](std::uint32_t fingerprint, std::uint32_t count) {
      rows += mix64((std::uint64_t{fingerprint} << 32 | count) + slot);
    });
  }
  std::uint64_t h = mix64(rows ^ schema_.id) ^ std::bit_cast<std::uint32_t>(rate());
  h = mix64(h + rows_.index().hand());
  for (const auto& [clock, rate] : rates_)
    h = mix64(h ^ clock) + std::bit_cast<std::uint32_t>(rate);
  if (clocks_.start() != 0) h = mix64(h ^ clocks_.start());
  for (const auto& [worker, clock] : clocks_.list()) h = mix64(h ^ worker.value) + mix64(clock);
  for (const auto& [clock, pushes] : open_) {
    std::uint64_t sum = 0;
    for (const BufferedPush& push : pushes) {
      std::uint64_t p = mix64(push.worker.value ^ mix64(push.client.value ^ mix64(push.sequence)));
      for (const std::uint64_t key : push.keys) p = mix64(p ^ key);
      sum += mix_words(p, push.grads.data(), push.grads.size());
    }
    h = mix64(h ^ clock) + sum;
  }
  return h;
}

}  // namespace dlrun::ps
