#include "io/core/tf_example.h"

#include <algorithm>
#include <bit>
#include <set>

#include "io/core/little.h"
#include "io/core/text.h"

namespace dlrun::io {

namespace {

enum class Kind { kNone, kBytes, kFloat, kInt64 };

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return "a bytes_list";
    case Kind::kFloat:
      return "a float_list";
    case Kind::kInt64:
      return "an int64_list";
    case Kind::kNone:
      break;
  }
  return "no list";
}

Kind kind_of(FieldType type) {
  switch (type) {
    case FieldType::kInt64:
    case FieldType::kBoolean:
      return Kind::kInt64;
    case FieldType::kFloat32:
    case FieldType::kFloat64:
      return Kind::kFloat;
    default:
      return Kind::kBytes;
  }
}

/// Protobuf's wire format over a stretch of the payload. What goes wrong is kept; after it nothing
/// more is read.
class Wire {
 public:
  explicit Wire(std::string_view bytes)
      : begin_(bytes.data()), p_(begin_), end_(begin_ + bytes.size()) {}

  bool at_end() const { return p_ == end_ || trouble_; }
  std::optional<Trouble> trouble() { return std::move(trouble_); }
  bool failed() const { return trouble_.has_value(); }
  bool wrong(std::string reason) {
    if (!trouble_) trouble_ = Trouble{static_cast<std::size_t>(p_ - begin_), std::move(reason)};
    return false;
  }
  /// Another's trouble, whose bytes lie within these.
  void take(Wire& inner) {
    if (!inner.trouble_) return;
    if (!trouble_)
      trouble_ = Trouble{static_cast<std::size_t>(inner.begin_ - begin_) + inner.trouble_->at,
                         std::move(inner.trouble_->reason)};
    inner.trouble_.reset();
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (p_ == end_) return wrong("protobuf: a number without its end"), 0;
      const auto byte = static_cast<std::uint8_t>(*p_++);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return wrong("protobuf: a number of more than 10 bytes"), 0;
  }
  /// The next tag: false at the end or after trouble.
  bool tag(std::uint32_t& field, std::uint32_t& type) {
    if (at_end()) return false;
    const std::uint64_t value = varint();
    if (failed()) return false;
    field = static_cast<std::uint32_t>(value >> 3);
    type = value & 7;
    if (value >> 3 == 0 || value > 0xffffffffu)
      return wrong("protobuf: a field number that is none");
    return true;
  }
  std::string_view bytes() {
    const std::uint64_t length = varint();
    if (failed()) return {};
    if (length > static_cast<std::uint64_t>(end_ - p_))
      return wrong("protobuf: a length beyond the end of its message"), std::string_view{};
    const std::string_view out(p_, static_cast<std::size_t>(length));
    p_ += length;
    return out;
  }
  float fixed32() {
    if (end_ - p_ < 4) return wrong("protobuf: a float without its end"), 0;
    const auto value = little<float>({p_, 4});
    p_ += 4;
    return value;
  }
  void pass_over(std::uint32_t type) {
    std::ptrdiff_t width = 0;
    switch (type) {
      case 0:
        (void)varint();
        return;
      case 2:
        (void)bytes();
        return;
      case 1:
        width = 8;
        break;
      case 5:
        width = 4;
        break;
      default:
        (void)wrong("protobuf: a wire type that proto3 does not have");
        return;
    }
    if (end_ - p_ < width)
      (void)wrong("protobuf: a field without its end");
    else
      p_ += width;
  }

 private:
  const char* begin_;
  const char* p_;
  const char* end_;
  std::optional<Trouble> trouble_;
};

