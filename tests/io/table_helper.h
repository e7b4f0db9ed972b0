#pragma once
/// tests/io/table_helper.h: a parser of a typed format driven by hand: the whole file at once, or
/// in pieces cut anywhere, which must change nothing; and what came out, as text.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/core/csv.h"
#include "io/core/json_lines.h"
#include "io/core/table_parser.h"
#include "io/source/source.h"
#include "runtime/base/rng.h"

namespace dlrun::io {

/// A file in memory.
class MemoryFile final : public File {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    return bytes_.copy(out.data(), out.size(), static_cast<std::size_t>(offset));
  }
  Status verify() override { return {}; }

 private:
  std::string bytes_;
};

struct Outcome {
  Table table;
  std::vector<BadRecord> bad;
  bool fatal() const { return !bad.empty() && bad.back().fatal; }
};

/// Pieces end where `next_cut(at)` says; what is not consumed comes again with more.
inline Outcome parse_with(TableParser& parser, std::string_view bytes,
                          const std::function<std::size_t(std::size_t)>& next_cut) {
  Outcome out;
  parser.prepare(out.table);
  std::size_t at = 0, have = 0;
  for (;;) {
    have = std::min(bytes.size(), std::max(have, next_cut(have)));
    const bool last = have == bytes.size();
    // An exact copy on the heap, so that one byte too far is seen.
    const std::vector<char> piece(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                  bytes.begin() + static_cast<std::ptrdiff_t>(have));
    const std::size_t rows = out.table.rows;
    auto progress = parser.parse({piece.data(), piece.size()}, at, last, out.table);
    EXPECT_LE(progress.consumed, piece.size());
    EXPECT_GE(out.table.rows, rows);
    at += progress.consumed;
    if (progress.bad) {
      EXPECT_FALSE(progress.bad->reason.empty());
      EXPECT_GE(progress.bad->column, 1u);
      out.bad.push_back(*progress.bad);
      EXPECT_TRUE(progress.bad->fatal || progress.consumed > 0);
      if (progress.bad->fatal || out.bad.size() > 100000) return out;
      continue;
    }
    if (last) {
      EXPECT_EQ(at, bytes.size());
      return out;
    }
  }
}
inline Outcome parse_whole(TableParser& parser, std::string_view bytes) {
  return parse_with(parser, bytes, [&](std::size_t) { return bytes.size(); });
}

inline std::string value_text(const Column& column, std::size_t i) {
  char buffer[64];
  switch (column.type) {
    case ValueType::kUint8:
      return std::to_string(column.as<std::uint8_t>()[i]);
    case ValueType::kInt32:
      return std::to_string(column.as<std::int32_t>()[i]);
    case ValueType::kInt64:
      return std::to_string(column.as<std::int64_t>()[i]);
    case ValueType::kUint64:
      return std::to_string(column.as<std::uint64_t>()[i]);
    case ValueType::kFloat32:
      std::snprintf(buffer, sizeof buffer, "%.9g", static_cast<double>(column.as<float>()[i]));
      return buffer;
    case ValueType::kFloat64:
      std::snprintf(buffer, sizeof buffer, "%.17g", column.as<double>()[i]);
      return buffer;
    case ValueType::kBytes:
      return std::string(column.bytes_of(i));
  }
  return "";
}

/// One row: values with '|' between columns, lists in brackets, '-' for what is missing.
inline std::string row_text(const Table& table, std::size_t row) {
  std::string out;
  for (const Column& column : table.columns) {
    if (&column != &table.columns[0]) out += '|';
    if (column.may_miss && column.valid[row] == 0) {
      out += '-';
      continue;
    }
    std::size_t begin = row * static_cast<std::size_t>(column.width);
    std::size_t end = begin + static_cast<std::size_t>(column.width);
    if (column.width == 0) {
      begin = row == 0 ? 0 : static_cast<std::size_t>(column.row_ends[row - 1]);
      end = static_cast<std::size_t>(column.row_ends[row]);
    }
    if (column.width != 1) out += '[';
    for (std::size_t i = begin; i < end; ++i) out += (i > begin ? " " : "") + value_text(column, i);
    if (column.width != 1) out += ']';
  }
  return out;
}

inline std::string text_of(const Table& table) {
  std::string out;
  for (std::size_t row = 0; row < table.rows; ++row) out += row_text(table, row) + "\n";
  return out;
}
/// "@offset:column reason", fatal ones with '!' before.
inline std::string text_of(const BadRecord& bad) {
  return (bad.fatal ? "!@" : "@") + std::to_string(bad.offset) + ":" + std::to_string(bad.column) +
         " " + bad.reason;
}
/// The rows, then what was bad, a line each.
inline std::string text_of(const Outcome& outcome) {
  std::string out = text_of(outcome.table);
  for (const BadRecord& bad : outcome.bad) out += text_of(bad) + "\n";
  return out;
}

