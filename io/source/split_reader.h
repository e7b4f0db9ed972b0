#pragma once
/// io/source/split_reader.h: the whole lines that *start* in [begin, end) of a file, in pieces of
/// bounded size. A line that starts before `begin` belongs to the split before; one that starts
/// before `end` is read to its end. Every line of a file belongs to exactly one split, however the
/// file is cut.
/// Errors: of File; kFailedPrecondition when the file is not the one of the split (etag at open and
/// again at the end).
/// Bounds: one buffer of chunk_bytes + record_bytes_max.
/// Threads: one owner.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/core/msg.h"
#include "io/source/source.h"

namespace dlrun::io {

/// Lines to parse, or one line that is too long to be held (then `text` is empty and
/// `skipped_bytes` is its length).
struct TextChunk {
  std::string_view text;     ///< whole lines; borrowed until the next call
  std::uint64_t offset = 0;  ///< of the first byte, in the file
  std::uint64_t skipped_bytes = 0;
};

class SplitReader {
 public:
  struct Options {
    std::uint64_t chunk_bytes = 256 * 1024;
    std::uint64_t record_bytes_max = 256 * 1024;
  };
  static Result<std::unique_ptr<SplitReader>> open(Source& source, const Split& split,
                                                   Options options);

  /// The next piece; nothing when the split is at its end.
  Result<std::optional<TextChunk>> next();

  /// Line number (from 1) of the byte at `offset`: counts from the start of the file, for an
  /// error's text only. O(offset).
  Result<std::uint64_t> line_of(std::uint64_t offset);

 private:
  SplitReader(std::unique_ptr<File> file, const Split& split, Options options);
  Status find_start();

  std::unique_ptr<File> file_;
  std::string uri_;
  std::uint64_t begin_;
  std::uint64_t end_;
  Options options_;
  bool started_ = false;
  std::uint64_t at_ = 0;  ///< where the next line starts
  std::vector<char> buffer_;
};

}  // namespace dlrun::io
