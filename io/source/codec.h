#pragma once
/// io/source/codec.h: compressed files by their content, never by their name; and one decoder a
/// format, bytes in and bytes out, in bounded memory.
///   gzip 1f 8b 08      xz fd "7zXZ" 00      bzip2 "BZh" '1'..'9', then the mark of a block or the
///   end zstd 28 b5 2f fd, or a skippable frame (2a 4d 18 after 5x), as pzstd writes one first
/// All may be several members, frames or streams, one after another: they are one text. Zeros after
/// the last gzip member are padding (as gzip takes them), so are zeros by fours after an xz stream;
/// anything else is an error.
/// Bounds: gzip 64 KiB; bzip2 4 MiB; xz and zstd kDecoderBytesMax: a file that needs more is
/// kResourceExhausted, before it is read.
/// Errors: kCorrupt.
/// Threads: one owner.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun::io {

enum class Codec { kNone, kGzip, kZstd, kXz, kBzip2 };

inline constexpr std::size_t kCodecHeadBytes = 10;  ///< as many tell
inline constexpr std::uint64_t kDecoderBytesMax = 128u << 20;

Codec codec_of(std::string_view head);
const char* codec_name(Codec codec);

class Decoder {
 public:
  struct Step {
    std::size_t taken = 0;
    std::size_t made = 0;
    bool member_ended = false;  ///< what follows is another, or padding, or nothing
  };
  virtual ~Decoder() = default;
  /// Takes from `in` and fills `out` as far as either goes. Neither taken nor made: it needs more
  /// of `in`.
  virtual Result<Step> step(std::string_view in, std::span<char> out) = 0;
  /// Ready for the next member.
  virtual Status restart() = 0;
};

Result<std::unique_ptr<Decoder>> make_decoder(Codec codec);

}  // namespace dlrun::io
