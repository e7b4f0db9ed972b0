#include "io/source/table_reader.h"

#include <algorithm>
#include <cstring>

namespace dlrun::io {

TableReader::TableReader(std::string uri, std::unique_ptr<ByteStream> stream,
                         std::unique_ptr<TableParser> parser, BadRecordPolicy& policy,
                         FilePart part)
    : uri_(std::move(uri)),
      stream_(std::move(stream)),
      parser_(std::move(parser)),
      policy_(policy),
      buffer_(kStreamBytes),
      offset_(part.offset),
      lines_(part.record),
      to_end_(part.to_end) {}

Result<bool> TableReader::read(Table& table) {
  if (over_) return false;
  if (!last_) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
    const std::size_t want = buffer_.size() - end_;
    const auto got = stream_->read({buffer_.data() + end_, want});
    if (!got && got.error().code != Errc::kCorrupt) {
      over_ = true;
      return fail_as(uri_, got);
    }
    if (!got) broken_ = got.error();
    end_ += got ? *got : 0;
    last_ = !got || *got < want;
    if (got && *got < want) {  // the stream's end, or the last bytes before its trouble
      char probe;
      const auto more = stream_->read({&probe, 1});
      if (!more) broken_ = more.error();
    }
  }
  const bool whole = last_ && to_end_ && !broken_;  // what a broken stream left behind is no record
  const bool text = parser_->is_text();
  const auto newlines = [](std::string_view bytes) {
    return static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  };
  for (;;) {
    const std::string_view bytes(buffer_.data() + begin_, end_ - begin_);
    const std::size_t rows = table.rows;
    const ParseProgress progress = parser_->parse(bytes, offset_, whole, table);
    if (!text) lines_ += table.rows - rows;
    if (progress.bad) {
      const auto begins = progress.bad->offset > offset_ ? progress.bad->offset - offset_ : 0;
      const auto start = std::min(static_cast<std::size_t>(begins), bytes.size());
      const std::size_t stop = std::max(start, progress.consumed);
      const std::uint64_t line = lines_ + 1 + (text ? newlines(bytes.substr(0, start)) : 0);
      DLRUN_ASSIGN(const bool goes_on,
                   judge(*progress.bad, line, bytes.substr(start, stop - start)));
      if (!goes_on) return false;
      if (!text) ++lines_;
    }
    if (text) lines_ += newlines(bytes.substr(0, progress.consumed));
    begin_ += progress.consumed;
    offset_ += progress.consumed;
    if (!progress.bad) break;
  }
  if (!last_) return true;
  if (broken_) {
    DLRUN_TRY(judge({offset_, 1, broken_->context, true}, lines_ + 1,
                    {buffer_.data() + begin_, end_ - begin_}));
    return false;
  }
  over_ = true;
  if (const Status same = stream_->verify(); !same) return fail_as(uri_, same);
  return false;
}

Result<bool> TableReader::judge(const BadRecord& bad, std::uint64_t line, std::string_view raw) {
  over_ = true;
  DLRUN_TRY(policy_.judge(uri_, line, bad, raw));
  over_ = bad.fatal;
  return !bad.fatal;
}

}  // namespace dlrun::io
