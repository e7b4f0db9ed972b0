#pragma once
/// ps/core/checkpoint_block.h: the blocks of a checkpoint's part as bytes (docs/ps-checkpoint.md).
/// What makes and reads files, and what compresses, is above: a core has no disk.
/// Errors: kCorrupt and kUnsupported; the context says what is wrong with the block, the caller
/// puts file and offset before it. Never throws, whatever the bytes.
/// Bounds: raw and stored bytes of a block <= kBlockBytesMax, checked before anything is allocated
/// for them.
/// Threads: values and pure functions; a BlockBuilder and a PartCheck have a single owner.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/core/dedup_window.h"
#include "ps/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::ps {

inline constexpr std::size_t kBlockHeaderBytes = 64;
inline constexpr std::size_t kBlockBytes = 1u << 20;      ///< where a writer begins the next
inline constexpr std::size_t kBlockBytesMax = 16u << 20;  ///< what a reader takes
inline constexpr std::size_t kRowHeadBytes = 24;
inline constexpr std::size_t kSightingBytes = 12;
inline constexpr std::size_t kWindowBytes = 64;

enum class BlockKind : std::uint8_t { kRows = 1, kSightings = 2, kWindows = 3, kEnd = 4 };
enum class BlockCodec : std::uint8_t { kPlain = 0, kZstd = 1 };

struct BlockHeader {
  BlockKind kind = BlockKind::kRows;
  BlockCodec codec = BlockCodec::kPlain;
  std::uint16_t shard = 0;
  std::uint32_t table = 0;
  std::uint32_t slot_first = 0;
  std::uint32_t slot_last = 0;
  std::uint32_t n = 0;  ///< records; kEnd: blocks before it
  std::uint32_t record_bytes = 0;
  std::uint32_t raw_bytes = 0;
  std::uint32_t stored_bytes = 0;
  std::uint32_t crc = 0;  ///< of the stored bytes
  std::uint64_t number = 0;
  std::uint64_t checkpoint = 0;
  friend bool operator==(const BlockHeader&, const BlockHeader&) = default;
};

/// Appends kBlockHeaderBytes.
void encode(const BlockHeader& header, std::string& out);
/// Exactly kBlockHeaderBytes. What it returns is within the bounds and consistent in itself.
Result<BlockHeader> decode_block_header(std::string_view bytes);
/// kCorrupt unless `stored` is what the header says.
Status check_stored(const BlockHeader& header, std::string_view stored);

/// A row out of a block; `data` points into the block's bytes (any alignment).
struct RowRecord {
  std::uint64_t key = 0;
  std::uint64_t version = 0;
  std::uint32_t last_use_s = 0;
  std::uint32_t frequency = 0;
  const char* data = nullptr;  ///< record_bytes - kRowHeadBytes
};
struct SightingRecord {
  std::uint32_t slot = 0;
  std::uint32_t fingerprint = 0;
  std::uint32_t count = 0;
  friend bool operator==(const SightingRecord&, const SightingRecord&) = default;
};
/// slot == kSlots: of every slot of the shard that has no window of its own.
struct WindowRecord {
  ClientId client;
  WorkerId worker = kNoWorker;
  std::uint32_t slot = kSlots;
  DedupWindow window;
  friend bool operator==(const WindowRecord&, const WindowRecord&) = default;
};

/// Record i of a block's raw bytes; the header has passed decode_block_header().
RowRecord row_at(const BlockHeader& header, std::string_view raw, std::uint32_t i) noexcept;
SightingRecord sighting_at(std::string_view raw, std::uint32_t i) noexcept;
WindowRecord window_at(std::string_view raw, std::uint32_t i) noexcept;

/// A block that is ready for the writer: `raw` is not compressed, header.stored and crc not set.
struct Block {
  BlockHeader header;
  std::string raw;
};

/// Records of one kind and table, in ascending slots, to blocks of about kBlockBytes.
class BlockBuilder {
 public:
  explicit BlockBuilder(std::size_t block_bytes = kBlockBytes) : block_bytes_(block_bytes) {}

  /// What came before of another table or kind is closed. `words`: of a row.
  void begin_rows(std::uint32_t table, std::uint32_t words);
  void row(std::uint32_t slot, const RowRecord& row);
  void begin_sightings(std::uint32_t table);
  void sighting(const SightingRecord& sighting);
  void begin_windows();
  void window(const WindowRecord& window);
  void close();

  /// Full blocks, and after close() all; each once.
  std::vector<Block> take() { return std::exchange(done_, {}); }
  /// Of blocks not yet taken and of the one that is open.
  std::size_t bytes() const noexcept;

 private:
  void begin(BlockKind kind, std::uint32_t table, std::uint32_t record_bytes);
  void room(std::uint32_t slot);

  std::size_t block_bytes_;
  std::vector<Block> done_;
  std::optional<Block> open_;
};

/// That the blocks of a part are all there, each once and in order, as they are read from its
/// start.
class PartCheck {
 public:
  PartCheck(std::uint64_t checkpoint, std::uint16_t shard)
      : checkpoint_(checkpoint), shard_(shard) {}
  Status next(const BlockHeader& header);
  bool ended() const noexcept { return ended_; }
  std::uint64_t blocks() const noexcept { return blocks_; }
  std::uint64_t rows() const noexcept { return rows_; }
  /// CRC32C over the headers so far: what the manifest knows a part by.
  std::uint32_t headers_crc() const noexcept { return headers_crc_; }

 private:
  std::uint64_t checkpoint_;
  std::uint16_t shard_;
  std::uint64_t blocks_ = 0;
  std::uint64_t rows_ = 0;
  std::uint32_t headers_crc_ = 0;
  std::uint32_t table_ = 0;
  std::uint32_t slot_ = 0;
  bool ended_ = false;
};

}  // namespace dlrun::ps
