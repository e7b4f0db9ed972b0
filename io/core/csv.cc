#include "io/core/csv.h"

#include <algorithm>

#include "io/core/input_rules.h"
#include "io/core/text.h"

namespace dlrun::io {

namespace {

struct Field {
  std::string_view text;  ///< between the quotes; "" not yet undone
  bool quoted = false;
  bool doubled = false;  ///< holds ""
};

std::string undoubled(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '"') ++i;
  }
  return out;
}

/// Reads the field at `at`, moves `at` behind it: to a delimiter or the end.
std::optional<Trouble> next_field(std::string_view line, std::size_t& at, const CsvOptions& options,
                                  Field& field) {
  const char* const begin = line.data();
  const char* const end = begin + line.size();
  const char* p = begin + at;
  const auto place = [begin](const char* q) { return static_cast<std::size_t>(q - begin); };
  field = {};
  if (p != end && *p == '"') {
    const char* const open = p++;
    for (;; ++p) {
      if (p == end)
        return Trouble{place(open),
                       options.newlines_in_quotes
                           ? "a quoted field without its end"
                           : "a quoted field without its end on the line (newlines within quotes "
                             "need newlines_in_quotes)"};
      if (*p == 0) return Trouble{place(p), "a NUL byte"};
      if (*p != '"') continue;
      if (p + 1 == end || p[1] != '"') break;
      field.doubled = true;
      ++p;
    }
    field.quoted = true;
    field.text = {open + 1, static_cast<std::size_t>(p - open - 1)};
    ++p;
    if (p != end && *p != options.delimiter)
      return Trouble{place(p), "unexpected " + shown(p, end) + " after a closing quote"};
  } else {
    const char* const start = p;
    for (; p != end && *p != options.delimiter; ++p) {
      if (*p == '"')
        return Trouble{place(p), "a quote within a field that does not begin with one"};
      if (*p == 0) return Trouble{place(p), "a NUL byte"};
      if (*p == '\r') return Trouble{place(p), "a carriage return that does not end the line"};
      if (*p == '\n') return Trouble{place(p), "a newline within a record"};
    }
    field.text = {start, static_cast<std::size_t>(p - start)};
  }
  at = place(p);
  return std::nullopt;
}

bool is_missing(const Field& field, const CsvOptions& options) {
  return !field.quoted && std::find(options.missing.begin(), options.missing.end(), field.text) !=
                              options.missing.end();
}

/// Calls each(index, field, column) for every field until one says trouble.
template <class Each>
std::optional<Trouble> each_field(std::string_view line, const CsvOptions& options, Each each) {
  std::size_t at = 0;
  for (std::size_t i = 0;; ++i) {
    const std::size_t start = at;
    Field field;
    if (auto trouble = next_field(line, at, options, field)) return trouble;
    if (auto trouble = each(i, field, start)) return trouble;
    if (at == line.size()) return std::nullopt;
    ++at;
  }
}

}  // namespace

CsvParser::CsvParser(const Schema& schema, CsvOptions options)
    : LineParser({options.record_bytes_max, options.newlines_in_quotes, options.delimiter}),
      options_(std::move(options)) {
  for (const FieldSpec& field : schema) fields_.emplace_back(field);
}

Result<std::unique_ptr<CsvParser>> CsvParser::make(const Schema& schema, CsvOptions options) {
  DLRUN_TRY(check_schema(schema));
  if (const auto bad = csv_problem(schema, options.delimiter))
    return fail(Errc::kInvalidArgument, bad->field + ": " + bad->text);
  return std::unique_ptr<CsvParser>(new CsvParser(schema, std::move(options)));
}

void CsvParser::prepare(Table& table) const {
  table.rows = 0;
  table.columns.clear();
  for (const FieldWriter& field : fields_) table.columns.push_back(column_of(field.spec()));
}

