#include "io/core/line_parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/core/text.h"

namespace dlrun::io {

std::size_t record_length(std::string_view bytes, bool quoted_newlines) {
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  const auto find = [end](const char* from, char c) -> const char* {
    if (from == end) return nullptr;
    return static_cast<const char*>(std::memchr(from, c, static_cast<std::size_t>(end - from)));
  };
  const char* p = begin;
  for (;;) {
    const char* const newline = find(p, '\n');
    if (!quoted_newlines)
      return newline == nullptr ? 0 : static_cast<std::size_t>(newline + 1 - begin);
    const char* const open = find(p, '"');
    if (open == nullptr || (newline != nullptr && newline < open))
      return newline == nullptr ? 0 : static_cast<std::size_t>(newline + 1 - begin);
    const char* const close = find(open + 1, '"');
    if (close == nullptr) return 0;
    p = close + 1;
  }
}

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool blank(std::string_view line, char delimiter) {
  return std::all_of(line.begin(), line.end(),
                     [delimiter](char c) { return is_blank(c) && c != delimiter; });
}

ParseProgress LineParser::parse(std::string_view bytes, std::uint64_t offset, bool last,
                                Table& table) {
  std::size_t at = 0;
  readable_ = bytes.data() + bytes.size();
  if (!std::exchange(begun_, true)) first_ = offset == 0;
  const auto bad = [&](std::size_t start, std::size_t next, Trouble trouble) {
    BadRecord record{offset + start, trouble.at + 1, std::move(trouble.reason), trouble.fatal};
    return ParseProgress{next, std::move(record)};
  };
  while (at < bytes.size()) {
    if (offset + at == 0) {
      const std::string_view head = bytes.substr(0, kByteOrderMark.size());
      if (head == kByteOrderMark) {
        at += head.size();
        continue;
      }
      if (!last && head.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(head))
        return {at, std::nullopt};
    }
    const std::string_view rest = bytes.substr(at);
    if (passing_over_) {
      const std::size_t length = record_length(rest, false);
      if (length == 0) return {bytes.size(), std::nullopt};
      passing_over_ = false;
      at += length;
      continue;
    }
    std::size_t length = record_length(rest, rules_.quoted_newlines);
    if (length == 0 && last) length = rest.size();
    const std::string_view line = length == 0 ? rest : without_end(rest.substr(0, length));
    const std::uint64_t most = rules_.record_bytes_max + (length == 0 ? 2 : 0);  // 2: CR LF to come
    if (line.size() > most) {
      first_ = false;
      passing_over_ = length == 0;
      Trouble trouble{0,
                      "record of more than " + std::to_string(rules_.record_bytes_max) + " bytes"};
      if (rules_.quoted_newlines) {
        trouble.reason += " (a quote that nobody closes?)";
        trouble.fatal = true;
      }
      return bad(at, length == 0 ? bytes.size() : at + length, std::move(trouble));
    }
    if (length == 0) return {at, std::nullopt};
    if (blank(line, rules_.delimiter)) {
      at += length;
      continue;
    }
    const std::size_t rows = table.rows;
    auto trouble = parse_line(line, std::exchange(first_, false), table);
    if (trouble) {
      table.truncate(rows);
      return bad(at, at + length, std::move(*trouble));
    }
    at += length;
  }
  return {at, std::nullopt};
}

}  // namespace dlrun::io
