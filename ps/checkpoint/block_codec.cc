#include "ps/checkpoint/block_codec.h"

#include <zstd.h>

#include <new>

#include "runtime/base/crc32c.h"

namespace dlrun::ps {

struct BlockCoder::Impl {
  int level = 0;
  ZSTD_CCtx* out = nullptr;
  ZSTD_DCtx* in = nullptr;
  std::string memory;
  ~Impl() {
    ::ZSTD_freeCCtx(out);
    ::ZSTD_freeDCtx(in);
  }
};

BlockCoder::BlockCoder(int level) : impl_(std::make_unique<Impl>()) { impl_->level = level; }
BlockCoder::~BlockCoder() = default;

std::string_view BlockCoder::store(Block& block) {
  std::string_view stored = block.raw;
  block.header.codec = BlockCodec::kPlain;
  if (impl_->level > 0) {
    if (impl_->out == nullptr) impl_->out = ::ZSTD_createCCtx();
    if (impl_->out == nullptr) throw std::bad_alloc();
    impl_->memory.resize(::ZSTD_compressBound(block.raw.size()));
    const std::size_t n =
        ::ZSTD_compressCCtx(impl_->out, impl_->memory.data(), impl_->memory.size(),
                            block.raw.data(), block.raw.size(), impl_->level);
    if (::ZSTD_isError(n) == 0 && n < block.raw.size()) {
      stored = std::string_view(impl_->memory).substr(0, n);
      block.header.codec = BlockCodec::kZstd;
    }
  }
  block.header.stored_bytes = static_cast<std::uint32_t>(stored.size());
  block.header.crc = crc32c(stored);
  return stored;
}

Result<std::string_view> BlockCoder::load(const BlockHeader& header, std::string_view stored) {
  DLRUN_TRY(check_stored(header, stored));
  if (header.codec == BlockCodec::kPlain) return stored;
  if (impl_->in == nullptr) impl_->in = ::ZSTD_createDCtx();
  if (impl_->in == nullptr) return fail(Errc::kResourceExhausted, "no memory to decompress");
  impl_->memory.resize(header.raw_bytes);
  const std::size_t n = ::ZSTD_decompressDCtx(impl_->in, impl_->memory.data(), impl_->memory.size(),
                                              stored.data(), stored.size());
  if (::ZSTD_isError(n) != 0)
    return fail(Errc::kCorrupt,
                "block " + std::to_string(header.number) + ": " + ::ZSTD_getErrorName(n));
  if (n != header.raw_bytes)
    return fail(Errc::kCorrupt, "block " + std::to_string(header.number) + " gives " +
                                    std::to_string(n) + " of " + std::to_string(header.raw_bytes) +
                                    " bytes");
  return std::string_view(impl_->memory);
}

}  // namespace dlrun::ps
