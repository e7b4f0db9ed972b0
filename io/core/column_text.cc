#include "io/core/column_text.h"

#include <charconv>
#include <optional>
#include <utility>

namespace dlrun::io {

namespace {

constexpr std::pair<std::string_view, FieldType> kTypes[] = {
    {"int64", FieldType::kInt64},     {"float32", FieldType::kFloat32},
    {"float64", FieldType::kFloat64}, {"text", FieldType::kText},
    {"bool", FieldType::kBoolean},    {"hash", FieldType::kHashed},
    {"dict", FieldType::kDictionary},
};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<std::uint64_t> count(std::string_view digits) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return n;
}

}  // namespace

Result<FieldSpec> read_column(std::string_view text) {
  FieldSpec field;
  const auto colon = text.find(':');
  field.name = trim(text.substr(0, colon));
  const auto wrong = [&](const std::string& what) {
    return fail(Errc::kInvalidArgument, "column '" + field.name.substr(0, 200) + "': " + what);
  };
  if (colon == text.npos || field.name.empty())
    return wrong("write NAME: TYPE, as in \"price: float32\"");
  std::string_view rest = trim(text.substr(colon + 1));
  if (rest.ends_with('?')) {
    field.may_miss = true;
    rest = trim(rest.substr(0, rest.size() - 1));
  }
  if (rest.ends_with(']')) {
    const auto open = rest.rfind('[');
    if (open == rest.npos) return wrong("a ']' without its '['");
    const std::string_view inside = trim(rest.substr(open + 1, rest.size() - open - 2));
    const auto width = inside.empty() ? std::optional<std::uint64_t>(0) : count(inside);
    if (!width || (*width == 0 && !inside.empty()) || *width > kFieldWidthMax)
      return wrong("[N] needs a number of 1 to " + std::to_string(kFieldWidthMax) +
                   ", or nothing for any number of values");
    field.width = *width;
    rest = trim(rest.substr(0, open));
  }
  std::optional<std::string_view> argument;
  if (rest.ends_with(')')) {
    const auto open = rest.find('(');
    if (open == rest.npos) return wrong("a ')' without its '('");
    argument = rest.substr(open + 1, rest.size() - open - 2);
    rest = trim(rest.substr(0, open));
  }
  const auto* type = std::begin(kTypes);
  while (type != std::end(kTypes) && type->first != rest) ++type;
  if (type == std::end(kTypes))
    return wrong("unknown type '" + std::string(rest.substr(0, 200)) +
                 "'; known are int64, float32, float64, text, bool, hash, hash(N), dict(A|B)");
  field.type = type->second;
  if (field.type == FieldType::kHashed && argument) {
    const auto buckets = count(trim(*argument));
    if (!buckets || *buckets == 0) return wrong("hash(N) needs a number above 0");
    field.buckets = *buckets;
  } else if (field.type == FieldType::kDictionary) {
    if (!argument) return wrong("dict(A|B|C) needs its words");
    for (std::string_view words = *argument;;) {
      const auto bar = words.find('|');
      field.dictionary.emplace_back(words.substr(0, bar));
      if (bar == words.npos) break;
      words.remove_prefix(bar + 1);
    }
  } else if (argument) {
    return wrong(std::string(rest) + " takes no (...)");
  }
  return field;
}

std::string column_text(const FieldSpec& field) {
  std::string out = field.name + ": ";
  for (const auto& [name, type] : kTypes)
    if (type == field.type) out += name;
  if (field.type == FieldType::kHashed && field.buckets != 0)
    out += "(" + std::to_string(field.buckets) + ")";
  if (field.type == FieldType::kDictionary) {
    out += '(';
    for (const std::string& word : field.dictionary)
      out += (&word == &field.dictionary.front() ? "" : "|") + word;
    out += ')';
  }
  if (field.width == 0) out += "[]";
  if (field.width > 1) out += "[" + std::to_string(field.width) + "]";
  if (field.may_miss) out += '?';
  return out;
}

}  // namespace dlrun::io
