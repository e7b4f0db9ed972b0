#include "io/core/json_lines.h"

#include <algorithm>

#include "io/core/text.h"

namespace dlrun::io {

namespace {

const char* kind_name(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBoolean:
      return "a boolean";
    case JsonKind::kNumber:
      return "a number";
    case JsonKind::kString:
      return "a string";
  }
  return "";
}

JsonKind kind_of(FieldType type) {
  switch (type) {
    case FieldType::kInt64:
    case FieldType::kFloat32:
    case FieldType::kFloat64:
      return JsonKind::kNumber;
    case FieldType::kBoolean:
      return JsonKind::kBoolean;
    default:
      return JsonKind::kString;
  }
}

}  // namespace

JsonLinesParser::JsonLinesParser(const Schema& schema, std::uint64_t record_bytes_max)
    : LineParser({.record_bytes_max = record_bytes_max}), seen_(schema.size()) {
  for (const FieldSpec& field : schema) {
    places_.emplace(field.name, fields_.size());
    fields_.emplace_back(field);
  }
}

Result<std::unique_ptr<JsonLinesParser>> JsonLinesParser::make(const Schema& schema,
                                                               std::uint64_t record_bytes_max) {
  DLRUN_TRY(check_schema(schema));
  return std::unique_ptr<JsonLinesParser>(new JsonLinesParser(schema, record_bytes_max));
}

void JsonLinesParser::prepare(Table& table) const {
  table.rows = 0;
  table.columns.clear();
  for (const FieldWriter& field : fields_) table.columns.push_back(column_of(field.spec()));
}

std::optional<Trouble> JsonLinesParser::parse_line(std::string_view line, bool, Table& table) {
  table_ = &table;
  std::fill(seen_.begin(), seen_.end(), 0);
  list_ = kNone;
  in_list_ = false;
  if (auto trouble = scanner_.scan(line, *this)) return trouble;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (seen_[i] != 0) continue;
    const FieldSpec& spec = fields_[i].spec();
    if (!spec.may_miss)
      return Trouble{0, "field " + quoted(spec.name) + ": no value, and it may not miss"};
    fields_[i].put_missing(table.columns[i]);
  }
  ++table.rows;
  return std::nullopt;
}

std::optional<std::string> JsonLinesParser::value(std::string_view path, JsonKind kind,
                                                  std::string_view text) {
  std::size_t i = list_;
  if (!in_list_) {
    const auto place = places_.find(path);
    if (place == places_.end()) return std::nullopt;
    i = place->second;
  }
  if (i == kNone) return std::nullopt;  // an array that the schema does not name
  const FieldSpec& spec = fields_[i].spec();
  if (seen_[i] != 0) return "comes twice (once as a dotted key)";
  if (kind == JsonKind::kNull) {
    if (in_list_) return "null within an array";
    return std::nullopt;  // as if it were absent
  }
  if (!in_list_ && spec.width != 1)
    return std::string("an array is wanted, not ") + kind_name(kind);
  if (kind != kind_of(spec.type))
    return std::string(kind_name(kind)) + " is no " + type_name(spec.type);
  Column& column = table_->columns[i];
  // A string was unescaped into a place of its own; a number stands in the line.
  const char* const behind = kind == JsonKind::kNumber ? readable() : nullptr;
  if (auto why = fields_[i].put(text, column, behind)) return why;
  if (in_list_) {
    ++in_list_values_;
    return std::nullopt;
  }
  column.end_row();
  seen_[i] = 1;
  return std::nullopt;
}

std::optional<std::string> JsonLinesParser::begin_list(std::string_view path) {
  in_list_ = true;
  in_list_values_ = 0;
  const auto place = places_.find(path);
  list_ = place == places_.end() ? kNone : place->second;
  if (list_ == kNone) return std::nullopt;
  if (seen_[list_] != 0) return "comes twice (once as a dotted key)";
  if (fields_[list_].spec().width == 1) return "a single value is wanted, not an array";
  return std::nullopt;
}

