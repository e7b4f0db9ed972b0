#pragma once
/// bench/ps/click_data.h: a click log with a planted factorization machine, parsed: every row has
/// the id 0 (its weight is the intercept) and kIdsPerRow others, drawn by Zipf's law without
/// repetition in a row. Same arguments, same log.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace dlrun::bench {

inline constexpr std::uint64_t kIds = 1'000'000;  ///< ids are 0 .. kIds - 1
inline constexpr std::size_t kIdsPerRow = 12;
inline constexpr std::size_t kColumns = kIdsPerRow + 1;
inline constexpr std::size_t kFactors = 8;

struct ClickLog {
  std::vector<std::int64_t> ids;  ///< [rows, kColumns], column 0 is id 0
  std::vector<float> labels;      ///< [rows], 0 or 1
  std::vector<float> truth;       ///< [rows], the logit that drew the label
  std::size_t rows() const { return labels.size(); }
};

/// Two logs of one planted model differ by `seed`.
ClickLog draw_clicks(std::size_t rows, std::uint64_t seed);

/// PREFIX.ids.npy (int64 [rows, kColumns]) and PREFIX.labels.npy (float32 [rows]).
Status write_clicks(const ClickLog& log, const std::string& prefix);

}  // namespace dlrun::bench
