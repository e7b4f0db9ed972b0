#include "io/source/byte_stream.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace dlrun::io {

ByteStream::ByteStream(std::unique_ptr<File> file, Codec codec, std::unique_ptr<Decoder> decoder)
    : file_(std::move(file)), codec_(codec), decoder_(std::move(decoder)) {
  if (decoder_) buffer_.resize(kStreamBytes);
}

Result<std::unique_ptr<ByteStream>> ByteStream::open(std::unique_ptr<File> file) {
  char head[kCodecHeadBytes];
  DLRUN_ASSIGN(const std::size_t have, file->read_at(0, head));
  const Codec codec = codec_of({head, have});
  std::unique_ptr<Decoder> decoder;
  if (codec != Codec::kNone) {
    DLRUN_ASSIGN(decoder, make_decoder(codec));
  }
  return std::unique_ptr<ByteStream>(new ByteStream(std::move(file), codec, std::move(decoder)));
}

std::unique_ptr<ByteStream> ByteStream::open_range(std::unique_ptr<File> file, std::uint64_t from,
                                                   std::uint64_t to) {
  std::unique_ptr<ByteStream> stream(new ByteStream(std::move(file), Codec::kNone, nullptr));
  stream->at_ = from;
  stream->to_ = to;
  return stream;
}

Result<std::size_t> ByteStream::read(std::span<char> out) {
  if (error_) return tl::unexpected(*error_);
  if (decoder_) return decode(out);
  const std::uint64_t left = to_ > at_ ? to_ - at_ : 0;
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
  DLRUN_ASSIGN(const std::size_t n, file_->read_at(at_, out.first(want)));
  at_ += n;
  decoded_ += n;
  return n;
}

Result<std::size_t> ByteStream::decode(std::span<char> out) {
  std::size_t made = 0;
  const auto give = [&](Error error) -> Result<std::size_t> {
    error_ = std::move(error);
    if (made == 0) return tl::unexpected(*error_);
    return made;
  };
  while (made < out.size() && !over_) {
    if (begin_ == end_)
      if (const Status filled = fill(); !filled) return give(filled.error());
    if (between_) {
      const auto another = next_member();
      if (!another) return give(another.error());
      over_ = !*another;
      continue;
    }
    const auto step = decoder_->step({buffer_.data() + begin_, end_ - begin_}, out.subspan(made));
    if (!step) return give(trouble(step.error().code, step.error().context).value());
    begin_ += step->taken;
    at_ += step->taken;
    made += step->made;
    decoded_ += step->made;
    between_ = step->member_ended;
    if (step->taken == 0 && step->made == 0 && !between_) {
      if (begin_ != end_) return give(trouble(Errc::kCorrupt, "the decoder is stuck").value());
      return give(trouble(Errc::kCorrupt, "the file ends too early").value());
    }
  }
  return made;
}

/// An empty buffer is filled; it stays empty at the end of the file.
Status ByteStream::fill() {
  begin_ = 0;
  DLRUN_ASSIGN(end_, file_->read_at(at_, buffer_));
  return {};
}

/// Between members: padding is passed over; whether another begins.
Result<bool> ByteStream::next_member() {
  const auto pads = [this] { return codec_ == Codec::kGzip || codec_ == Codec::kXz; };
  std::uint64_t zeros = 0;
  for (;;) {
    while (pads() && begin_ != end_ && buffer_[begin_] == 0) {
      ++begin_;
      ++at_;
      ++zeros;
    }
    if (begin_ != end_) break;
    DLRUN_TRY(fill());
    if (end_ == 0) break;
  }
  if (codec_ == Codec::kXz && zeros % 4 != 0)
    return trouble(Errc::kCorrupt, "padding that is no multiple of four");
  if (begin_ == end_) return false;
  // The head may lie over the end of the buffer.
  char head[kCodecHeadBytes];
  DLRUN_ASSIGN(const std::size_t have, file_->read_at(at_, head));
  if ((codec_ == Codec::kGzip && zeros != 0) || codec_of({head, have}) != codec_)
    return trouble(Errc::kCorrupt, "bytes after the end that begin no other");
  DLRUN_TRY(decoder_->restart());
  between_ = false;
  return true;
}

tl::unexpected<Error> ByteStream::trouble(Errc code, const std::string& why) const {
  return fail(code, std::string(codec_name(codec_)) + ", byte " + std::to_string(at_) +
                        " of the file: " + why + " (" + std::to_string(decoded_) +
                        " bytes were decoded before it)");
}

}  // namespace dlrun::io
