#include "io/source/split_reader.h"

#include <algorithm>
#include <cstring>

namespace dlrun::io {

namespace {
constexpr std::size_t kScanBytes = 64 * 1024;

const char* find_newline(const char* begin, const char* end) {
  return static_cast<const char*>(std::memchr(begin, '\n', static_cast<std::size_t>(end - begin)));
}
const char* find_last_newline(const char* begin, const char* end) {
  return static_cast<const char*>(::memrchr(begin, '\n', static_cast<std::size_t>(end - begin)));
}
}  // namespace

SplitReader::SplitReader(std::unique_ptr<File> file, const Split& split, Options options)
    : file_(std::move(file)),
      uri_(split.uri),
      begin_(split.begin),
      end_(split.end),
      options_(options) {
  buffer_.resize(static_cast<std::size_t>(std::min(options_.chunk_bytes, end_ - begin_)));
}

Result<std::unique_ptr<SplitReader>> SplitReader::open(Source& source, const Split& split,
                                                       Options options) {
  DLRUN_ASSIGN(std::unique_ptr<File> file, source.open(split.uri, split.etag));
  return over(std::move(file), split, options);
}

Result<std::unique_ptr<SplitReader>> SplitReader::over(std::unique_ptr<File> file,
                                                       const Split& split, Options options) {
  if (split.begin > split.end || split.end > file->size_bytes())
    return fail(Errc::kInvalidArgument, split.uri + ": a split beyond the end of the file");
  return std::unique_ptr<SplitReader>(new SplitReader(std::move(file), split, options));
}

Status SplitReader::find_start() {
  started_ = true;
  at_ = begin_;
  if (begin_ == 0) return {};
  for (std::uint64_t scan = begin_ - 1; scan + 1 < end_;) {
    const std::size_t want = static_cast<std::size_t>(
        std::min<std::uint64_t>(end_ - 1 - scan, std::min(kScanBytes, buffer_.size())));
    DLRUN_ASSIGN(const std::size_t got, file_->read_at(scan, {buffer_.data(), want}));
    if (const char* newline = find_newline(buffer_.data(), buffer_.data() + got)) {
      at_ = scan + static_cast<std::uint64_t>(newline - buffer_.data()) + 1;
      return {};
    }
    if (got < want) break;
    scan += want;
  }
  at_ = end_;
  return {};
}

Result<std::optional<TextChunk>> SplitReader::next() {
  if (!started_) DLRUN_TRY(find_start());
  if (at_ >= end_) {
    DLRUN_TRY(file_->verify());
    return std::optional<TextChunk>{};
  }
  // Up to chunk_bytes of lines that start in the split, then as much as the last of them needs.
  const std::uint64_t inside = std::min(end_ - at_, options_.chunk_bytes);
  DLRUN_ASSIGN(std::size_t have,
               file_->read_at(at_, {buffer_.data(), static_cast<std::size_t>(inside)}));
  if (have < inside) {
    DLRUN_TRY(file_->verify());
    return fail(Errc::kIo, uri_ + ": offset " + std::to_string(at_ + have) +
                               ": the file ended before its size");
  }
  const char* data = buffer_.data();
  TextChunk chunk;
  chunk.offset = at_;
  // Lines that end within `have` are whole. When the piece reaches the split's end, the last line
  // may run on; else what runs on is left to the next call, unless it is all there is.
  const char* whole_end = find_last_newline(data, data + have);
  whole_end = whole_end != nullptr ? whole_end + 1 : data;
  const bool reaches_end = at_ + have == end_;
  if (whole_end != data && (!reaches_end || whole_end == data + have)) {
    chunk.text = {data, static_cast<std::size_t>(whole_end - data)};
    at_ += chunk.text.size();
    return std::optional(chunk);
  }
  std::size_t line_start = static_cast<std::size_t>(whole_end - data);
  const std::size_t most =
      static_cast<std::size_t>(options_.chunk_bytes + options_.record_bytes_max + 2);  // 2: CR LF
  while (have < most) {
    const std::size_t want = std::min(kScanBytes, most - have);
    if (buffer_.size() < have + want) buffer_.resize(have + want);
    data = buffer_.data();
    DLRUN_ASSIGN(const std::size_t got, file_->read_at(at_ + have, {buffer_.data() + have, want}));
    const char* newline = find_newline(data + have, data + have + got);
    if (newline != nullptr || got < want) {
      const std::size_t end =
          newline != nullptr ? static_cast<std::size_t>(newline - data) + 1 : have + got;
      chunk.text = {data, end};
      at_ += end;
      return std::optional(chunk);
    }
    have += got;
  }
  if (line_start > 0) {  // the lines before the long one first
    chunk.text = {data, line_start};
    at_ += line_start;
    return std::optional(chunk);
  }
  const std::size_t block = std::min(kScanBytes, buffer_.size());
  std::uint64_t scan = at_ + have;
  for (;;) {
    DLRUN_ASSIGN(const std::size_t got, file_->read_at(scan, {buffer_.data(), block}));
    if (const char* newline = find_newline(data, data + got)) {
      scan += static_cast<std::uint64_t>(newline - data) + 1;
      break;
    }
    scan += got;
    if (got < block) break;
  }
  chunk.skipped_bytes = scan - at_;
  at_ = scan;
  return std::optional(chunk);
}

Result<std::uint64_t> SplitReader::line_of(std::uint64_t offset) {
  if (offset < counted_to_) counted_to_ = counted_ = 0;
  std::vector<char> block(kScanBytes);
  while (counted_to_ < offset) {
    const std::size_t want =
        static_cast<std::size_t>(std::min<std::uint64_t>(kScanBytes, offset - counted_to_));
    DLRUN_ASSIGN(const std::size_t got, file_->read_at(counted_to_, {block.data(), want}));
    const auto end = block.begin() + static_cast<std::ptrdiff_t>(got);
    counted_ += static_cast<std::uint64_t>(std::count(block.begin(), end, '\n'));
    counted_to_ += got;
    if (got < want) break;
  }
  return counted_ + 1;
}

}  // namespace dlrun::io
