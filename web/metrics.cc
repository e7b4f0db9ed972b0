#include "web/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace dlrun::web {
namespace {

bool valid_name(std::string_view name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == ':'; });
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::string prometheus_text(const std::vector<Metric>& metrics) {
  std::string out;
  for (const Metric& metric : metrics) {
    if (!valid_name(metric.name)) continue;
    const char* type = !metric.histogram.empty() ? "histogram"
                       : metric.counter          ? "counter"
                                                 : "gauge";
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", metric.name, escaped(metric.help, false),
                       metric.name, type);
    for (const HistogramValues& h : metric.histogram) {
      std::uint64_t total = 0;
      for (std::size_t i = 0; i < h.counts.size(); ++i) {
        total += h.counts[i];
        out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", metric.name,
                           i < h.bounds.size() ? number(h.bounds[i]) : "+Inf", total);
      }
      out += fmt::format("{0}_sum {1}\n{0}_count {2}\n", metric.name, number(h.sum), total);
    }
    if (!metric.histogram.empty()) continue;
    for (const auto& sample : metric.samples) {
      std::string labels;
      for (const auto& [name, value] : sample.labels)
        if (valid_name(name))
          labels +=
              fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", name, escaped(value, true));
      out += labels.empty()
                 ? fmt::format("{} {}\n", metric.name, number(sample.value))
                 : fmt::format("{}{{{}}} {}\n", metric.name, labels, number(sample.value));
    }
  }
  return out;
}

}  // namespace dlrun::web
