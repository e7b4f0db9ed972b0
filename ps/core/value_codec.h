#pragma once
/// ps/core/value_codec.h: how values travel: rows of f32 [n, dim] <-> fewer bytes. Each row stands
/// alone, so that a batch may be cut anywhere between rows.
///
///   codec   bytes of a row                     meaning
///   kF32    4 dim                              itself
///   kF16    2 dim                              IEEE half, to nearest even (ps/core/half.h)
///   kBf16   2 dim                              bfloat16, to nearest even
///   kInt8   4 + dim, up to 4                   f32 scale = max |x| / 127; i8 q: scale * q
///   kOneBit 8 + 4 ceil(dim / 32)               f32 mean of x < 0, f32 mean of x >= 0; a bit each
///   kTopK   2 k, up to 4, + 4 k                u16 index ascending, f32: the k largest |x|, else 0
///
/// Sources: one bit: Seide et al., Interspeech 2014; top-k: Aji and Heafield, EMNLP 2017; error
/// feedback: Karimireddy et al., ICML 2019: what a row lost is added to the next one of its key.
/// What is not finite is never hidden: such a row of kInt8 decodes to NaN, a mean of kOneBit that
/// meets one is not finite, NaN counts as the largest in kTopK (ties: the lower index).
/// Errors: decode says kCorrupt for bytes of another length and for indices out of order or range.
/// Threads: pure functions; ErrorFeedback has a single owner.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::ps {

std::size_t encoded_row_bytes(const CodecSpec& spec, std::uint32_t dim) noexcept;

/// values [n, dim] -> out [n, encoded_row_bytes].
void encode_rows(const CodecSpec& spec, std::span<const float> values, std::uint32_t dim,
                 std::byte* out);
/// `bytes` [n, encoded_row_bytes], of any alignment -> out [n, dim].
Status decode_rows(const CodecSpec& spec, std::span<const std::byte> bytes, std::uint32_t dim,
                   std::span<float> out);

/// What was lost of each key's rows so far.
/// Bounds: of rows owed at most rows_max, and less than kBlockBytes more than there are.
class ErrorFeedback {
 public:
  static constexpr std::size_t kBlockBytes = 64u << 10;
  ErrorFeedback(std::uint32_t dim, std::size_t rows_max);
  /// encode_rows of values + what is owed to their keys (which are distinct); keeps what is lost
  /// now. Beyond rows_max keys, what a new key loses is gone (and counted). What is not finite is
  /// not owed: it has been sent, and would come back for ever.
  void encode(const CodecSpec& spec, std::span<const std::uint64_t> keys,
              std::span<const float> values, std::byte* out);
  /// Owed to the key, added to `row` [dim].
  void add_to(std::uint64_t key, float* row) const noexcept;
  std::uint64_t forgotten() const noexcept { return forgotten_; }
  /// Of rows owed, without their keys.
  std::size_t bytes() const noexcept { return owed_.size() * block_rows_ * dim_ * sizeof(float); }

 private:
  float* owed(std::size_t row) const noexcept {
    return owed_[row / block_rows_].get() + row % block_rows_ * dim_;
  }

  const std::uint32_t dim_;
  const std::size_t rows_max_;
  const std::size_t block_rows_;
  std::unordered_map<std::uint64_t, std::size_t> places_;  ///< key -> row
  std::vector<std::unique_ptr<float[]>> owed_;             ///< in blocks: growing moves no row
  std::vector<float> wanted_;
  std::vector<float> sent_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace dlrun::ps
