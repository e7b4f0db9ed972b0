#pragma once
/// io/core/column_text.h: a column as people declare it, one line of text, and back:
///   NAME: TYPE[WIDTH][?]
///   TYPE   int64 float32 float64 text bool hash hash(BUCKETS) dict(A|B|C)
///   WIDTH  [N] values in each record, [] any number
///   ?      may be missing
/// "price: float32?", "city: hash(1000)", "color: dict(red|green)", "tags: text[]". A name has no
/// ':', a word of a dictionary no '|' and no ')'. Blanks around the parts do not count.
/// Errors: kInvalidArgument says what is wrong, naming the column.

#include <string>
#include <string_view>

#include "io/core/field_spec.h"
#include "runtime/base/result.h"

namespace dlrun::io {

Result<FieldSpec> read_column(std::string_view text);
/// read_column's inverse, but for `inferred`.
std::string column_text(const FieldSpec& field);

}  // namespace dlrun::io
