#pragma once
/// bench/report/report.h: one JSON line for one figure of a benchmark: value and baseline as
/// medians over rounds that were interleaved in one run, their ratio (more is better: value /
/// baseline for rates, baseline / value for times and sizes), its spread, and whether the figure
/// keeps its `must`. ok judges the lower quartile of the rounds' ratios; for an absolute must the
/// upper quartile of the values.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace dlrun::bench {

enum class Better { kMore, kLess };

/// ratio >= at_least, or value <= at_most; neither: nothing is asked.
struct Must {
  std::optional<double> ratio_at_least;
  std::optional<double> value_at_most;
};

struct Figure {
  std::string bench;
  std::string metric;
  std::string unit;
  Better better = Better::kMore;
  std::vector<double> values;  ///< one a round
  std::string baseline_name;
  std::vector<double> baselines;  ///< as many, or none: then `reason` says why
  std::string reason;
  Must must;
};

/// Median and quartiles by linear interpolation (p in [0, 1]); `values` must not be empty.
double quantile(std::vector<double> values, double p);

/// The line, without its end.
std::string to_json(const Figure& figure);

/// Writes the line to stdout and flushes.
void print(const Figure& figure);

}  // namespace dlrun::bench
