#pragma once
/// io/core/csv.h: CSV and TSV by RFC 4180 -> typed columns.
///   record  field *(delimiter field)          field  bare | "anything, "" for a quote"
/// Strict where RFC 4180 is silent: a quote within a bare field, bytes after a closing quote, a CR
/// that is not the end of a line, a NUL, a record of another number of fields than the schema are
/// errors. Blanks belong to a text field; around a number they are passed over. No comments. A line
/// of blanks is no record: a table of one column writes "" for an empty text.
/// Missing: a bare field equal to one of `missing`; a quoted one never is.
/// Header: must name the fields of the schema in their order; another is fatal for the file.
/// A newline within quotes: only with newlines_in_quotes, where a file can be read only from its
/// start; else it is an error that says so.

#include <memory>

#include "io/core/line_parser.h"
#include "io/core/schema.h"

namespace dlrun::io {

struct CsvOptions {
  char delimiter = ',';
  bool header = false;
  bool newlines_in_quotes = false;
  std::vector<std::string> missing{""};
  std::uint64_t record_bytes_max = kRecordBytesMax;
};

class CsvParser final : public LineParser {
 public:
  /// kInvalidArgument: check_schema; csv_problem (a list, a delimiter).
  static Result<std::unique_ptr<CsvParser>> make(const Schema& schema, CsvOptions options);
  void prepare(Table& table) const override;

 protected:
  std::optional<Trouble> parse_line(std::string_view line, bool first_of_file,
                                    Table& table) override;

 private:
  CsvParser(const Schema& schema, CsvOptions options);

  const CsvOptions options_;
  std::vector<FieldWriter> fields_;
  std::string scratch_;
};

/// The schema that the records of `head`, the start of a file, tell; a last record without its end
/// counts only with `whole`. Names: the header's, else "0", "1", ... Types: the narrowest of int64,
/// float32, float64, text that fits every record of head; may_miss where one misses. Fixed from
/// then on.
/// Errors: kInvalidArgument (no record; a bad one, with its place in the text).
Result<Schema> infer_csv(std::string_view head, bool whole, const CsvOptions& options);

}  // namespace dlrun::io
