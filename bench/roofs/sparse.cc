#include "bench/roofs/sparse.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::bench {
namespace {

constexpr std::size_t kRowBytes = 2 * SparseRoof::kDim * sizeof(float);
/// Keys from the fetch of an index line to the look at it, and from there to the work.
constexpr std::size_t kAhead = 8;
constexpr std::size_t kRing = 2 * kAhead;

void adagrad(float* row, const float* g, __m256 rate, __m256 epsilon) {
  for (int half = 0; half < 2; ++half) {
    const __m256 d = _mm256_loadu_ps(g + 8 * half);
    const __m256 n = _mm256_add_ps(_mm256_load_ps(row + 16 + 8 * half), _mm256_mul_ps(d, d));
    _mm256_store_ps(row + 16 + 8 * half, n);
    const __m256 step =
        _mm256_div_ps(_mm256_mul_ps(rate, d), _mm256_add_ps(_mm256_sqrt_ps(n), epsilon));
    _mm256_store_ps(row + 8 * half, _mm256_sub_ps(_mm256_load_ps(row + 8 * half), step));
  }
}

}  // namespace

SparseRoof::SparseRoof(std::span<const std::uint64_t> keys)
    : shift_(64 - static_cast<std::uint32_t>(std::bit_width(keys.size() * 2 - 1))),
      mask_((std::size_t{1} << (64 - shift_)) - 1),
      index_((mask_ + 1) * sizeof(Entry), false),
      rows_(keys.size() * kRowBytes, false) {
  auto* entries = reinterpret_cast<Entry*>(index_.data());
  std::memset(rows_.data(), 0, rows_.size());
  for (std::uint32_t row = 0; row < keys.size(); ++row) {
    std::size_t i = home(keys[row]);
    while (entries[i].row != 0) i = (i + 1) & mask_;
    entries[i] = {keys[row], row + 1};
  }
}

std::size_t SparseRoof::home(std::uint64_t key) const noexcept {
  return static_cast<std::size_t>(mix64(key) >> shift_);
}

std::uint32_t SparseRoof::find(std::uint64_t key) const noexcept {
  const auto* entries = reinterpret_cast<const Entry*>(index_.data());
  for (std::size_t i = home(key);; i = (i + 1) & mask_) {
    if (entries[i].key == key && entries[i].row != 0) return entries[i].row - 1;
    DLRUN_ASSERT(entries[i].row != 0);
  }
}

template <class Work>
void SparseRoof::in_a_pipe(std::span<const std::uint64_t> keys, std::size_t lines,
                           Work work) const {
  const auto* entries = reinterpret_cast<const Entry*>(index_.data());
  const std::size_t n = keys.size();
  std::uint32_t found[kRing];
  const auto fetch = [&](std::size_t i) { __builtin_prefetch(entries + home(keys[i])); };
  const auto look = [&](std::size_t i) {
    const std::uint32_t row_of_key = found[i % kRing] = find(keys[i]);
    const std::byte* row = rows_.data() + row_of_key * kRowBytes;
    __builtin_prefetch(row, 1);
    if (lines > 1) __builtin_prefetch(row + 64, 1);
  };
  for (std::size_t i = 0; i < std::min(n, 2 * kAhead); ++i) fetch(i);
  for (std::size_t i = 0; i < std::min(n, kAhead); ++i) look(i);
  for (std::size_t i = 0; i < n; ++i) {
    if (i + 2 * kAhead < n) fetch(i + 2 * kAhead);
    if (i + kAhead < n) look(i + kAhead);
    work(i, reinterpret_cast<float*>(rows_.data() + found[i % kRing] * kRowBytes));
  }
}

void SparseRoof::push(std::span<const std::uint64_t> keys, const float* grads, float rate,
                      float epsilon) {
  in_a_pipe(keys, 2, [&](std::size_t i, float* row) {
    adagrad(row, grads + i * kDim, _mm256_set1_ps(rate), _mm256_set1_ps(epsilon));
  });
}

void SparseRoof::pull(std::span<const std::uint64_t> keys, float* out) const {
  in_a_pipe(keys, 1, [&](std::size_t i, const float* row) {
    std::memcpy(out + i * kDim, row, kDim * sizeof(float));
  });
}

}  // namespace dlrun::bench