/// A table is sound whatever the bytes were.
inline void expect_sound(const Table& table) {
  for (const Column& c : table.columns) {
    ASSERT_EQ(c.valid.size(), c.may_miss ? table.rows : 0);
    ASSERT_EQ(c.row_ends.size(), c.width == 0 ? table.rows : 0);
    const std::size_t values = c.width != 0      ? table.rows * static_cast<std::size_t>(c.width)
                               : table.rows == 0 ? 0
                                                 : static_cast<std::size_t>(c.row_ends.back());
    ASSERT_EQ(c.values(), values);
    if (c.type == ValueType::kBytes) {
      ASSERT_EQ(c.data.size(), values == 0 ? 0 : static_cast<std::size_t>(c.value_ends.back()));
    } else {
      ASSERT_EQ(c.data.size() % value_bytes(c.type), 0u);
    }
  }
}

using MakeParser = std::function<std::unique_ptr<TableParser>()>;

/// The outcome of the whole file; cut into pieces it must be the same.
inline std::string outcome_of(const MakeParser& make, std::string_view bytes) {
  const auto parser = make();
  const Outcome whole = parse_whole(*parser, bytes);
  expect_sound(whole.table);
  const std::string text = text_of(whole);
  SplitMix64 rng(bytes.size());
  for (const std::size_t most : {std::size_t{1}, std::size_t{7}, std::size_t{61}}) {
    if (most * 4000 < bytes.size()) continue;
    const auto again = make();
    const Outcome pieces = parse_with(*again, bytes, [&](std::size_t at) {
      return at + 1 + static_cast<std::size_t>(rng.below(most));
    });
    EXPECT_EQ(text_of(pieces), text) << "cut into pieces of up to " << most;
  }
  return text;
}

/// A file cut at any byte gives at most the rows of the whole, in their order, and at most one
/// error more; never a crash. Of text without types the last row may be another: "12" cut is "1".
inline void expect_truncation_is_safe(const MakeParser& make, std::string_view bytes,
                                      bool last_may_differ = false) {
  const auto parser = make();
  const std::string whole = text_of(parse_whole(*parser, bytes).table);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    const auto again = make();
    Outcome out = parse_whole(*again, bytes.substr(0, cut));
    expect_sound(out.table);
    EXPECT_LE(out.bad.size(), 1u) << "cut at " << cut;
    if (last_may_differ && out.table.rows > 0) out.table.truncate(out.table.rows - 1);
    const std::string text = text_of(out.table);
    EXPECT_EQ(text, whole.substr(0, text.size())) << "cut at " << cut;
  }
}

/// Bytes changed, put in and taken out anywhere: an outcome, sound, the same in pieces.
inline void expect_mutations_are_safe(const MakeParser& make, const std::string& bytes,
                                      std::string_view spice, int rounds, std::uint64_t seed) {
  SplitMix64 rng(seed);
  for (int i = 0; i < rounds; ++i) {
    std::string text = bytes;
    for (std::uint64_t n = 1 + rng.below(6); n > 0 && !text.empty(); --n) {
      const auto at = static_cast<std::size_t>(rng.below(text.size()));
      const char c = spice.empty() || rng.below(4) == 0
                         ? static_cast<char>(rng.below(256))
                         : spice[static_cast<std::size_t>(rng.below(spice.size()))];
      switch (rng.below(3)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + static_cast<std::size_t>(rng.below(3)));
      }
    }
    (void)outcome_of(make, text);
  }
}

inline FieldSpec field(std::string name, FieldType type, bool may_miss = false,
                       std::uint64_t width = 1) {
  FieldSpec f;
  f.name = std::move(name);
  f.type = type;
  f.may_miss = may_miss;
  f.width = width;
  return f;
}

inline MakeParser csv_of(const Schema& schema, const CsvOptions& options = {}) {
  return [=] {
    auto parser = CsvParser::make(schema, options);
    EXPECT_TRUE(parser) << parser.error().to_string();
    return std::unique_ptr<TableParser>(std::move(*parser));
  };
}
inline MakeParser json_of(const Schema& schema, std::uint64_t record_bytes_max = 256 * 1024) {
  return [=] {
    auto parser = JsonLinesParser::make(schema, record_bytes_max);
    EXPECT_TRUE(parser) << parser.error().to_string();
    return std::unique_ptr<TableParser>(std::move(*parser));
  };
}

}  // namespace dlrun::io