/// Calls on_value(value) for each of a list's values, which `Read` takes from a Wire.
template <class Each>
void each_value(Wire& list, Kind kind, Each on_value) {
  std::uint32_t field = 0, type = 0;
  const std::uint32_t single = kind == Kind::kBytes ? 2 : kind == Kind::kFloat ? 5 : 0;
  const auto read = [&](Wire& from) {
    if (kind == Kind::kBytes) {
      const std::string_view value = from.bytes();
      if (!from.failed()) on_value(value, 0.0f, std::int64_t{0});
    } else if (kind == Kind::kFloat) {
      const float value = from.fixed32();
      if (!from.failed()) on_value(std::string_view{}, value, std::int64_t{0});
    } else {
      const auto value = static_cast<std::int64_t>(from.varint());
      if (!from.failed()) on_value(std::string_view{}, 0.0f, value);
    }
  };
  while (list.tag(field, type)) {
    if (field != 1) {
      list.pass_over(type);
    } else if (type == single) {
      read(list);
    } else if (type == 2 && kind != Kind::kBytes) {
      Wire packed(list.bytes());
      while (!packed.at_end()) read(packed);
      if (!list.failed()) list.take(packed);
    } else {
      (void)list.wrong("protobuf: a value of another wire type than its list");
    }
  }
}

/// Calls on_feature(entry, key, kind, list) for each feature of an Example.
template <class Each>
std::optional<Trouble> each_feature(std::string_view payload, Each on_feature) {
  Wire example(payload);
  std::uint32_t field = 0, type = 0;
  while (example.tag(field, type)) {
    if (field != 1 || type != 2) {
      example.pass_over(type);
      continue;
    }
    Wire features(example.bytes());
    while (features.tag(field, type)) {
      if (field != 1 || type != 2) {
        features.pass_over(type);
        continue;
      }
      Wire entry(features.bytes());
      std::string_view key, value;
      while (entry.tag(field, type)) {
        if (field == 1 && type == 2)
          key = entry.bytes();
        else if (field == 2 && type == 2)
          value = entry.bytes();
        else
          entry.pass_over(type);
      }
      if (value.data() == nullptr) value = key.substr(key.size());
      if (!entry.failed() && value.data() != nullptr) {
        Wire feature(value);
        Kind kind = Kind::kNone;
        std::string_view list;
        while (feature.tag(field, type)) {
          if (field >= 1 && field <= 3 && type == 2) {
            if (kind != Kind::kNone) {
              (void)feature.wrong("feature " + quoted(key) + " holds two lists");
              break;
            }
            kind = static_cast<Kind>(field);
            list = feature.bytes();
          } else {
            feature.pass_over(type);
          }
        }
        if (!feature.failed()) {
          Wire values(list.data() == nullptr ? value.substr(value.size()) : list);
          on_feature(key, kind, values);
          feature.take(values);
        }
        entry.take(feature);
      } else if (!entry.failed()) {
        on_feature(key, Kind::kNone, entry);
      }
      features.take(entry);
    }
    example.take(features);
  }
  return example.trouble();
}

}  // namespace

ExampleDecoder::ExampleDecoder(const Schema& schema) : seen_(schema.size()) {
  for (const FieldSpec& field : schema) {
    places_.emplace(field.name, fields_.size());
    fields_.emplace_back(field);
  }
}

void ExampleDecoder::prepare(Table& table) const {
  table.rows = 0;
  table.columns.clear();
  for (const FieldWriter& field : fields_) table.columns.push_back(column_of(field.spec()));
}

