#pragma once
/// io/core/schema.h: the fields of a record as declared, or as inferred from the first records and
/// then fixed, and how a field's text becomes a value. One definition for CSV, JSON lines and
/// tf.train.Example.
///
///   int64       decimal, one sign; out of range is an error, never rounded
///   float32/64  decimal, correctly rounded; nan and inf are errors, 1e400 is out of range, what
///               underflows becomes a denormal or 0
///   text        the bytes as they are
///   hashed      u64: mix64(fnv1a(bytes)), modulo `buckets` where that is not 0
///   dictionary  i64: the place in `dictionary`; a value that is not there is an error
///   boolean     u8: true, false (also 1, 0 in text)
/// A value that is missing: an error unless `may_miss`; then zero, marked in Column::valid.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/core/field_spec.h"
#include "io/core/table.h"
#include "runtime/base/result.h"

namespace dlrun::io {

/// kInvalidArgument: no field, too many, two of one name, a dictionary that is empty or repeats.
Status check_schema(const Schema& schema);
Column column_of(const FieldSpec& field);
/// Makes `table` empty with the columns of the schema.
void prepare_table(const Schema& schema, Table& table);
const char* type_name(FieldType type);

/// Fields made ready for writing.
class FieldWriter {
 public:
  explicit FieldWriter(FieldSpec spec);
  const FieldSpec& spec() const { return spec_; }
  /// Appends one value; the row is not ended. The reason when it does not fit: nothing is appended.
  /// `readable`: up to where the text goes on behind it, at least its end; nullptr = unknown.
  /// O(bytes + log dictionary).
  std::optional<std::string> put(std::string_view text, Column& column,
                                 const char* readable = nullptr) const;
  /// One row without a value.
  void put_missing(Column& column) const;

 private:
  FieldSpec spec_;
  std::map<std::string, std::int64_t, std::less<>> places_;
};

/// First of int64, float32, float64, text that fits all values seen.
class TypeGuess {
 public:
  void see(std::string_view text);
  void see_text() { type_ = FieldType::kText, seen_ = true; }
  FieldType type() const { return seen_ ? type_ : FieldType::kText; }

 private:
  FieldType type_ = FieldType::kInt64;
  bool seen_ = false;
};

}  // namespace dlrun::io
