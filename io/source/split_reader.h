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

#include "io/source/chunk_reader.h"

namespace dlrun::io {

class SplitReader final : public ChunkReader {
 public:
  using Options = ChunkOptions;
  static Result<std::unique_ptr<SplitReader>> open(Source& source, const Split& split,
                                                   Options options);
  /// Of a file that is open.
  static Result<std::unique_ptr<SplitReader>> over(std::unique_ptr<File> file, const Split& split,
                                                   Options options);

  Result<std::optional<TextChunk>> next() override;
  /// Counts from where the last call counted to, or from the start of the file.
  Result<std::uint64_t> line_of(std::uint64_t offset) override;
  std::uint64_t offset() const override { return at_; }

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
  std::uint64_t counted_to_ = 0;
  std::uint64_t counted_ = 0;  ///< newlines before it
  std::vector<char> buffer_;
};

}  // namespace dlrun::io
