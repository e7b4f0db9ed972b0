#pragma once
/// io/core/record_parser.h: text -> records: libsvm, libffm, dense numeric CSV/TSV. One record per
/// line. Strict.
///
///   libsvm   label id:value id:value ...        # comment
///   libffm   label field:id:value ...           # comment
///   csv      number,number,...                  one of the columns is the label
///
/// Numbers  decimal, correctly rounded to f32; one leading '+' is accepted for labels and values,
///          never for ids. `nan`, `inf` and what overflows f32 (1e400, 1e39) are errors; what
///          underflows becomes a denormal or 0.
/// Ids      all 64 bits exact; index_base (libsvm) is subtracted, an id below it is an error.
///          Fields: 32 bits. Order and repetition of ids are the user's business: kept as written.
/// Lines    end with LF or CR LF, the last one with the end of the file; a CR or NUL elsewhere,
///          outside a comment, is an error. A UTF-8 byte order mark is skipped at the start of a
///          file. Blank lines and lines of only a comment are no records.
/// Refused  qid:, label weights, ids without a value, quoted or empty csv fields, a csv line of
///          another width than the first.
///
/// Errors: a BadRecord says offset, column and reason; the block is as before the record. Never
/// throws but bad_alloc.
/// Bounds: a line <= record_bytes_max, else a BadRecord. O(bytes).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/core/bad_record.h"
#include "io/core/msg.h"
#include "io/core/record_block.h"

namespace dlrun::io {

class RecordParser {
 public:
  explicit RecordParser(const InputSpec& spec, std::uint64_t record_bytes_max = kRecordBytesMax);

  /// Makes `block` fit for this format: kind, fields, and `cols` (csv; 0 = the first record tells).
  void prepare(RecordBlock& block, std::uint64_t cols = 0) const;

  /// Appends the records of `text` to `block`, up to and with the first bad one. `text` is whole
  /// lines (the last may lack its end); `offset` is where it lies in its file: 0 means that a byte
  /// order mark and the header may come first.
  ParseProgress parse(std::string_view text, std::uint64_t offset, RecordBlock& block) const;

 private:
  struct Defect {
    const char* at;
    std::string reason;
  };
  /// `readable`: the end of the text, which goes on behind the line.
  template <bool kFields>
  std::optional<Defect> parse_sparse(const char* p, const char* end, const char* readable,
                                     RecordBlock& block) const;
  std::optional<Defect> parse_dense(const char* p, const char* end, const char* readable,
                                    RecordBlock& block) const;

  Format format_;
  std::uint32_t index_base_;
  char delimiter_;
  bool header_;
  std::int32_t label_column_;
  std::uint64_t record_bytes_max_;
};

}  // namespace dlrun::io
