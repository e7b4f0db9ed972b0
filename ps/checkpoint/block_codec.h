#pragma once
/// ps/checkpoint/block_codec.h: a block's bytes as they are stored: plain, or one zstd frame.
/// Errors: kCorrupt: not what the header says. Never throws.
/// Bounds: kBlockBytesMax; a frame that would give more than the header's raw bytes is refused.
/// Threads: a BlockCoder has a single owner.

#include <memory>
#include <string>
#include <string_view>

#include "ps/core/checkpoint_block.h"

namespace dlrun::ps {

class BlockCoder {
 public:
  /// level 0: never compresses; reads either.
  explicit BlockCoder(int level = 0);
  ~BlockCoder();
  BlockCoder(const BlockCoder&) = delete;
  BlockCoder& operator=(const BlockCoder&) = delete;

  /// Sets codec, stored_bytes and crc of the header. What it returns is block.raw or memory of this
  /// coder, until the next call. A block that would not get smaller stays as it is.
  std::string_view store(Block& block);
  /// The raw bytes, in `stored` or in memory of this coder.
  Result<std::string_view> load(const BlockHeader& header, std::string_view stored);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::ps
