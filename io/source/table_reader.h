#pragma once
/// io/source/table_reader.h: a file of a typed format, compressed or not -> rows of a Table, under
/// the policy for bad records. A damaged compressed file is a bad record that takes the rest of the
/// file with it.
/// Errors: Errc::kInvalidArgument in the form of describe() when the policy says that it is over;
/// those of File and Quarantine with the URI.
/// Bounds: one buffer, of kStreamBytes and doubled while one record needs it. So a parser that
/// looks at a record that is not whole from its start gets each byte of it three times at most.
/// Threads: one owner.

#include <memory>
#include <string>
#include <vector>

#include "io/core/table_parser.h"
#include "io/source/bad_record_policy.h"
#include "io/source/byte_stream.h"

namespace dlrun::io {

/// What of a file the stream gives: records of one length, whole ones.
struct FilePart {
  std::uint64_t offset = 0;  ///< of its first byte
  std::uint64_t record = 0;  ///< records before it
  bool to_end = true;        ///< it ends with the file
};

class TableReader {
 public:
  /// `parser`: new. `policy` is of the input: it outlives the reader.
  TableReader(std::string uri, std::unique_ptr<ByteStream> stream,
              std::unique_ptr<TableParser> parser, BadRecordPolicy& policy, FilePart part = {});

  /// Appends what the next piece of the file holds, often nothing; false at the end of the file.
  /// After an error the reader is over.
  Result<bool> read(Table& table);

 private:
  /// The policy's word on a bad record: whether reading goes on.
  Result<bool> judge(const BadRecord& bad, std::uint64_t line, std::string_view raw);

  const std::string uri_;
  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<TableParser> parser_;
  BadRecordPolicy& policy_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t offset_ = 0;  ///< decoded, of buffer_[begin_]
  std::uint64_t lines_ = 0;   ///< newlines, or records, before it
  const bool to_end_;
  bool last_ = false;
  bool over_ = false;
  std::optional<Error> broken_;  ///< the stream's error: what came before it first
};

}  // namespace dlrun::io