std::optional<Trouble> ExampleDecoder::decode(std::string_view payload, Table& table) {
  std::fill(seen_.begin(), seen_.end(), 0);
  std::set<std::string_view> others;
  auto trouble = each_feature(payload, [&](std::string_view key, Kind kind, Wire& values) {
    const auto place = places_.find(key);
    const auto twice = [&] { (void)values.wrong("feature " + quoted(key) + " comes twice"); };
    if (place == places_.end()) {
      if (!others.insert(key).second) return twice();
      if (kind != Kind::kNone)
        each_value(values, kind, [](std::string_view, float, std::int64_t) {});
      return;
    }
    const std::size_t i = place->second;
    if (seen_[i] != 0) return twice();
    const FieldSpec& spec = fields_[i].spec();
    Column& column = table.columns[i];
    const auto wrong = [&](const std::string& why) {
      (void)values.wrong("feature " + quoted(key) + ": " + why);
    };
    std::uint64_t count = 0;
    if (kind != Kind::kNone) {
      if (kind != kind_of(spec.type))
        return wrong(std::string(kind_name(kind)) + " is no " + type_name(spec.type));
      each_value(values, kind, [&](std::string_view bytes, float number, std::int64_t integer) {
        ++count;
        switch (spec.type) {
          case FieldType::kInt64:
            return column.push(integer);
          case FieldType::kFloat32:
            return column.push(number);
          case FieldType::kFloat64:
            return column.push(static_cast<double>(number));
          case FieldType::kBoolean:
            if (integer != 0 && integer != 1) wrong(std::to_string(integer) + " is no boolean");
            return column.push(static_cast<std::uint8_t>(integer & 1));
          default:
            if (const auto why = fields_[i].put(bytes, column)) wrong(*why);
        }
      });
      if (values.failed()) return;
    }
    seen_[i] = 1;
    const bool none = spec.width == 0 ? kind == Kind::kNone : count == 0;
    if (none) {
      if (!spec.may_miss) return wrong("no value, and it may not miss");
      return fields_[i].put_missing(column);
    }
    if (spec.width != 0 && count != spec.width)
      return wrong(std::to_string(count) + " values; " + std::to_string(spec.width) +
                   " are wanted");
    column.end_row();
  });
  if (trouble) return trouble;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (seen_[i] != 0) continue;
    const FieldSpec& spec = fields_[i].spec();
    if (!spec.may_miss)
      return Trouble{0, "feature " + quoted(spec.name) + ": no value, and it may not miss"};
    fields_[i].put_missing(table.columns[i]);
  }
  return std::nullopt;
}

Result<Schema> infer_example(const std::vector<std::string_view>& payloads) {
  struct Guess {
    Kind kind = Kind::kNone;
    std::size_t records = 0;
    bool single = true;
  };
  std::map<std::string, Guess, std::less<>> guesses;
  for (std::size_t n = 0; n < payloads.size(); ++n) {
    auto trouble = each_feature(payloads[n], [&](std::string_view key, Kind kind, Wire& values) {
      if (kind == Kind::kNone) return;
      auto found = guesses.find(key);
      if (found == guesses.end()) found = guesses.emplace(std::string(key), Guess{}).first;
      Guess& guess = found->second;
      if (guess.kind != Kind::kNone && guess.kind != kind)
        return void(values.wrong("feature " + quoted(key) + ": " + kind_name(guess.kind) +
                                 " in one record, " + kind_name(kind) + " in another"));
      guess.kind = kind;
      std::size_t count = 0;
      each_value(values, kind, [&count](std::string_view, float, std::int64_t) { ++count; });
      guess.single = guess.single && count == 1;
      ++guess.records;
    });
    if (trouble)
      return fail(Errc::kInvalidArgument, "record " + std::to_string(n + 1) + ", column " +
                                              std::to_string(trouble->at + 1) + ": " +
                                              trouble->reason);
  }
  Schema schema;
  for (const auto& [name, guess] : guesses) {
    FieldSpec field;
    field.name = name;
    field.type = guess.kind == Kind::kBytes   ? FieldType::kText
                 : guess.kind == Kind::kFloat ? FieldType::kFloat32
                                              : FieldType::kInt64;
    field.width = guess.single ? 1 : 0;
    field.may_miss = guess.records < payloads.size();
    field.inferred = true;
    schema.push_back(std::move(field));
  }
  if (schema.empty()) return fail(Errc::kInvalidArgument, "no feature to infer the types from");
  DLRUN_TRY(check_schema(schema));
  return schema;
}

}  // namespace dlrun::io
