#pragma once
/// io/source/byte_stream.h: the bytes of a file from its start, decoded when it is compressed
/// (codec.h), in order.
/// Errors: of File. Of a compressed file kCorrupt: "gzip, byte N of the file: REASON (M bytes were
/// decoded before it)"; a file that ends too early says so in the same form. What was decoded
/// before the trouble is given first. kResourceExhausted: it needs too much memory to decode.
/// Bounds: one buffer of kStreamBytes and the decoder's memory.
/// Threads: one owner.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/source/codec.h"
#include "io/source/source.h"

namespace dlrun::io {

inline constexpr std::size_t kStreamBytes = 256 * 1024;

class ByteStream {
 public:
  /// Looks at the first bytes to know the codec.
  static Result<std::unique_ptr<ByteStream>> open(std::unique_ptr<File> file);

  /// Bytes [from, to) of a file as they are.
  static std::unique_ptr<ByteStream> open_range(std::unique_ptr<File> file, std::uint64_t from,
                                                std::uint64_t to);

  /// Fills `out` as far as the bytes go: less than asked only at the end, or before trouble, which
  /// the next read tells. 0 = the end.
  Result<std::size_t> read(std::span<char> out);
  Codec codec() const { return codec_; }
  std::uint64_t decoded_bytes() const { return decoded_; }
  /// Is it still the file that was opened?
  Status verify() { return file_->verify(); }

 private:
  ByteStream(std::unique_ptr<File> file, Codec codec, std::unique_ptr<Decoder> decoder);
  Result<std::size_t> decode(std::span<char> out);
  Status fill();
  Result<bool> next_member();
  tl::unexpected<Error> trouble(Errc code, const std::string& why) const;

  std::unique_ptr<File> file_;
  const Codec codec_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;       ///< what waits in the buffer
  std::uint64_t at_ = 0;                  ///< in the file, of buffer_[begin_]
  std::uint64_t to_ = ~std::uint64_t{0};  ///< not compressed: where it ends
  std::uint64_t decoded_ = 0;
  bool between_ = false;  ///< a member has ended
  bool over_ = false;
  std::optional<Error> error_;  ///< to be told with the next read
};

}  // namespace dlrun::io
