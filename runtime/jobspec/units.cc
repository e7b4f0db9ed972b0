#include "runtime/jobspec/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace dlrun::jobspec {
namespace {

constexpr double kDurationSecondsMax = 10.0 * 366 * 86400;

/// Reads a decimal number (no exponent, no sign) from the front of `text`.
bool eat_number(std::string_view& text, double& out) {
  std::size_t n = 0;
  while (n < text.size() && (std::isdigit(static_cast<unsigned char>(text[n])) || text[n] == '.'))
    ++n;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + n, out, std::chars_format::fixed);
  if (n == 0 || error != std::errc{} || end != text.data() + n) return false;
  text.remove_prefix(n);
  return true;
}

std::string_view eat_word(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && std::isalpha(static_cast<unsigned char>(text[n]))) ++n;
  const std::string_view word = text.substr(0, n);
  text.remove_prefix(n);
  return word;
}

bool eat_u32(std::string_view text, std::uint32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const auto bad = [&] {
    return fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not a duration (like 90s, 1h30m, 500ms)", text));
  };
  std::string_view rest = text;
  double seconds = 0;
  int pieces = 0;
  if (rest.empty()) return bad();
  while (!rest.empty()) {
    double number = 0;
    if (!eat_number(rest, number)) return bad();
    const std::string_view unit = eat_word(rest);
    double scale = 0;
    if (unit == "ns")
      scale = 1e-9;
    else if (unit == "us")
      scale = 1e-6;
    else if (unit == "ms")
      scale = 1e-3;
    else if (unit == "s" || unit.empty())
      scale = 1;
    else if (unit == "m" || unit == "min")
      scale = 60;
    else if (unit == "h")
      scale = 3600;
    else if (unit == "d")
      scale = 86400;
    else
      return bad();
    if (unit.empty() && (!rest.empty() || pieces > 0)) return bad();
    ++pieces;
    seconds += number * scale;
  }
  if (seconds > kDurationSecondsMax)
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is more than ten years", text));
  return Duration(std::llround(seconds * 1e9));
}

Result<std::int64_t> parse_size(std::string_view text) {
  std::string_view rest = text;
  double number = 0;
  const auto bad = [&] {
    return fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not a size (like 2GiB, 512MB, 1024)", text));
  };
  if (!eat_number(rest, number)) return bad();
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  std::string unit(rest);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},
                                                                   {"b", 1},
                                                                   {"k", 1e3},
                                                                   {"kb", 1e3},
                                                                   {"m", 1e6},
                                                                   {"mb", 1e6},
                                                                   {"g", 1e9},
                                                                   {"gb", 1e9},
                                                                   {"t", 1e12},
                                                                   {"tb", 1e12},
                                                                   {"kib", 1024.0},
                                                                   {"ki", 1024.0},
                                                                   {"mib", 1048576.0},
                                                                   {"mi", 1048576.0},
                                                                   {"gib", 1073741824.0},
                                                                   {"gi", 1073741824.0},
                                                                   {"tib", 1099511627776.0},
                                                                   {"ti", 1099511627776.0}};
  for (const auto& [name, scale] : kUnits) {
    if (unit != name) continue;
    const double bytes = number * scale;
    if (bytes > 9.0e18) return fail(Errc::kInvalidArgument, fmt::format("'{}' is too large", text));
    return static_cast<std::int64_t>(std::llround(bytes));
  }
  return bad();
}

Result<std::pair<std::uint32_t, std::uint32_t>> parse_count(std::string_view text) {
  std::pair<std::uint32_t, std::uint32_t> out;
  const auto dots = text.find("..");
  const bool ok =
      dots == std::string_view::npos
          ? eat_u32(text, out.first) && eat_u32(text, out.second)
          : eat_u32(text.substr(0, dots), out.first) && eat_u32(text.substr(dots + 2), out.second);
  if (!ok || out.first < 1 || out.second < out.first || out.second > 65536)
    return fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not a count (like 4 or 1..4; 1 to 65536)", text));
  return out;
}

Result<std::int64_t> parse_cpus(std::string_view text) {
  std::string_view rest = text;
  double number = 0;
  if (!eat_number(rest, number) || !rest.empty() || number > 1e6)
    return fail(
        Errc::kInvalidArgument,
        fmt::format("'{}' is not a number of cores (like 2 or 0.5; at most 1000000)", text));
  return static_cast<std::int64_t>(std::llround(number * 1000));
}

std::string format_duration(Duration duration) {
  const double seconds = static_cast<double>(duration.count()) / 1e9;
  if (seconds < 1) return fmt::format("{:.0f}ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole / 3600 % 24);
}

std::string format_size(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (word.size() > 64) return {};
  std::string_view best;
  std::size_t best_distance = ~std::size_t{0};
  for (const std::string_view candidate : candidates) {
    // Optimal string alignment: three rows of the usual table.
    std::vector<std::size_t> before(candidate.size() + 1), last(candidate.size() + 1),
        row(candidate.size() + 1);
    for (std::size_t j = 0; j <= candidate.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t change = word[i - 1] == candidate[j - 1] ? 0 : 1;
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
        if (i > 1 && j > 1 && word[i - 1] == candidate[j - 2] && word[i - 2] == candidate[j - 1])
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
      before.swap(last);
      last.swap(row);
    }
    const std::size_t distance = last[candidate.size()];
    const std::size_t allowed =
        std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (distance <= allowed && distance < best_distance) best = candidate, best_distance = distance;
  }
  return std::string(best);
}

}  // namespace dlrun::jobspec
