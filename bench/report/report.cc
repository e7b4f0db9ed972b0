#include "bench/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "runtime/base/assert.h"

namespace dlrun::bench {
namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

double quantile(std::vector<double> values, double p) {
  DLRUN_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

std::string to_json(const Figure& f) {
  DLRUN_ASSERT(!f.values.empty());
  DLRUN_ASSERT(f.baselines.empty() || f.baselines.size() == f.values.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < f.baselines.size(); ++i)
    ratios.push_back(f.better == Better::kMore ? f.values[i] / f.baselines[i]
                                               : f.baselines[i] / f.values[i]);

  std::string must;
  bool ok = true;
  if (f.must.ratio_at_least) {
    must = "ratio >= " + number(*f.must.ratio_at_least);
    ok = !ratios.empty() && quantile(ratios, 0.25) >= *f.must.ratio_at_least;
  } else if (f.must.value_at_most) {
    must = "value <= " + number(*f.must.value_at_most);
    ok = quantile(f.values, 0.75) <= *f.must.value_at_most;
  }

  std::string line = "{\"bench\":" + quoted(f.bench) + ",\"metric\":" + quoted(f.metric) +
                     ",\"value\":" + number(quantile(f.values, 0.5)) +
                     ",\"unit\":" + quoted(f.unit);
  if (ratios.empty()) {
    line += ",\"baseline\":null,\"reason\":" + quoted(f.reason);
  } else {
    const double median = quantile(ratios, 0.5);
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    line += ",\"baseline\":" + number(quantile(f.baselines, 0.5)) +
            ",\"baseline_name\":" + quoted(f.baseline_name) + ",\"ratio\":" + number(median) +
            ",\"spread\":" + number((*high - *low) / median);
  }
  if (!must.empty()) line += ",\"must\":" + quoted(must) + ",\"ok\":" + (ok ? "true" : "false");
  return line + ",\"rounds\":" + std::to_string(f.values.size()) + "}";
}

void print(const Figure& figure) {
  std::printf("%s\n", to_json(figure).c_str());
  std::fflush(stdout);
}

}  // namespace dlrun::bench
