#pragma once
/// io/feeder/row_reader.h: a split of an input, in pieces, into the rows that wait for their batch.
/// Text of a record a line (libsvm, libffm, csv, JSON lines) is read from any place of a plain
/// file; so are rows of one length (NPY, IDX, token files of sequences), whose place is arithmetic;
/// the other formats, and csv with newlines within quotes, from the start of their file, which is
/// one split (split_bytes_of). Compressed files whole, by the split that begins them.
/// Errors: of File; what BadRecordPolicy says when the policy has it that the input is over.
/// Threads: one owner.

#include <memory>

#include "io/core/row_store.h"
#include "io/core/table_parser.h"
#include "io/feeder/shape.h"
#include "io/source/bad_record_policy.h"
#include "io/source/source.h"

namespace dlrun::io {

class RowReader {
 public:
  virtual ~RowReader() = default;
  /// Appends what the next piece holds, often nothing; false at the end of the split.
  virtual Result<bool> read() = 0;
};

/// Empty, with the columns or the width that the input's first records have.
std::unique_ptr<RowStore> make_store(const InputSpec& spec, const InputShape& shape);

/// `store`: of make_store; it, `source` and `policy` outlive the reader.
Result<std::unique_ptr<RowReader>> open_rows(Source& source, const Split& split,
                                             const InputSpec& spec, const InputShape& shape,
                                             RowStore& store, BadRecordPolicy& policy);

}  // namespace dlrun::io
