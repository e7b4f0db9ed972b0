#include "io/source/codec.h"

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>
#include <string>

namespace dlrun::io {

namespace {

constexpr std::string_view kXzMagic{
    "\xfd"
    "7zXZ\0",
    6};
constexpr std::string_view kBzip2Block{"\x31\x41\x59\x26\x53\x59", 6};
constexpr std::string_view kBzip2End{"\x17\x72\x45\x38\x50\x90", 6};

tl::unexpected<Error> corrupt(std::string why) { return fail(Errc::kCorrupt, std::move(why)); }

unsigned int clip(std::size_t n) {
  return static_cast<unsigned int>(
      std::min<std::size_t>(n, std::numeric_limits<unsigned int>::max()));
}

class GzipDecoder final : public Decoder {
 public:
  ~GzipDecoder() override {
    if (ready_) ::inflateEnd(&stream_);
  }
  Status start() {
    if (::inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK)
      return fail(Errc::kResourceExhausted, "no memory for a decoder");
    ready_ = true;
    return {};
  }
  Status restart() override {
    if (::inflateReset(&stream_) != Z_OK) return corrupt("the decoder cannot begin anew");
    return {};
  }
  Result<Step> step(std::string_view in, std::span<char> out) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = clip(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = clip(out.size());
    const unsigned int in_before = stream_.avail_in, out_before = stream_.avail_out;
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      return corrupt(stream_.msg != nullptr ? stream_.msg : "bytes that are no gzip");
    return Step{in_before - stream_.avail_in, out_before - stream_.avail_out, code == Z_STREAM_END};
  }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

class Bzip2Decoder final : public Decoder {
 public:
  ~Bzip2Decoder() override { end(); }
  Status restart() override {
    end();
    stream_ = {};
    if (::BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK)
      return fail(Errc::kResourceExhausted, "no memory for a decoder");
    ready_ = true;
    return {};
  }
  Result<Step> step(std::string_view in, std::span<char> out) override {
    stream_.next_in = const_cast<char*>(in.data());
    stream_.avail_in = clip(in.size());
    stream_.next_out = out.data();
    stream_.avail_out = clip(out.size());
    const unsigned int in_before = stream_.avail_in, out_before = stream_.avail_out;
    const int code = ::BZ2_bzDecompress(&stream_);
    if (code == BZ_MEM_ERROR) return fail(Errc::kResourceExhausted, "no memory for a decoder");
    if (code != BZ_OK && code != BZ_STREAM_END)
      return corrupt(code == BZ_DATA_ERROR_MAGIC ? "bytes that are no bzip2" : "checksum or code");
    return Step{in_before - stream_.avail_in, out_before - stream_.avail_out,
                code == BZ_STREAM_END};
  }