std::optional<Trouble> CsvParser::parse_line(std::string_view line, bool first_of_file,
                                             Table& table) {
  const bool header = first_of_file && options_.header;
  std::size_t seen = 0;
  const auto width = [&](std::size_t n) {
    return std::to_string(n) + " fields; the schema has " + std::to_string(fields_.size());
  };
  auto trouble = each_field(
      line, options_,
      [&](std::size_t i, const Field& field, std::size_t start) -> std::optional<Trouble> {
        seen = i + 1;
        if (i >= fields_.size()) return std::nullopt;  // counted, for the message
        std::string_view text = field.text;
        if (field.doubled) text = scratch_ = undoubled(text);
        const FieldSpec& spec = fields_[i].spec();
        if (header) {
          if (text == spec.name) return std::nullopt;
          return Trouble{start, "the header names " + quoted(text) + " where the schema has " +
                                    quoted(spec.name)};
        }
        Column& column = table.columns[i];
        if (is_missing(field, options_)) {
          if (!spec.may_miss)
            return Trouble{start, "field " + quoted(spec.name) + ": no value, and it may not miss"};
          fields_[i].put_missing(column);
          return std::nullopt;
        }
        if (auto why = fields_[i].put(text, column, field.doubled ? nullptr : readable()))
          return Trouble{start, "field " + quoted(spec.name) + ": " + *why};
        column.end_row();
        return std::nullopt;
      });
  if (!trouble && seen != fields_.size()) trouble = Trouble{0, width(seen)};
  if (trouble && header) trouble->fatal = true;
  if (!trouble && !header) ++table.rows;
  return trouble;
}

Result<Schema> infer_csv(std::string_view head, bool whole, const CsvOptions& options) {
  struct Guess {
    std::string name;
    TypeGuess type;
    bool misses = false;
  };
  std::vector<Guess> guesses;
  bool names = options.header;
  std::size_t records = 0;
  std::size_t at = head.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < head.size()) {
    std::size_t length = record_length(head.substr(at), options.newlines_in_quotes);
    if (length == 0 && !whole) break;
    if (length == 0) length = head.size() - at;
    const std::string_view line = without_end(head.substr(at, length));
    const std::size_t start = at;
    at += length;
    if (blank(line, options.delimiter)) continue;
    const bool first = guesses.empty();
    std::size_t seen = 0;
    auto trouble = each_field(
        line, options,
        [&](std::size_t i, const Field& field, std::size_t) -> std::optional<Trouble> {
          seen = i + 1;
          if (seen > kFieldsMax) return Trouble{0, "more than 65536 fields"};
          if (first) guesses.push_back({std::to_string(i), {}, false});
          if (i >= guesses.size()) return std::nullopt;
          const std::string text = field.doubled ? undoubled(field.text) : std::string(field.text);
          Guess& guess = guesses[i];
          if (names)
            guess.name = text;
          else if (is_missing(field, options))
            guess.misses = true;
          else if (field.quoted)
            guess.type.see_text();
          else
            guess.type.see(text);
          return std::nullopt;
        });
    if (!trouble && seen != guesses.size())
      trouble = Trouble{0, std::to_string(seen) + " fields; the first record has " +
                               std::to_string(guesses.size())};
    if (trouble)
      return fail(Errc::kInvalidArgument, "offset " + std::to_string(start) + ", column " +
                                              std::to_string(trouble->at + 1) + ": " +
                                              trouble->reason);
    if (!names) ++records;
    names = false;
  }
  if (records == 0) return fail(Errc::kInvalidArgument, "no record to infer the types from");
  Schema schema;
  for (Guess& guess : guesses) {
    FieldSpec field;
    field.name = std::move(guess.name);
    field.type = guess.type.type();
    field.may_miss = guess.misses;
    field.inferred = true;
    schema.push_back(std::move(field));
  }
  DLRUN_TRY(check_schema(schema));
  return schema;
}

}  // namespace dlrun::io