std::optional<std::string> JsonLinesParser::end_list(std::string_view) {
  in_list_ = false;
  if (list_ == kNone) return std::nullopt;
  const FieldSpec& spec = fields_[list_].spec();
  if (spec.width != 0 && in_list_values_ != spec.width)
    return "an array of " + std::to_string(in_list_values_) + "; " + std::to_string(spec.width) +
           " values are wanted";
  table_->columns[list_].end_row();
  seen_[list_] = 1;
  return std::nullopt;
}

namespace {

class Guesser final : public JsonVisitor {
 public:
  std::optional<std::string> value(std::string_view path, JsonKind kind,
                                   std::string_view text) override {
    if (kind == JsonKind::kNull) return std::nullopt;
    Guess* const guess = at(path);
    if (guess == nullptr) return "more than 65536 fields";
    if (!in_list_ && guess->list) return "an array in one record, a single value in another";
    if (guess->kind != JsonKind::kNull && guess->kind != kind)
      return std::string(kind_name(guess->kind)) + " in one record, " + kind_name(kind) +
             " in another";
    guess->kind = kind;
    if (kind == JsonKind::kNumber) {
      guess->type.see(text);
      if (guess->type.type() == FieldType::kText) return "a number that no float64 holds";
    }
    if (!in_list_) ++guess->records;
    return std::nullopt;
  }
  std::optional<std::string> begin_list(std::string_view path) override {
    in_list_ = true;
    Guess* const guess = at(path);
    if (guess == nullptr) return "more than 65536 fields";
    if (guess->records > 0 && !guess->list)
      return "an array in one record, a single value in another";
    guess->list = true;
    ++guess->records;
    return std::nullopt;
  }
  std::optional<std::string> end_list(std::string_view) override {
    in_list_ = false;
    return std::nullopt;
  }
  Schema schema(std::size_t records) const {
    Schema schema;
    for (const Guess& guess : guesses_) {
      FieldSpec field;
      field.name = guess.path;
      field.type = guess.kind == JsonKind::kNumber    ? guess.type.type()
                   : guess.kind == JsonKind::kBoolean ? FieldType::kBoolean
                                                      : FieldType::kText;
      field.width = guess.list ? 0 : 1;
      field.may_miss = guess.records < records;
      field.inferred = true;
      schema.push_back(std::move(field));
    }
    return schema;
  }

 private:
  struct Guess {
    std::string path;
    JsonKind kind = JsonKind::kNull;
    TypeGuess type;
    bool list = false;
    std::size_t records = 0;
  };
  Guess* at(std::string_view path) {
    const auto found = places_.find(path);
    if (found != places_.end()) return &guesses_[found->second];
    if (guesses_.size() >= kFieldsMax) return nullptr;
    places_.emplace(path, guesses_.size());
    guesses_.push_back({std::string(path), JsonKind::kNull, {}, false, 0});
    return &guesses_.back();
  }
  std::vector<Guess> guesses_;
  std::map<std::string, std::size_t, std::less<>> places_;
  bool in_list_ = false;
};

}  // namespace

Result<Schema> infer_json_lines(std::string_view head, bool whole) {
  Guesser guesser;
  JsonScanner scanner;
  std::size_t records = 0;
  std::size_t at = head.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < head.size()) {
    std::size_t length = record_length(head.substr(at), false);
    if (length == 0 && !whole) break;
    if (length == 0) length = head.size() - at;
    const std::string_view line = without_end(head.substr(at, length));
    if (!blank(line)) {
      if (const auto trouble = scanner.scan(line, guesser))
        return fail(Errc::kInvalidArgument, "offset " + std::to_string(at) + ", column " +
                                                std::to_string(trouble->at + 1) + ": " +
                                                trouble->reason);
      ++records;
    }
    at += length;
  }
  if (records == 0) return fail(Errc::kInvalidArgument, "no record to infer the types from");
  Schema schema = guesser.schema(records);
  DLRUN_TRY(check_schema(schema));
  return schema;
}

}  // namespace dlrun::io