 private:
  void end() {
    if (ready_) ::BZ2_bzDecompressEnd(&stream_);
    ready_ = false;
  }
  bz_stream stream_{};
  bool ready_ = false;
};

class XzDecoder final : public Decoder {
 public:
  ~XzDecoder() override { ::lzma_end(&stream_); }
  Status restart() override {
    switch (::lzma_stream_decoder(&stream_, kDecoderBytesMax, 0)) {
      case LZMA_OK:
        return {};
      default:
        return fail(Errc::kResourceExhausted, "no memory for a decoder");
    }
  }
  Result<Step> step(std::string_view in, std::span<char> out) override {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret code = ::lzma_code(&stream_, LZMA_RUN);
    if (code == LZMA_MEM_ERROR) return fail(Errc::kResourceExhausted, "no memory for a decoder");
    if (code == LZMA_MEMLIMIT_ERROR)
      return fail(Errc::kResourceExhausted,
                  "it needs " + std::to_string(::lzma_memusage(&stream_)) +
                      " bytes to decode; at most " + std::to_string(kDecoderBytesMax));
    if (code != LZMA_OK && code != LZMA_STREAM_END && code != LZMA_BUF_ERROR)
      return corrupt(code == LZMA_FORMAT_ERROR    ? "bytes that are no xz"
                     : code == LZMA_OPTIONS_ERROR ? "options that this decoder does not know"
                                                  : "checksum or code");
    return Step{in.size() - stream_.avail_in, out.size() - stream_.avail_out,
                code == LZMA_STREAM_END};
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdDecoder final : public Decoder {
 public:
  ZstdDecoder() : context_(::ZSTD_createDCtx()) {}
  ~ZstdDecoder() override { ::ZSTD_freeDCtx(context_); }
  Status restart() override {
    if (context_ == nullptr) return fail(Errc::kResourceExhausted, "no memory for a decoder");
    ::ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
    ::ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27);  // 128 MiB, kDecoderBytesMax
    head_.clear();
    made_ = 0;
    return {};
  }
  Result<Step> step(std::string_view in, std::span<char> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t code = ::ZSTD_decompressStream(context_, &to, &from);
    if (::ZSTD_isError(code) != 0) {
      const ZSTD_ErrorCode why = ::ZSTD_getErrorCode(code);
      const bool memory =
          why == ZSTD_error_memory_allocation || why == ZSTD_error_frameParameter_windowTooLarge;
      return fail(memory ? Errc::kResourceExhausted : Errc::kCorrupt, ::ZSTD_getErrorName(code));
    }
    head_.append(in.substr(0, std::min(from.pos, kHeadBytes - head_.size())));
    made_ += to.pos;
    if (code == 0) DLRUN_TRY(check_size());
    return Step{from.pos, to.pos, code == 0};
  }

 private:
  static constexpr std::size_t kHeadBytes = 18;  ///< the longest frame header, RFC 8878 3.1.1

  /// libzstd asks for the promised size only where the last block is not empty.
  Status check_size() const {
    const unsigned long long said = ::ZSTD_getFrameContentSize(head_.data(), head_.size());
    if (said == ZSTD_CONTENTSIZE_UNKNOWN || said == ZSTD_CONTENTSIZE_ERROR || said == made_)
      return {};
    return fail(Errc::kCorrupt, "a frame of " + std::to_string(made_) +
                                    " bytes, where its header says " + std::to_string(said));
  }

  ZSTD_DCtx* context_;
  std::string head_;        ///< the frame's first bytes, kHeadBytes at most
  std::uint64_t made_ = 0;  ///< of this frame
};

}  // namespace

Codec codec_of(std::string_view head) {
  const auto byte = [head](std::size_t i) { return static_cast<unsigned char>(head[i]); };
  if (head.starts_with("\x1f\x8b\x08")) return Codec::kGzip;
  if (head.starts_with(kXzMagic)) return Codec::kXz;
  if (head.starts_with("\x28\xb5\x2f\xfd")) return Codec::kZstd;
  if (head.size() >= 4 && (byte(0) & 0xf0) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18")
    return Codec::kZstd;
  if (head.size() >= 10 && head.starts_with("BZh") && head[3] >= '1' && head[3] <= '9' &&
      (head.substr(4, 6) == kBzip2Block || head.substr(4, 6) == kBzip2End))
    return Codec::kBzip2;
  return Codec::kNone;
}

const char* codec_name(Codec codec) {
  switch (codec) {
    case Codec::kGzip:
      return "gzip";
    case Codec::kZstd:
      return "zstd";
    case Codec::kXz:
      return "xz";
    case Codec::kBzip2:
      return "bzip2";
    case Codec::kNone:
      break;
  }
  return "plain";
}

Result<std::unique_ptr<Decoder>> make_decoder(Codec codec) {
  std::unique_ptr<Decoder> decoder;
  switch (codec) {
    case Codec::kGzip: {
      auto gzip = std::make_unique<GzipDecoder>();
      DLRUN_TRY(gzip->start());
      return std::unique_ptr<Decoder>(std::move(gzip));
    }
    case Codec::kZstd:
      decoder = std::make_unique<ZstdDecoder>();
      break;
    case Codec::kXz:
      decoder = std::make_unique<XzDecoder>();
      break;
    case Codec::kBzip2:
      decoder = std::make_unique<Bzip2Decoder>();
      break;
    case Codec::kNone:
      return fail(Errc::kInvalidArgument, "a plain file needs no decoder");
  }
  DLRUN_TRY(decoder->restart());
  return decoder;
}

}  // namespace dlrun::io
