#pragma once
/// runtime/jobspec/units.h: durations, sizes and ranges as people write them.
/// Errors: kInvalidArgument with an example.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::jobspec {

/// "90", "90s", "1h30m", "500ms", "2d"; >= 0, <= 10 years
Result<Duration> parse_duration(std::string_view text);
/// "2GiB", "512MB", "64k" (k = 1000), "1024"; >= 0
Result<std::int64_t> parse_size(std::string_view text);
/// "4" or "1..4"; 1 <= first <= second <= 65536.
Result<std::pair<std::uint32_t, std::uint32_t>> parse_count(std::string_view text);
/// cores -> 1/1000 of a core: "0.5" -> 500
Result<std::int64_t> parse_cpus(std::string_view text);

std::string format_duration(Duration duration);  ///< "1h30m", "2.5s"
std::string format_size(std::uint64_t bytes);    ///< "1.5 GiB"

/// The candidate nearest to `word` (Damerau-Levenshtein, at most a third of its length off); ""
/// when none is near.
std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace dlrun::jobspec
