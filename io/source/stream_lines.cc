#include "io/source/stream_lines.h"

#include <algorithm>
#include <cstring>

#include "io/source/split_reader.h"

namespace dlrun::io {

namespace {
std::uint64_t newlines(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

/// What the other splits of a compressed file hold.
class NoLines final : public ChunkReader {
 public:
  Result<std::optional<TextChunk>> next() override { return std::optional<TextChunk>{}; }
  Result<std::uint64_t> line_of(std::uint64_t) override { return std::uint64_t{1}; }
  std::uint64_t offset() const override { return 0; }
};
}  // namespace

StreamLines::StreamLines(std::unique_ptr<ByteStream> stream, ChunkOptions options)
    : stream_(std::move(stream)),
      options_(options),
      buffer_(static_cast<std::size_t>(options.chunk_bytes + options.record_bytes_max + 2)) {}

/// Moves what waits to the front and fills up behind it.
Status StreamLines::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (!last_ && end_ < buffer_.size()) {
    const std::size_t want = buffer_.size() - end_;
    const auto got = stream_->read({buffer_.data() + end_, want});
    if (!got && got.error().code != Errc::kCorrupt) return tl::unexpected(got.error());
    if (!got) broken_ = got.error();
    end_ += got ? *got : 0;
    last_ = !got || *got == 0;
  }
  return {};
}

TextChunk StreamLines::give(std::size_t length) {
  TextChunk chunk;
  chunk.text = {buffer_.data() + begin_, length};
  chunk.offset = offset_;
  given_ = chunk.text;
  given_at_ = offset_;
  begin_ += length;
  offset_ += length;
  return chunk;
}

Result<std::optional<TextChunk>> StreamLines::next() {
  lines_ += newlines(given_);
  given_ = {};
  given_at_ = offset_;
  DLRUN_TRY(fill());
  const std::string_view text(buffer_.data() + begin_, end_ - begin_);
  const std::size_t newline = text.rfind('\n');
  if (newline != text.npos) return std::optional(give(newline + 1));
  if (!last_) {
    DLRUN_ASSIGN(TextChunk chunk, pass_over());
    return std::optional(chunk);
  }
  if (broken_) return tl::unexpected(*broken_);  // a line that was cut is no line
  if (!text.empty()) return std::optional(give(text.size()));
  DLRUN_TRY(stream_->verify());
  return std::optional<TextChunk>{};
}

/// The buffer is full of one line.
Result<TextChunk> StreamLines::pass_over() {
  TextChunk chunk;
  chunk.offset = offset_;
  for (;;) {
    const std::string_view text(buffer_.data() + begin_, end_ - begin_);
    const std::size_t newline = text.find('\n');
    const std::size_t length = newline == text.npos ? text.size() : newline + 1;
    begin_ += length;
    offset_ += length;
    chunk.skipped_bytes += length;
    if (newline != text.npos || last_) break;
    DLRUN_TRY(fill());
  }
  ++lines_;
  given_at_ = offset_;
  return chunk;
}

Result<std::uint64_t> StreamLines::line_of(std::uint64_t offset) {
  if (offset < given_at_) return lines_;  // of a line that was passed over
  return lines_ + 1 + newlines(given_.substr(0, static_cast<std::size_t>(offset - given_at_)));
}

Result<std::unique_ptr<ChunkReader>> open_chunks(Source& source, const Split& split,
                                                 ChunkOptions options) {
  DLRUN_ASSIGN(std::unique_ptr<File> file, source.open(split.uri, split.etag));
  char head[kCodecHeadBytes];
  DLRUN_ASSIGN(const std::size_t have, file->read_at(0, head));
  if (codec_of({head, have}) == Codec::kNone) {
    DLRUN_ASSIGN(auto reader, SplitReader::over(std::move(file), split, options));
    return std::unique_ptr<ChunkReader>(std::move(reader));
  }
  if (split.begin != 0) return std::unique_ptr<ChunkReader>(std::make_unique<NoLines>());
  auto stream = ByteStream::open(std::move(file));
  if (!stream) return fail_as(split.uri, stream);
  return std::unique_ptr<ChunkReader>(std::make_unique<StreamLines>(std::move(*stream), options));
}

}  // namespace dlrun::io
