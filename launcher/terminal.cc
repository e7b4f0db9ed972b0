#include "launcher/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/utf8.h"
#include "runtime/jobspec/json.h"

namespace dlrun::launcher {
namespace {

/// Length of the UTF-8 character that starts with `c`; 0 = none starts so.
std::size_t utf8_length(unsigned char c) {
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return 2;
  if (c >= 0xE0 && c <= 0xEF) return 3;
  if (c >= 0xF0 && c <= 0xF4) return 4;
  return 0;
}

void escape(std::string& out, std::string_view bytes) {
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::string TerminalFilter::feed(std::string_view bytes) {
  const std::string joined = held_ + std::string(bytes);
  held_.clear();
  const std::string_view in = joined;
  std::string out;
  out.reserve(in.size() + 16);
  for (std::size_t i = 0; i < in.size();) {
    const auto c = static_cast<unsigned char>(in[i]);
    if (c == 0x1B) {
      // Only ESC [ digits ; : m passes.
      std::size_t end = i + 1;
      if (end < in.size() && in[end] == '[') {
        ++end;
        while (end < in.size() && end - i < kSgrBytesMax &&
               ((in[end] >= '0' && in[end] <= '9') || in[end] == ';' || in[end] == ':'))
          ++end;
        if (end < in.size() && in[end] == 'm') {
          out.append(in.substr(i, end + 1 - i));
          i = end + 1;
          continue;
        }
      }
      if (end >= in.size() && end - i < kSgrBytesMax) {
        held_ = std::string(in.substr(i));
        return out;
      }
      escape(out, in.substr(i, 1));
      ++i;
      continue;
    }
    if (c < 0x20 || c == 0x7F) {
      if (c == '\n' || c == '\t' || c == '\r')
        out.push_back(static_cast<char>(c));
      else
        escape(out, in.substr(i, 1));
      ++i;
      continue;
    }
    const std::size_t length = utf8_length(c);
    if (length == 0) {
      escape(out, in.substr(i, 1));
      ++i;
      continue;
    }
    if (i + length > in.size()) {
      bool tails = true;
      for (std::size_t k = i + 1; k < in.size(); ++k)
        tails = tails && (static_cast<unsigned char>(in[k]) & 0xC0) == 0x80;
      if (tails) {
        held_ = std::string(in.substr(i));
        return out;
      }
      escape(out, in.substr(i, 1));
      ++i;
      continue;
    }
    const std::string_view character = in.substr(i, length);
    const bool c1 = length == 2 && c == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
    if (!is_utf8(character)) {
      escape(out, in.substr(i, 1));
      ++i;
      continue;
    }
    if (c1)
      escape(out, character);
    else
      out.append(character);
    i += length;
  }
  return out;
}

std::string TerminalFilter::flush() {
  std::string out;
  escape(out, held_);
  held_.clear();
  return out;
}

std::string harmless(std::string_view text) {
  TerminalFilter filter;
  std::string out = filter.feed(text);
  return out + filter.flush();
}

bool LogPrinter::write(bool is_stderr, std::string_view bytes) {
  if (bytes.empty()) return true;
  at_line_start_ = bytes.back() == '\n';
  return is_stderr ? world_->err(bytes) : world_->out(bytes);
}

std::string LogPrinter::prefix(const Key& key) const {
  return fmt::format("[{} {}] ", std::get<0>(key), std::get<1>(key));
}

bool LogPrinter::print(const std::string& role, std::uint32_t rank, std::uint32_t generation,
                       bool is_stderr, std::string_view bytes) {
  const Key key(role, rank, generation, is_stderr);
  Stream& stream = streams_[key];
  std::string filtered;
  if (is_stderr ? filter_err_ : filter_out_) {
    filtered = stream.filter.feed(bytes);
    bytes = filtered;
  }
  if (style_ == OutputStyle::kRaw) return write(is_stderr, bytes);
  stream.line.append(bytes);
  std::string out;
  std::size_t at = 0;
  for (std::size_t newline; (newline = stream.line.find('\n', at)) != std::string::npos;
       at = newline + 1) {
    if (!stream.mid_line) out += prefix(key);
    out.append(stream.line, at, newline + 1 - at);
    stream.mid_line = false;
  }
  stream.line.erase(0, at);
  if (stream.line.size() > kLineBytesMax) {
    if (!stream.mid_line) out += prefix(key);
    out += stream.line;
    stream.line.clear();
    stream.mid_line = true;
  }
  return write(is_stderr, out);
}

void LogPrinter::flush() {
  for (auto& [key, stream] : streams_) {
    stream.line += stream.filter.flush();
    if (stream.line.empty() && !stream.mid_line) continue;
    std::string out = stream.mid_line || style_ == OutputStyle::kRaw ? "" : prefix(key);
    out += stream.line;
    if (style_ == OutputStyle::kPrefixed) out += "\n";
    stream.line.clear();
    stream.mid_line = false;
    write(std::get<3>(key), out);
  }
}

void StatusLine::hide() {
  if (!shown_) return;
  shown_ = false;
  world_.err("\r\x1b[K");
}

void StatusLine::say(std::string_view text) {
  if (quiet_) return;
  hide();
  last_bar_.clear();
  const std::string line = harmless(text);
  world_.err(world_.color ? fmt::format("\x1b[2mdlrun:\x1b[0m {}\n", line)
                          : fmt::format("dlrun: {}\n", line));
}

void StatusLine::progress(double fraction, std::string_view text, bool at_line_start) {
  if (quiet_ || !std::isfinite(fraction)) return;
  fraction = std::clamp(fraction, 0.0, 1.0);
  std::string note = harmless(text.substr(0, 200));
  std::replace(note.begin(), note.end(), '\n', ' ');
  std::replace(note.begin(), note.end(), '\r', ' ');
  if (!world_.err_tty) {
    const int tenth = static_cast<int>(fraction * 10);
    if (tenth <= last_tenth_) return;
    last_tenth_ = tenth;
    world_.err(fmt::format("dlrun: {:.0f} %{}{}\n", fraction * 100, note.empty() ? "" : " ", note));
    return;
  }
  if (!at_line_start) return;  // a line of the user's stands there unfinished
  const int cells = std::clamp(world_.width / 3, 10, 40);
  const int full = static_cast<int>(std::lround(fraction * cells));
  std::string bar =
      fmt::format("[{}{}] {:3.0f} %", std::string(static_cast<std::size_t>(full), '#'),
                  std::string(static_cast<std::size_t>(cells - full), '-'), fraction * 100);
  const int room = world_.width - static_cast<int>(bar.size()) - 2;
  if (!note.empty() && room > 4 && static_cast<int>(note.size()) <= room) bar += " " + note;
  if (shown_ && bar == last_bar_) return;
  world_.err("\r" + bar + "\x1b[K");
  last_bar_ = std::move(bar);
  shown_ = true;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace dlrun::launcher
