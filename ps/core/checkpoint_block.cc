#include "ps/core/checkpoint_block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/base/assert.h"
#include "runtime/base/crc32c.h"

namespace dlrun::ps {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "dCb1";
constexpr std::size_t kHeaderCrcAt = 60;

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

template <class T>
T get(std::string_view bytes, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string hex(std::uint32_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(8, '0');
  for (int i = 7; i >= 0; --i, value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

/// What record_bytes must be; 0: any that is a row.
std::uint32_t record_bytes_of(BlockKind kind) noexcept {
  switch (kind) {
    case BlockKind::kRows:
      return 0;
    case BlockKind::kSightings:
      return kSightingBytes;
    case BlockKind::kWindows:
      return kWindowBytes;
    case BlockKind::kEnd:
      return 0;
  }
  return 0;
}

Status check_shape(const BlockHeader& h) {
  const auto bad = [](std::string what) { return fail(Errc::kCorrupt, std::move(what)); };
  if (h.raw_bytes > kBlockBytesMax || h.stored_bytes > kBlockBytesMax)
    return bad("a block of " + std::to_string(h.raw_bytes) + " bytes, stored as " +
               std::to_string(h.stored_bytes));
  if (h.kind == BlockKind::kEnd) {
    if (h.raw_bytes != 0 || h.stored_bytes != 0) return bad("an end block with content");
    return {};
  }
  const std::uint32_t wanted = record_bytes_of(h.kind);
  const bool row = h.kind == BlockKind::kRows;
  if (row ? h.record_bytes < kRowHeadBytes || (h.record_bytes - kRowHeadBytes) % 4 != 0
          : h.record_bytes != wanted)
    return bad("records of " + std::to_string(h.record_bytes) + " bytes");
  if (std::uint64_t{h.n} * h.record_bytes != h.raw_bytes)
    return bad(std::to_string(h.n) + " records of " + std::to_string(h.record_bytes) +
               " bytes in " + std::to_string(h.raw_bytes));
  if (h.codec == BlockCodec::kPlain && h.stored_bytes != h.raw_bytes)
    return bad(std::to_string(h.raw_bytes) + " bytes stored as they are in " +
               std::to_string(h.stored_bytes));
  if (h.slot_first > h.slot_last || h.slot_last > kSlots || (row && h.slot_last == kSlots))
    return bad("slots " + std::to_string(h.slot_first) + " to " + std::to_string(h.slot_last));
  return {};
}

}  // namespace

void encode(const BlockHeader& h, std::string& out) {
  const std::size_t begin = out.size();
  out.append(kMagic);
  put(out, h.kind);
  put(out, h.codec);
  put(out, h.shard);
  put(out, h.table);
  put(out, h.slot_first);
  put(out, h.slot_last);
  put(out, h.n);
  put(out, h.record_bytes);
  put(out, h.raw_bytes);
  put(out, h.stored_bytes);
  put(out, h.crc);
  put(out, h.number);
  put(out, h.checkpoint);
  put(out, std::uint32_t{0});
  put(out, crc32c(std::string_view(out).substr(begin)));
  DLRUN_ASSERT(out.size() - begin == kBlockHeaderBytes);
}

Result<BlockHeader> decode_block_header(std::string_view bytes) {
  if (bytes.size() != kBlockHeaderBytes)
    return fail(Errc::kCorrupt, "a block's header of " + std::to_string(bytes.size()) + " bytes");
  const std::uint32_t crc = crc32c(bytes.substr(0, kHeaderCrcAt));
  const auto stored = get<std::uint32_t>(bytes, kHeaderCrcAt);
  const bool magic = bytes.starts_with(kMagic);
  if (!magic && bytes.starts_with("dCb") && crc == stored)
    return fail(Errc::kUnsupported, "a block of another version of the format");
  if (!magic || crc != stored)
    return fail(Errc::kCorrupt, "a block's header whose CRC32C is " + hex(crc) + ", not " +
                                    hex(stored) + (magic ? "" : ", without the mark of a block"));
  const auto kind = get<std::uint8_t>(bytes, 4);
  const auto codec = get<std::uint8_t>(bytes, 5);
  if (kind < 1 || kind > static_cast<std::uint8_t>(BlockKind::kEnd) ||
      codec > static_cast<std::uint8_t>(BlockCodec::kZstd) || get<std::uint32_t>(bytes, 56) != 0)
    return fail(Errc::kUnsupported,
                "a block of kind " + std::to_string(kind) + " and codec " + std::to_string(codec));
  BlockHeader h;
  h.kind = static_cast<BlockKind>(kind);
  h.codec = static_cast<BlockCodec>(codec);
  h.shard = get<std::uint16_t>(bytes, 6);
  h.table = get<std::uint32_t>(bytes, 8);
  h.slot_first = get<std::uint32_t>(bytes, 12);
  h.slot_last = get<std::uint32_t>(bytes, 16);
  h.n = get<std::uint32_t>(bytes, 20);
  h.record_bytes = get<std::uint32_t>(bytes, 24);
  h.raw_bytes = get<std::uint32_t>(bytes, 28);
  h.stored_bytes = get<std::uint32_t>(bytes, 32);
  h.crc = get<std::uint32_t>(bytes, 36);
  h.number = get<std::uint64_t>(bytes, 40);
  h.checkpoint = get<std::uint64_t>(bytes, 48);
  DLRUN_TRY(check_shape(h));
  return h;
}

Status check_stored(const BlockHeader& header, std::string_view stored) {
  if (stored.size() != header.stored_bytes)
    return fail(Errc::kCorrupt, "block " + std::to_string(header.number) + " has " +
                                    std::to_string(stored.size()) + " of " +
                                    std::to_string(header.stored_bytes) + " bytes");
  const std::uint32_t crc = crc32c(stored);
  if (crc == header.crc) return {};
  return fail(Errc::kCorrupt, "block " + std::to_string(header.number) + " (table " +
                                  std::to_string(header.table) + ", slots " +
                                  std::to_string(header.slot_first) + " to " +
                                  std::to_string(header.slot_last) + "): its CRC32C is " +
                                  hex(crc) + ", not " + hex(header.crc));
}

RowRecord row_at(const BlockHeader& header, std::string_view raw, std::uint32_t i) noexcept {
  const std::size_t at = std::size_t{i} * header.record_bytes;
  return {get<std::uint64_t>(raw, at), get<std::uint64_t>(raw, at + 8),
          get<std::uint32_t>(raw, at + 16), get<std::uint32_t>(raw, at + 20),
          raw.data() + at + kRowHeadBytes};
}

SightingRecord sighting_at(std::string_view raw, std::uint32_t i) noexcept {
  const std::size_t at = std::size_t{i} * kSightingBytes;
  return {get<std::uint32_t>(raw, at), get<std::uint32_t>(raw, at + 4),
          get<std::uint32_t>(raw, at + 8)};
}

WindowRecord window_at(std::string_view raw, std::uint32_t i) noexcept {
  const std::size_t at = std::size_t{i} * kWindowBytes;
  DedupWindow::Bits bits;
  for (std::size_t w = 0; w < bits.size(); ++w) bits[w] = get<std::uint64_t>(raw, at + 32 + 8 * w);
  return {ClientId{get<std::uint64_t>(raw, at)}, WorkerId{get<std::uint64_t>(raw, at + 8)},
          get<std::uint32_t>(raw, at + 16), DedupWindow(get<std::uint64_t>(raw, at + 24), bits)};
}

void BlockBuilder::begin(BlockKind kind, std::uint32_t table, std::uint32_t record_bytes) {
  if (open_ && open_->header.kind == kind && open_->header.table == table) return;
  close();
  open_.emplace();
  open_->header = {.kind = kind, .table = table, .record_bytes = record_bytes};
}

void BlockBuilder::begin_rows(std::uint32_t table, std::uint32_t words) {
  begin(BlockKind::kRows, table, static_cast<std::uint32_t>(kRowHeadBytes + 4 * words));
}
void BlockBuilder::begin_sightings(std::uint32_t table) {
  begin(BlockKind::kSightings, table, kSightingBytes);
}
void BlockBuilder::begin_windows() { begin(BlockKind::kWindows, 0, kWindowBytes); }

/// For one more record of `slot`.
void BlockBuilder::room(std::uint32_t slot) {
  DLRUN_ASSERT(open_.has_value());
  const BlockHeader h = open_->header;
  if (h.n > 0 && open_->raw.size() + h.record_bytes > block_bytes_) {
    close();
    begin(h.kind, h.table, h.record_bytes);
  }
  BlockHeader& header = open_->header;
  if (header.n == 0) {
    header.slot_first = slot;
    open_->raw.reserve(std::max<std::size_t>(block_bytes_, header.record_bytes));
  }
  header.slot_last = slot;
  ++header.n;
}

void BlockBuilder::row(std::uint32_t slot, const RowRecord& row) {
  room(slot);
  char head[kRowHeadBytes];
  std::memcpy(head, &row.key, 8);
  std::memcpy(head + 8, &row.version, 8);
  std::memcpy(head + 16, &row.last_use_s, 4);
  std::memcpy(head + 20, &row.frequency, 4);
  open_->raw.append(head, sizeof head);
  open_->raw.append(row.data, open_->header.record_bytes - kRowHeadBytes);
}

void BlockBuilder::sighting(const SightingRecord& s) {
  room(s.slot);
  put(open_->raw, s.slot);
  put(open_->raw, s.fingerprint);
  put(open_->raw, s.count);
}

void BlockBuilder::window(const WindowRecord& w) {
  room(kSlots);
  std::string& out = open_->raw;
  put(out, w.client.value);
  put(out, w.worker.value);
  put(out, w.slot);
  put(out, std::uint32_t{0});
  put(out, w.window.highest());
  for (const std::uint64_t word : w.window.bits()) put(out, word);
}

void BlockBuilder::close() {
  if (!open_) return;
  if (open_->header.n > 0) {
    open_->header.raw_bytes = static_cast<std::uint32_t>(open_->raw.size());
    done_.push_back(std::move(*open_));
  }
  open_.reset();
}

std::size_t BlockBuilder::bytes() const noexcept {
  std::size_t bytes = open_ ? open_->raw.size() : 0;
  for (const Block& block : done_) bytes += block.raw.size();
  return bytes;
}

Status PartCheck::next(const BlockHeader& h) {
  const auto bad = [&](std::string what) {
    return fail(Errc::kCorrupt, "block " + std::to_string(blocks_) + ": " + std::move(what));
  };
  if (ended_) return bad("the part goes on after its end");
  if (h.checkpoint != checkpoint_)
    return bad("it is of checkpoint " + std::to_string(h.checkpoint) + ", not of " +
               std::to_string(checkpoint_));
  if (h.shard != shard_)
    return bad("it is of shard " + std::to_string(h.shard) + ", not of " + std::to_string(shard_));
  if (h.number != blocks_)
    return bad("it has number " + std::to_string(h.number) + ": blocks are missing or exchanged");
  if (h.kind == BlockKind::kEnd && h.n != blocks_)
    return bad("the end counts " + std::to_string(h.n) + " blocks");
  if (h.kind == BlockKind::kRows) {
    if (h.table < table_ || (h.table == table_ && h.slot_first < slot_))
      return bad("its rows are out of order");
    table_ = h.table;
    slot_ = h.slot_last;
    rows_ += h.n;
  }
  ended_ = h.kind == BlockKind::kEnd;
  ++blocks_;
  std::string bytes;
  encode(h, bytes);
  headers_crc_ = crc32c(bytes, headers_crc_);
  return {};
}

}  // namespace dlrun::ps
