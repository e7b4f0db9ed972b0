#include "ps/core/value_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ps/core/half.h"
#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

constexpr std::size_t up_to_4(std::size_t n) noexcept { return (n + 3) / 4 * 4; }

template <class T>
void store(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void encode_int8(const float* x, std::uint32_t dim, std::byte* out) {
  float most = 0;
  bool finite = true;
  for (std::uint32_t i = 0; i < dim; ++i) {
    finite = finite && std::isfinite(x[i]);
    most = std::max(most, std::fabs(x[i]));
  }
  const float scale = finite ? most / 127.0f : std::numeric_limits<float>::quiet_NaN();
  store(out, scale);
  for (std::uint32_t i = 0; i < dim; ++i) {
    const float q = scale > 0 ? std::clamp(std::nearbyint(x[i] / scale), -127.0f, 127.0f) : 0.0f;
    store(out + 4 + i, static_cast<std::int8_t>(q));
  }
  std::fill(out + 4 + dim, out + 4 + up_to_4(dim), std::byte{0});
}

void decode_int8(const std::byte* in, std::uint32_t dim, float* out) {
  const auto scale = load<float>(in);
  for (std::uint32_t i = 0; i < dim; ++i)
    out[i] = scale * static_cast<float>(load<std::int8_t>(in + 4 + i));
}

void encode_one_bit(const float* x, std::uint32_t dim, std::byte* out) {
  double sum[2] = {};
  std::uint32_t count[2] = {};
  for (std::uint32_t at = 0; at < dim; at += 32) {
    std::uint32_t word = 0;
    for (std::uint32_t i = at; i < std::min(dim, at + 32); ++i) {
      const unsigned up = x[i] >= 0 ? 1 : 0;
      word |= up << (i - at);
      sum[up] += x[i];
      ++count[up];
    }
    store(out + 8 + at / 8, word);
  }
  for (int up = 0; up < 2; ++up)
    store(out + 4 * up, count[up] == 0 ? 0.0f : static_cast<float>(sum[up] / count[up]));
}

void decode_one_bit(const std::byte* in, std::uint32_t dim, float* out) {
  const float means[2] = {load<float>(in), load<float>(in + 4)};
  for (std::uint32_t i = 0; i < dim; ++i)
    out[i] = means[load<std::uint32_t>(in + 8 + i / 32 * 4) >> (i % 32) & 1];
}

void encode_top_k(const float* x, std::uint32_t dim, std::uint32_t k, std::byte* out) {
  std::vector<std::uint16_t> order(dim);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  const auto size = [&](std::uint16_t i) {
    return std::isnan(x[i]) ? std::numeric_limits<float>::infinity() : std::fabs(x[i]);
  };
  std::nth_element(order.begin(), order.begin() + (k - 1), order.end(),
                   [&](std::uint16_t a, std::uint16_t b) {
                     return size(a) != size(b) ? size(a) > size(b) : a < b;
                   });
  std::sort(order.begin(), order.begin() + k);
  std::byte* values = out + up_to_4(2 * std::size_t{k});
  std::fill(out + 2 * std::size_t{k}, values, std::byte{0});
  for (std::uint32_t i = 0; i < k; ++i) {
    store(out + 2 * i, order[i]);
    store(values + 4 * i, x[order[i]]);
  }
}

Status decode_top_k(const std::byte* in, std::uint32_t dim, std::uint32_t k, float* out) {
  std::fill_n(out, dim, 0.0f);
  const std::byte* values = in + up_to_4(2 * std::size_t{k});
  std::int32_t last = -1;
  for (std::uint32_t i = 0; i < k; ++i) {
    const auto index = load<std::uint16_t>(in + 2 * i);
    if (index <= last || index >= dim)
      return fail(Errc::kCorrupt, "top-k: index " + std::to_string(index) + " after " +
                                      std::to_string(last) + " of " + std::to_string(dim));
    last = index;
    out[index] = load<float>(values + 4 * i);
  }
  return {};
}

}  // namespace

std::size_t encoded_row_bytes(const CodecSpec& spec, std::uint32_t dim) noexcept {
  switch (spec.codec) {
    case Codec::kF32:
      return 4 * std::size_t{dim};
    case Codec::kF16:
    case Codec::kBf16:
      return 2 * std::size_t{dim};
    case Codec::kInt8:
      return 4 + up_to_4(dim);
    case Codec::kOneBit:
      return 8 + (std::size_t{dim} + 31) / 32 * 4;
    case Codec::kTopK:
      return up_to_4(2 * std::size_t{spec.k}) + 4 * std::size_t{spec.k};
  }
  return 0;
}

