#pragma once
/// io/core/tf_example.h: tf.train.Example, read from its bytes without a protobuf library.
///   Example{features=1} Features{map<string, Feature>=1} Feature{bytes=1 | float=2 | int64=3 list}
///   each list {repeated value=1}, numbers packed or not.
/// Source: tensorflow/core/example/{example,feature}.proto;
/// protobuf.dev/programming-guides/encoding.
/// A field of the schema takes one kind: int64 <- int64_list; float32, float64 <- float_list; text,
/// hashed, dictionary <- bytes_list; boolean <- int64_list of 0 and 1. Width 1 takes exactly one
/// value, n exactly n, 0 any number. A feature that is absent or holds no kind, or no value where
/// the width is not 0, is missing. What the schema does not name is checked as protobuf and left
/// out.
/// Refused: a feature twice (protobuf would take the last), groups, what does not fit its length.
/// Floats are bits: nan and inf are kept, as everything binary.

#include <map>

#include "io/core/schema.h"
#include "io/core/table_parser.h"

namespace dlrun::io {

class ExampleDecoder final : public PayloadDecoder {
 public:
  explicit ExampleDecoder(const Schema& schema);  ///< check_schema'd
  void prepare(Table& table) const override;
  std::optional<Trouble> decode(std::string_view payload, Table& table) override;

 private:
  std::vector<FieldWriter> fields_;
  std::map<std::string, std::size_t, std::less<>> places_;
  std::vector<std::uint8_t> seen_;
};

/// The schema that these payloads tell, fields by name: width 1 where each has exactly one value,
/// else 0; may_miss where one lacks it. kInvalidArgument: none, one that does not decode, two
/// kinds.
Result<Schema> infer_example(const std::vector<std::string_view>& payloads);

}  // namespace dlrun::io
