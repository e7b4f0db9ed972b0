#pragma once
/// tests/io/fuzz_table.h: what every fuzz target of a typed format checks: no byte makes the parser
/// read outside its piece or leave an unsound table, and pieces of another size give the same rows
/// and the same errors. The first byte of the input picks options, the second the size of the
/// pieces.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "io/core/table_parser.h"

namespace dlrun::io {

inline void must(bool holds) {
  if (!holds) std::abort();
}

struct FuzzOutcome {
  Table table;
  std::vector<std::string> bad;
};

inline FuzzOutcome fuzz_parse(TableParser& parser, std::string_view bytes, std::size_t piece) {
  FuzzOutcome out;
  parser.prepare(out.table);
  std::size_t at = 0, have = 0;
  for (;;) {
    have = have + piece < bytes.size() ? have + piece : bytes.size();
    const bool last = have == bytes.size();
    const std::vector<char> part(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                 bytes.begin() + static_cast<std::ptrdiff_t>(have));
    for (;;) {
      const std::size_t begin = part.size() - (have - at);
      const auto progress =
          parser.parse({part.data() + begin, part.size() - begin}, at, last, out.table);
      must(progress.consumed <= have - at);
      at += progress.consumed;
      if (!progress.bad) break;
      must(!progress.bad->reason.empty() && progress.bad->column >= 1);
      out.bad.push_back(std::to_string(progress.bad->offset) + ":" +
                        std::to_string(progress.bad->column) + " " + progress.bad->reason);
      if (progress.bad->fatal) return out;
      must(progress.consumed > 0);
    }
    if (last) {
      must(at == bytes.size());
      return out;
    }
  }
}

inline void check_sound(const Table& table) {
  for (const Column& c : table.columns) {
    must(c.valid.size() == (c.may_miss ? table.rows : 0));
    must(c.row_ends.size() == (c.width == 0 ? table.rows : 0));
    const std::size_t values = c.width != 0      ? table.rows * static_cast<std::size_t>(c.width)
                               : table.rows == 0 ? 0
                                                 : static_cast<std::size_t>(c.row_ends.back());
    must(c.values() == values);
    if (c.type == ValueType::kBytes)
      must(c.data.size() == (values == 0 ? 0 : static_cast<std::size_t>(c.value_ends.back())));
  }
}

/// `make` gives a new parser.
template <class Make>
void fuzz_table(Make make, std::string_view bytes, std::size_t piece) {
  const std::unique_ptr<TableParser> whole = make(), pieces = make();
  const FuzzOutcome a = fuzz_parse(*whole, bytes, bytes.size() + 1);
  const FuzzOutcome b = fuzz_parse(*pieces, bytes, piece + 1);
  check_sound(a.table);
  check_sound(b.table);
  must(a.bad == b.bad && a.table.rows == b.table.rows);
  must(a.table.columns.size() == b.table.columns.size());
  for (std::size_t i = 0; i < a.table.columns.size(); ++i) {
    const Column& x = a.table.columns[i];
    const Column& y = b.table.columns[i];
    must(x.data == y.data && x.value_ends == y.value_ends && x.row_ends == y.row_ends &&
         x.valid == y.valid);
  }
}

/// The options and the size of a piece off the front of a fuzzer's input.
struct FuzzInput {
  std::uint8_t options = 0;
  std::size_t piece = 0;
  std::string_view bytes;
};
inline FuzzInput fuzz_input(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return {};
  return {data[0], data[1], {reinterpret_cast<const char*>(data) + 2, size - 2}};
}

}  // namespace dlrun::io
