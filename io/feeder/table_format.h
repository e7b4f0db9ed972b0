#pragma once
/// io/feeder/table_format.h: from an input's declaration to the parser of its typed format, and
/// what its columns are when the declaration leaves that to the data.

#include <memory>
#include <optional>

#include "io/core/array_file.h"
#include "io/core/schema.h"
#include "io/core/table_parser.h"
#include "io/source/source.h"

namespace dlrun::io {

/// `schema`: of a format that has one (csv, JSON lines, tf.train.Example), declared or inferred.
/// Errors: kInvalidArgument.
Result<std::unique_ptr<TableParser>> make_table_parser(const InputSpec& spec, const Schema& schema);

/// Records of one length behind a header, if any: NPY, IDX, token files of sequences.
bool has_fixed_rows(const InputSpec& spec);
/// Of a plain NPY or IDX file; nothing when it has no good one.
Result<std::optional<ArrayHeader>> read_array_header(File& file, Format format);

/// What the head of a file tells.
struct TableHead {
  Schema schema;  ///< declared or inferred; empty where the format has none
  Table table;    ///< the records of the head, as far as they are good
};
/// Reads the head of a file (decoded). Nothing when no record is in it.
/// Errors: of File; kInvalidArgument: the types cannot be inferred, with the uri.
Result<std::optional<TableHead>> look_at_table(Source& source, const FileEntry& file,
                                               const InputSpec& spec);

/// Bytes of a row's texts and lists, at most (RowStore's weight): from record_bytes_max and the
/// densest way to write a value.
std::uint64_t weight_max(const InputSpec& spec, const Table& form);

}  // namespace dlrun::io
