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
constexpr std::uint32_t kIndexBytesOfRow = 32;

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

/// fetch(i), kAhead keys later find(i), and as many later work(i), for the keys 0 .. n - 1.
constexpr std::size_t kAhead = 8;
constexpr std::size_t kRing = 4 * kAhead;  // to remember what was found, and its hash
template <class Fetch, class Find, class Work>
inline void in_a_pipe(std::size_t n, Fetch fetch, Find find, Work work) {
  for (std::size_t i = 0; i < std::min(n, 2 * kAhead); ++i) fetch(i);
  for (std::size_t i = 0; i < std::min(n, kAhead); ++i) find(i);
  for (std::size_t i = 0; i < n; ++i) {
    if (i + 2 * kAhead < n) fetch(i + 2 * kAhead);
    if (i + kAhead < n) find(i + kAhead);
    work(i);
  }
}

}  // namespace

std::uint32_t TableState::words(const TableSchema& schema) noexcept {
  return weight_words(schema) + state_floats(schema);
}

TableState::TableState(TableSchema schema)
    : schema_(std::move(schema)),
      weight_words_(weight_words(schema_)),
      rows_(schema_.id, words(schema_), schema_.eviction == Eviction::kLfu),
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
      if (schema_.dim == 16) {  // a line: no call
        std::memcpy(out, rows_.data(row), 16 * sizeof(float));
      } else {
        std::memcpy(out, rows_.data(row), schema_.dim * sizeof(float));
      }
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
  const std::size_t weight_bytes = std::size_t{weight_words_} * sizeof(float);
  const SlotIndex& index = rows_.index();
  std::uint64_t hashes[kRing];
  RowId found[kRing];
  const auto fetch = [&](std::size_t i) {
    const std::uint64_t hash = rows_.hash(keys[i]);
    hashes[i % kRing] = hash;
    index.prefetch(hash);
  };
  const auto find = [&](std::size_t i) {
    const Place row = index.find(hashes[i % kRing]);
    const bool there = row && !expired(row, now_s);
    found[i % kRing] = there ? row.row() : kNoRow;
    if (there) rows_.prefetch(row.row(), weight_bytes);
  };
  in_a_pipe(keys.size(), fetch, find, [&](std::size_t i) {
    const RowId row = found[i % kRing];
    float* to = out + i * schema_.dim;
    if (row == kNoRow) {
      read_missing(keys[i], to);
    } else {
      read_row(row, to);
    }
  });
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

/// A row that has expired is another one with the same key.
void TableState::clear_row(std::uint64_t key, RowId row) {
  std::memset(rows_.data(row), 0, rows_.words() * sizeof(float));
  rows_.set_frequency(row, 0);
  birth(key, row);
}

void TableState::apply(std::span<const std::uint64_t> keys, const float* grads,
                       std::uint64_t version, std::uint32_t now_s, Side side) {
  if (fork_ != nullptr) fork_begin(side);
  const std::size_t n = keys.size();
  const SlotIndex& index = rows_.index();
  Stamps& stamps = rows_.stamps();
  const std::uint32_t stamp = stamps.take(version, now_s);
  std::uint32_t stamped = 0;
  std::uint64_t hashes[kRing];
  RowId found[kRing];
  Place places[kRing];
  std::uint64_t moves[kRing];  // of the index, when it was found
  RowId rows[kWave];           // that wait for their step
  const float* grads_of[kWave];
  std::uint32_t m = 0;
  const auto fetch = [&](std::size_t i) {
    const std::uint64_t hash = rows_.hash(keys[i]);
    hashes[i % kRing] = hash;
    index.prefetch(hash);
  };
  const auto find = [&](std::size_t i) {
    const Place place = index.find(hashes[i % kRing]);
    found[i % kRing] = kNoRow;
    if (!place) return;
    const RowId row = place.row();
    found[i % kRing] = row;
    places[i % kRing] = place;
    moves[i % kRing] = index.moves();
    rows_.prefetch(row);
  };
  // A row that was absent when it was looked for is absent still: keys are distinct, and none goes
  // before the end. One that was there may have another place: a slot doubles when a row is made.
  in_a_pipe(n, fetch, find, [&](std::size_t i) {
    RowId row = found[i % kRing];
    const float* grad = grads + i * schema_.dim;
    Place place;
    if (row != kNoRow) {
      place = places[i % kRing];
      if (moves[i % kRing] != index.moves()) place = index.find(hashes[i % kRing]);
    }
    if (fork_ != nullptr) fork_key(hashes[i % kRing], place, grad);
    if (row == kNoRow) {
      const std::uint64_t hash = hashes[i % kRing];
      if (!admits(keys[i], hash, version)) {
        ++stats_.not_admitted;
        return;
      }
      place = rows_.add_hash(hash);
      row = place.row();
      if (fork_ != nullptr) fork_birth(hash, row);
      birth(keys[i], row);
    } else if (expired(place, now_s)) {
      clear_row(keys[i], row);
    }
    if (place.stamp() != stamp) {
      rows_.set_stamp(place, stamp);
      ++stamped;
    }
    if (rows_.counts()) {
      const std::uint32_t often = rows_.frequency(row);
      rows_.set_frequency(row, std::max(often, often + 1));
    }
    rows[m] = row;
    grads_of[m] = grad;
    if (++m < kWave) return;
    step_wave(m, rows, grads_of);
    m = 0;
  });
  step_wave(m, rows, grads_of);
  stamps.hold(stamp, stamped);
  stamps.drop(stamp);
  if (fork_ != nullptr) fork_end(version, now_s);
  if (schema_.eviction != Eviction::kNone) evict(n, now_s);
}

