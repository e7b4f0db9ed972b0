#include "io/core/token_file.h"

#include <algorithm>

#include "io/core/input_rules.h"
#include "io/core/little.h"

namespace dlrun::io {

Result<std::unique_ptr<TokenParser>> TokenParser::make(TokenOptions options) {
  if (const auto bad = tokens_problem(options))
    return fail(Errc::kInvalidArgument, bad->field + ": " + bad->text);
  return std::unique_ptr<TokenParser>(new TokenParser(options));
}

void TokenParser::prepare(Table& table) const {
  table.rows = 0;
  table.columns.clear();
  Column column;
  column.name = "tokens";
  column.type = ValueType::kInt32;
  column.width = options_.sequence_length;
  table.columns.push_back(std::move(column));
}

std::int64_t TokenParser::token(std::string_view bytes, std::size_t at) const {
  switch (options_.type) {
    case TokenOptions::Type::kU16:
      return little<std::uint16_t>(bytes, at);
    case TokenOptions::Type::kU32:
      return little<std::uint32_t>(bytes, at);
    case TokenOptions::Type::kI32:
      return little<std::int32_t>(bytes, at);
  }
  return 0;
}

ParseProgress TokenParser::parse(std::string_view bytes, std::uint64_t offset, bool last,
                                 Table& table) {
  const std::size_t size = options_.type == TokenOptions::Type::kU16 ? 2 : 4;
  const std::uint64_t length = options_.sequence_length;
  Column& column = table.columns[0];
  std::size_t at = 0;
  const auto bad = [&](std::size_t next, std::size_t place, std::string reason,
                       bool fatal = false) {
    table.truncate(table.rows);
    return ParseProgress{next, BadRecord{offset + at, place + 1, std::move(reason), fatal}};
  };
  while (at < bytes.size()) {
    const std::size_t tokens = (bytes.size() - at) / size;
    // How many make a record, and whether they are there.
    std::size_t n = 0;
    bool whole = false;
    if (length != 0) {
      n = static_cast<std::size_t>(std::min<std::uint64_t>(length, tokens));
      whole = n == length;
    } else {
      while (n < tokens && !whole) whole = token(bytes, at + size * n++) == options_.separator;
      if (passing_over_) {
        passing_over_ = !whole;
        at += n * size;
        if (n == 0) break;
        continue;
      }
      if (n > options_.document_tokens_max) {
        passing_over_ = !whole;
        return bad(
            at + n * size, 0,
            "a document of more than " + std::to_string(options_.document_tokens_max) + " tokens");
      }
    }
    if (!whole) {
      if (!last) return {at, std::nullopt};
      if ((bytes.size() - at) % size != 0) break;
      if (options_.tail == TokenOptions::Tail::kDrop) return {bytes.size(), std::nullopt};
      if (options_.tail == TokenOptions::Tail::kFail)
        return bad(bytes.size(), 0,
                   length != 0 ? "the last sequence has " + std::to_string(n) + " of " +
                                     std::to_string(length) + " tokens"
                               : std::string("the last document has no separator"),
                   true);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t id = token(bytes, at + size * i);
      if (id < 0 || id >= options_.vocabulary)
        return bad(at + n * size, size * i,
                   "token " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(options_.vocabulary));
      column.push(static_cast<std::int32_t>(id));
    }
    for (std::size_t i = n; i < length; ++i) column.push(options_.padding);
    column.end_row();
    ++table.rows;
    at += n * size;
  }
  if (!last || at == bytes.size()) return {at, std::nullopt};
  return bad(bytes.size(), 0, "the file ends within a token", true);
}

}  // namespace dlrun::io
