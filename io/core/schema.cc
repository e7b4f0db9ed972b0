#include "io/core/schema.h"

#include <set>

#include "io/core/fast_number.h"
#include "io/core/text.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"

namespace dlrun::io {

namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

template <class Token>
std::optional<std::string> whole(const Token& token, std::string_view text) {
  if (token.error != NumberError::kNone) return reason(token.error);
  if (token.end != text.data() + text.size())
    return "unexpected " + shown(token.end, text.data() + text.size());
  return std::nullopt;
}

}  // namespace

const char* type_name(FieldType type) {
  switch (type) {
    case FieldType::kInt64:
      return "int64";
    case FieldType::kFloat32:
      return "float32";
    case FieldType::kFloat64:
      return "float64";
    case FieldType::kText:
      return "text";
    case FieldType::kHashed:
      return "hashed";
    case FieldType::kDictionary:
      return "dictionary";
    case FieldType::kBoolean:
      return "boolean";
  }
  return "";
}

Status check_schema(const Schema& schema) {
  const auto wrong = [](const std::string& what) { return fail(Errc::kInvalidArgument, what); };
  if (schema.empty()) return wrong("no column");
  if (schema.size() > kFieldsMax) return wrong("more than 65536 columns");
  std::set<std::string_view> names;
  for (const FieldSpec& field : schema) {
    if (!names.insert(field.name).second)
      return wrong("two columns are named " + quoted(field.name));
    if (field.type != FieldType::kDictionary) continue;
    const std::set<std::string_view> values(field.dictionary.begin(), field.dictionary.end());
    if (values.empty() || values.size() != field.dictionary.size())
      return wrong(quoted(field.name) + ": a dictionary that is empty or repeats a word");
  }
  return {};
}

Column column_of(const FieldSpec& field) {
  Column column;
  column.name = field.name;
  column.width = field.width;
  column.may_miss = field.may_miss;
  switch (field.type) {
    case FieldType::kInt64:
    case FieldType::kDictionary:
      column.type = ValueType::kInt64;
      break;
    case FieldType::kFloat32:
      column.type = ValueType::kFloat32;
      break;
    case FieldType::kFloat64:
      column.type = ValueType::kFloat64;
      break;
    case FieldType::kText:
      column.type = ValueType::kBytes;
      break;
    case FieldType::kHashed:
      column.type = ValueType::kUint64;
      break;
    case FieldType::kBoolean:
      column.type = ValueType::kUint8;
      break;
  }
  return column;
}

void prepare_table(const Schema& schema, Table& table) {
  table.rows = 0;
  table.columns.clear();
  for (const FieldSpec& field : schema) table.columns.push_back(column_of(field));
}

FieldWriter::FieldWriter(FieldSpec spec) : spec_(std::move(spec)) {
  for (const std::string& value : spec_.dictionary)
    places_.emplace(value, static_cast<std::int64_t>(places_.size()));
}

std::optional<std::string> FieldWriter::put(std::string_view text, Column& column,
                                            const char* readable) const {
  std::optional<std::string> why;
  const auto number = [&](auto read, auto read_fast) {
    const std::string_view digits = trim(text);
    const char* const end = digits.data() + digits.size();
    if (readable != nullptr && !digits.empty()) {
      const auto token = read_fast(digits.data(), readable);
      if (token.error == NumberError::kNone && token.end == end) return column.push(token.value);
    }
    const auto token = read(digits.data(), end);
    why = digits.empty() ? "empty" : whole(token, digits);
    if (!why) column.push(token.value);
  };
  switch (spec_.type) {
    case FieldType::kInt64:
      number(read_int, read_int_fast);
      break;
    case FieldType::kFloat32:
      number(read_float, read_float_fast);
      break;
    case FieldType::kFloat64:
      number(read_double, read_double_fast);
      break;
    case FieldType::kText:
      column.push_bytes(text);
      break;
    case FieldType::kHashed: {
      const std::uint64_t hash = mix64(fnv1a(text));
      column.push(spec_.buckets == 0 ? hash : hash % spec_.buckets);
      break;
    }
    case FieldType::kDictionary: {
      const auto place = places_.find(text);
      if (place == places_.end()) return quoted(text) + " is not in the dictionary";
      column.push(place->second);
      break;
    }
    case FieldType::kBoolean: {
      const std::string_view word = trim(text);
      if (word == "true" || word == "1")
        column.push(std::uint8_t{1});
      else if (word == "false" || word == "0")
        column.push(std::uint8_t{0});
      else
        return quoted(text) + " is neither true nor false";
      break;
    }
  }
  if (why) {
    *why = quoted(text) + " is no " + type_name(spec_.type) + ": " + *why;
    if (spec_.inferred)
      *why += " (the type is inferred from the first records; it may be declared)";
  }
  return why;
}

void FieldWriter::put_missing(Column& column) const {
  for (std::uint64_t i = 0; i < spec_.width; ++i) column.push_zero();
  column.end_row(false);
}

void TypeGuess::see(std::string_view text) {
  seen_ = true;
  const std::string_view digits = trim(text);
  const char* const begin = digits.data();
  const char* const end = begin + digits.size();
  if (type_ == FieldType::kInt64 && (digits.empty() || whole(read_int(begin, end), digits)))
    type_ = FieldType::kFloat32;
  if (type_ == FieldType::kFloat32 && (digits.empty() || whole(read_float(begin, end), digits)))
    type_ = FieldType::kFloat64;
  if (type_ == FieldType::kFloat64 && (digits.empty() || whole(read_double(begin, end), digits)))
    type_ = FieldType::kText;
}

}  // namespace dlrun::io