void TableState::evict_row(Place row) {
  if (fork_ != nullptr) {
    fork_eviction(row);
    fork_gone(row.row());
  }
  if (watch_) evicted_.push_back(rows_.key(row));
  rows_.erase(row);
  ++stats_.evicted;
}

void TableState::evict(std::size_t touched, std::uint32_t now_s) {
  SlotIndex& index = rows_.index();
  std::vector<std::uint64_t>& victims = victims_;
  const auto evict_victims = [&] {  // by hash: each one that goes moves others
    for (const std::uint64_t hash : victims) evict_row(index.find(hash));
    victims.clear();
  };
  while (rows_.rows() > rows_max_) {
    index.next_rows(kHandRows, seen_by_hand_);
    if (rows_.counts()) {
      for (const Place row : seen_by_hand_) rows_.prefetch(row.row());
    }
    const auto rank = [&](Place row) {
      return std::tuple(expired(row, now_s) ? 0 : 1, rows_.frequency(row.row()), rows_.version(row),
                        rows_.key(row));
    };
    const std::size_t n = std::min<std::size_t>(rows_.rows() - rows_max_,
                                                std::max<std::size_t>(1, seen_by_hand_.size() / 8));
    std::partial_sort(seen_by_hand_.begin(), seen_by_hand_.begin() + static_cast<std::ptrdiff_t>(n),
                      seen_by_hand_.end(), [&](Place a, Place b) { return rank(a) < rank(b); });
    for (std::size_t i = 0; i < n; ++i) victims.push_back(seen_by_hand_[i].hash());
    evict_victims();
  }
  if (schema_.ttl_s == 0) return;
  // Expired rows read as missing already; the sweep only gives their memory back.
  index.next_rows(static_cast<std::uint32_t>(touched / 4 + 16), seen_by_hand_);
  for (const Place row : seen_by_hand_) {
    if (expired(row, now_s)) victims.push_back(row.hash());
  }
  evict_victims();
}

std::vector<std::uint64_t> TableState::keys_of_slot(std::uint32_t slot, std::uint64_t from,
                                                    std::size_t n_max) const {
  std::vector<std::uint64_t> keys;
  keys.reserve(rows_.rows_of_slot(slot));
  rows_.index().for_each(slot, [&](Place row) {
    const std::uint64_t key = rows_.key(row);
    if (key >= from) keys.push_back(key);
  });
  if (keys.size() > n_max) {
    std::nth_element(keys.begin(), keys.begin() + n_max, keys.end());
    keys.resize(n_max);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void TableState::erase_slot(std::uint32_t slot) {
  if (fork_ != nullptr) rows_.index().for_each(slot, [&](Place row) { fork_gone(row.row()); });
  rows_.erase_slot(slot);
  erase_kept(slot);
}

std::uint64_t TableState::digest() const {
  std::uint64_t rows = 0;  // a sum: the order of insertion is not part of the state
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    rows_.index().for_each(slot, [&](Place row) {
      const std::uint64_t h = mix64(mix64(rows_.key(row)) + mix64(rows_.version(row) ^ 1) +
                                    rows_.last_use_s(row) + rows_.frequency(row.row()));
      rows += mix_words(h, rows_.data(row.row()), rows_.words());
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
