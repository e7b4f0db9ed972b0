#pragma once
/// io/source/chunk_reader.h: the text of a split in pieces of whole lines. SplitReader reads a
/// plain file from any place; StreamLines a compressed one, which can be read only from its start
/// and so belongs whole to the split that begins there: the file's other splits hold no record.
/// Errors: of File; kCorrupt: a damaged compressed file (byte_stream.h), after the lines before the
/// damage.
/// Threads: one owner.

#include <memory>
#include <optional>
#include <string_view>

#include "io/core/msg.h"
#include "io/source/source.h"

namespace dlrun::io {

/// Lines to parse, or one line that is too long to be held (then `text` is empty and
/// `skipped_bytes` is its length).
struct TextChunk {
  std::string_view text;     ///< whole lines; borrowed until the next call
  std::uint64_t offset = 0;  ///< of the first byte, in the file (decoded)
  std::uint64_t skipped_bytes = 0;
};

struct ChunkOptions {
  std::uint64_t chunk_bytes = 256 * 1024;
  std::uint64_t record_bytes_max = kRecordBytesMax;
};

class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  /// The next piece; nothing when the split is at its end.
  virtual Result<std::optional<TextChunk>> next() = 0;
  /// Line number (from 1) of the byte at `offset`, which lies in the last piece or where the next
  /// begins; for an error's text only.
  virtual Result<std::uint64_t> line_of(std::uint64_t offset) = 0;
  /// Where the next piece begins.
  virtual std::uint64_t offset() const = 0;
};

/// Opens the file of the split and looks at its first bytes for what it is (codec.h).
Result<std::unique_ptr<ChunkReader>> open_chunks(Source& source, const Split& split,
                                                 ChunkOptions options);

}  // namespace dlrun::io
