#pragma once
/// io/core/field_spec.h: what a job file may say of the records of a typed format, as plain values:
/// the columns (schema.h says what each type means) and how token files are cut (token_file.h).

#include <cstdint>
#include <string>
#include <vector>

namespace dlrun::io {

enum class FieldType : std::uint8_t {
  kInt64 = 1,
  kFloat32,
  kFloat64,
  kText,
  kHashed,
  kDictionary,
  kBoolean
};

struct FieldSpec {
  std::string name;
  FieldType type = FieldType::kFloat32;
  std::uint64_t width = 1;  ///< values of a record; 0 = varies (not in csv)
  bool may_miss = false;
  std::uint64_t buckets = 0;            ///< hashed; 0 = all 64 bits
  std::vector<std::string> dictionary;  ///< dictionary
  bool inferred = false;                ///< the type is a guess: errors say so
  friend bool operator==(const FieldSpec&, const FieldSpec&) = default;
};
using Schema = std::vector<FieldSpec>;

inline constexpr std::size_t kFieldsMax = 65536;
inline constexpr std::uint64_t kFieldWidthMax = std::uint64_t{1} << 24;

struct TokenOptions {
  enum class Type : std::uint8_t { kU16, kU32, kI32 };
  enum class Tail : std::uint8_t { kDrop, kPad, kFail };
  Type type = Type::kU16;
  std::uint64_t sequence_length = 0;
  Tail tail = Tail::kDrop;
  std::int32_t separator = 0;             ///< ends a document
  std::int32_t padding = 0;               ///< what kPad fills with
  std::uint32_t vocabulary = 0x7fffffff;  ///< ids are below it
  std::uint64_t document_tokens_max = 1u << 20;
  friend bool operator==(const TokenOptions&, const TokenOptions&) = default;
};

}  // namespace dlrun::io
