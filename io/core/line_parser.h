#pragma once
/// io/core/line_parser.h: what the text formats of one record a line share: cutting, line ends, the
/// byte order mark, lines that are too long.
/// Lines end with LF or CR LF, the last one with the end of the file. A UTF-8 byte order mark is
/// skipped at the start of a file. A line of blanks is no record, and no header either. With
/// `quoted_newlines` a newline between double quotes does not end the record (RFC 4180).
/// Bounds: a record <= record_bytes_max, else a BadRecord; what is too long is passed over without
/// being held. With quoted_newlines that is fatal: where the next record begins is anybody's guess.

#include "io/core/msg.h"
#include "io/core/table_parser.h"

namespace dlrun::io {

struct LineRules {
  std::uint64_t record_bytes_max = kRecordBytesMax;
  bool quoted_newlines = false;
  char delimiter = 0;  ///< of fields: a tab that is one is no blank
};

class LineParser : public TableParser {
 public:
  explicit LineParser(LineRules rules) : rules_(rules) {}
  bool is_text() const final { return true; }
  ParseProgress parse(std::string_view bytes, std::uint64_t offset, bool last, Table& table) final;

 protected:
  /// `line`, not blank and without its end. Appends a row's values and counts it, or nothing when
  /// it is a header; after trouble the caller takes back what was appended.
  virtual std::optional<Trouble> parse_line(std::string_view line, bool first_of_file,
                                            Table& table) = 0;
  /// The end of what can be read behind the line of parse_line.
  const char* readable() const { return readable_; }

 private:
  const LineRules rules_;
  const char* readable_ = nullptr;
  bool passing_over_ = false;  ///< the rest of a line that is too long
  bool begun_ = false;
  bool first_ = false;  ///< no line of the file was seen yet, but for blank ones
};

/// The length of the record at the start of `bytes`, its end included; 0 = it is not whole.
std::size_t record_length(std::string_view bytes, bool quoted_newlines);
/// A line without its LF or CR LF; at the end of a file a CR alone is an end too.
std::string_view without_end(std::string_view line);
bool blank(std::string_view line, char delimiter = 0);

}  // namespace dlrun::io
