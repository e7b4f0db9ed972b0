#pragma once
/// io/core/json_lines.h: JSON lines -> typed columns: one object a line (json_scan.h says what is
/// refused). A field of the schema names a path ("user.id"); its width 1 takes a scalar, n an array
/// of n, 0 an array of any length. null or an absent key is a missing value. What the schema does
/// not name is checked as JSON and left out. Numbers go to number types alone, strings to text,
/// hashed and dictionary, true and false to boolean; an int64 takes no fraction or exponent.

#include <map>
#include <memory>

#include "io/core/json_scan.h"
#include "io/core/line_parser.h"
#include "io/core/schema.h"

namespace dlrun::io {

class JsonLinesParser final : public LineParser, private JsonVisitor {
 public:
  /// kInvalidArgument: check_schema.
  static Result<std::unique_ptr<JsonLinesParser>> make(
      const Schema& schema, std::uint64_t record_bytes_max = kRecordBytesMax);
  void prepare(Table& table) const override;

 protected:
  std::optional<Trouble> parse_line(std::string_view line, bool first_of_file,
                                    Table& table) override;

 private:
  JsonLinesParser(const Schema& schema, std::uint64_t record_bytes_max);
  std::optional<std::string> value(std::string_view path, JsonKind kind,
                                   std::string_view text) override;
  std::optional<std::string> begin_list(std::string_view path) override;
  std::optional<std::string> end_list(std::string_view path) override;

  static constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<FieldWriter> fields_;
  std::map<std::string, std::size_t, std::less<>> places_;
  JsonScanner scanner_;
  Table* table_ = nullptr;
  std::vector<std::uint8_t> seen_;  ///< of this record
  std::size_t list_ = kNone;        ///< the field whose array is open
  bool in_list_ = false;
  std::uint64_t in_list_values_ = 0;
};

/// The schema that the records of `head` tell, as infer_csv: paths in the order of their first
/// sight; a path whose values are arrays gets width 0; one that a record lacks may_miss.
/// Errors: kInvalidArgument, with the place in the text; two kinds of value at one path.
Result<Schema> infer_json_lines(std::string_view head, bool whole);

}  // namespace dlrun::io