void encode_rows(const CodecSpec& spec, std::span<const float> values, std::uint32_t dim,
                 std::byte* out) {
  DLRUN_ASSERT(dim > 0 && values.size() % dim == 0);
  DLRUN_ASSERT(spec.codec != Codec::kTopK || (spec.k >= 1 && spec.k <= dim));
  const std::size_t row_bytes = encoded_row_bytes(spec, dim);
  for (std::size_t at = 0; at < values.size(); at += dim, out += row_bytes) {
    const float* x = values.data() + at;
    switch (spec.codec) {
      case Codec::kF32:
        std::memcpy(out, x, row_bytes);
        break;
      case Codec::kF16:
      case Codec::kBf16: {
        // In pieces, so that `out` may be unaligned.
        std::uint16_t half[256];
        for (std::uint32_t i = 0; i < dim; i += 256) {
          const std::size_t n = std::min<std::size_t>(256, dim - i);
          (spec.codec == Codec::kF16 ? f32_to_f16 : f32_to_bf16)(x + i, half, n);
          std::memcpy(out + 2 * std::size_t{i}, half, 2 * n);
        }
        break;
      }
      case Codec::kInt8:
        encode_int8(x, dim, out);
        break;
      case Codec::kOneBit:
        encode_one_bit(x, dim, out);
        break;
      case Codec::kTopK:
        encode_top_k(x, dim, spec.k, out);
        break;
    }
  }
}

Status decode_rows(const CodecSpec& spec, std::span<const std::byte> bytes, std::uint32_t dim,
                   std::span<float> out) {
  if (spec.codec == Codec::kTopK && (spec.k < 1 || spec.k > dim))
    return fail(Errc::kCorrupt,
                "top-k: k is " + std::to_string(spec.k) + " of " + std::to_string(dim));
  const std::size_t row_bytes = encoded_row_bytes(spec, dim);
  if (dim == 0 || out.size() % dim != 0 || bytes.size() != out.size() / dim * row_bytes) {
    return fail(Errc::kCorrupt, std::to_string(bytes.size()) + " bytes for " +
                                    std::to_string(out.size()) + " values of codec " +
                                    std::to_string(static_cast<int>(spec.codec)));
  }
  const std::byte* in = bytes.data();
  for (std::size_t at = 0; at < out.size(); at += dim, in += row_bytes) {
    float* x = out.data() + at;
    switch (spec.codec) {
      case Codec::kF32:
        std::memcpy(x, in, row_bytes);
        break;
      case Codec::kF16:
      case Codec::kBf16: {
        std::uint16_t half[256];
        for (std::uint32_t i = 0; i < dim; i += 256) {
          const std::size_t n = std::min<std::size_t>(256, dim - i);
          std::memcpy(half, in + 2 * std::size_t{i}, 2 * n);
          (spec.codec == Codec::kF16 ? f16_to_f32 : bf16_to_f32)(half, x + i, n);
        }
        break;
      }
      case Codec::kInt8:
        decode_int8(in, dim, x);
        break;
      case Codec::kOneBit:
        decode_one_bit(in, dim, x);
        break;
      case Codec::kTopK:
        DLRUN_TRY(decode_top_k(in, dim, spec.k, x));
        break;
    }
  }
  return {};
}

ErrorFeedback::ErrorFeedback(std::uint32_t dim, std::size_t rows_max)
    : dim_(dim),
      rows_max_(rows_max),
      block_rows_(std::max<std::size_t>(1, kBlockBytes / (sizeof(float) * dim))) {}

void ErrorFeedback::add_to(std::uint64_t key, float* row) const noexcept {
  const auto place = places_.find(key);
  if (place == places_.end()) return;
  const float* from = owed(place->second);
  for (std::uint32_t i = 0; i < dim_; ++i) row[i] += from[i];
}

void ErrorFeedback::encode(const CodecSpec& spec, std::span<const std::uint64_t> keys,
                           std::span<const float> values, std::byte* out) {
  DLRUN_ASSERT(values.size() == keys.size() * dim_);
  wanted_.assign(values.begin(), values.end());
  for (std::size_t i = 0; i < keys.size(); ++i) add_to(keys[i], wanted_.data() + i * dim_);
  encode_rows(spec, wanted_, dim_, out);
  sent_.resize(wanted_.size());
  const Status own =
      decode_rows(spec, {out, keys.size() * encoded_row_bytes(spec, dim_)}, dim_, sent_);
  DLRUN_ASSERT(own.has_value());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto known = places_.find(keys[i]);
    if (known == places_.end() && places_.size() >= rows_max_) {
      ++forgotten_;
      continue;
    }
    const std::size_t row = known != places_.end() ? known->second : places_.size();
    if (known == places_.end()) {
      places_.emplace(keys[i], row);
      if (row == owed_.size() * block_rows_)
        owed_.push_back(std::make_unique<float[]>(block_rows_ * dim_));
    }
    float* to = owed(row);
    for (std::uint32_t d = 0; d < dim_; ++d) {
      const float lost = wanted_[i * dim_ + d] - sent_[i * dim_ + d];
      to[d] = std::isfinite(lost) ? lost : 0.0f;
    }
  }
}

}  // namespace dlrun::ps
