#pragma once
/// io/source/stream_lines.h: the lines of a compressed file, decoded as they are read.
/// Bounds: one buffer of chunk_bytes + record_bytes_max; that of ByteStream.

#include <vector>

#include "io/source/byte_stream.h"
#include "io/source/chunk_reader.h"

namespace dlrun::io {

class StreamLines final : public ChunkReader {
 public:
  StreamLines(std::unique_ptr<ByteStream> stream, ChunkOptions options);

  Result<std::optional<TextChunk>> next() override;
  Result<std::uint64_t> line_of(std::uint64_t offset) override;
  std::uint64_t offset() const override { return offset_; }

 private:
  Status fill();
  TextChunk give(std::size_t length);
  Result<TextChunk> pass_over();

  std::unique_ptr<ByteStream> stream_;
  const ChunkOptions options_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t offset_ = 0;    ///< decoded, of buffer_[begin_]
  std::uint64_t lines_ = 0;     ///< newlines before the last piece
  std::string_view given_;      ///< the last piece
  std::uint64_t given_at_ = 0;  ///< its offset
  bool last_ = false;
  std::optional<Error> broken_;  ///< told when what came before it is given
};

}  // namespace dlrun::io
