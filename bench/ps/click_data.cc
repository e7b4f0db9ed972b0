#include "bench/ps/click_data.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "bench/ps/zipf.h"
#include "ps/client/npy.h"
#include "runtime/base/rng.h"

namespace dlrun::bench {
namespace {

constexpr std::uint64_t kModelSeed = 41;

/// N(0, 1), a function of (id, which) alone.
float planted(std::uint64_t id, std::uint64_t which) {
  SplitMix64 rng(mix64(id * 16 + which + kModelSeed));
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * rng.uniform()));
}

/// Weight, then factors: [kIds, 1 + kFactors].
std::vector<float> plant() {
  const float weight = 1.2f / std::sqrt(static_cast<float>(kIdsPerRow));
  // A sum of 66 products of two vectors of 8: deviation sqrt(66 * 8) times the square of an
  // element's.
  const float factor = std::sqrt(0.9f / std::sqrt(66.0f * kFactors));
  std::vector<float> model(kIds * (1 + kFactors));
  for (std::uint64_t id = 0; id < kIds; ++id) {
    float* row = model.data() + id * (1 + kFactors);
    row[0] = id == 0 ? -1.0f : weight * planted(id, 0);
    for (std::size_t f = 0; f < kFactors; ++f)
      row[1 + f] = id == 0 ? 0.0f : factor * planted(id, 1 + f);
  }
  return model;
}

float logit_of(const std::vector<float>& model, const std::int64_t* ids) {
  float sum = 0, squares = 0;
  float factors[kFactors] = {};
  for (std::size_t c = 0; c < kColumns; ++c) {
    const float* row = model.data() + static_cast<std::size_t>(ids[c]) * (1 + kFactors);
    sum += row[0];
    for (std::size_t f = 0; f < kFactors; ++f) {
      factors[f] += row[1 + f];
      squares += row[1 + f] * row[1 + f];
    }
  }
  float crossed = -squares;
  for (const float f : factors) crossed += f * f;
  return sum + 0.5f * crossed;
}

}  // namespace

ClickLog draw_clicks(std::size_t rows, std::uint64_t seed) {
  const std::vector<float> model = plant();
  const Zipf law(kIds - 1, 1.1);
  SplitMix64 rng(seed);
  ClickLog log;
  log.ids.resize(rows * kColumns);
  log.labels.resize(rows);
  log.truth.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t* ids = log.ids.data() + row * kColumns;
    ids[0] = 0;
    for (std::size_t n = 1; n < kColumns;) {
      const auto id = static_cast<std::int64_t>(1 + law(rng));
      if (std::find(ids, ids + n, id) != ids + n) continue;
      ids[n++] = id;
    }
    log.truth[row] = logit_of(model, ids);
    log.labels[row] = rng.uniform() < 1 / (1 + std::exp(-log.truth[row])) ? 1.0f : 0.0f;
  }
  return log;
}

Status write_clicks(const ClickLog& log, const std::string& prefix) {
  DLRUN_TRY(ps::write_npy(prefix + ".ids.npy", "<i8", {log.rows(), kColumns},
                          std::as_bytes(std::span(log.ids))));
  return ps::write_npy(prefix + ".labels.npy", "<f4", {log.rows()},
                       std::as_bytes(std::span(log.labels)));
}

}  // namespace dlrun::bench
