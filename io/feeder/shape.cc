#include "io/feeder/shape.h"

#include <algorithm>

#include "io/source/chunk_reader.h"

namespace dlrun::io {

namespace {
constexpr std::uint64_t kLookBytes = 64 * 1024;
constexpr std::size_t kLookFiles = 16;
constexpr std::uint64_t kPage = 4096;
}  // namespace

Result<InputShape> look_at(Source& source, const std::vector<FileEntry>& files,
                           const InputSpec& spec) {
  const RecordParser parser(spec);
  InputShape shape;
  std::size_t looked = 0;
  for (const FileEntry& file : files) {
    if (file.size_bytes == 0) continue;
    if (looked++ == kLookFiles) break;
    const Split head{0, 0, file.uri, file.etag, 0, std::min(file.size_bytes, kLookBytes)};
    DLRUN_ASSIGN(const auto reader, open_chunks(source, head, {.chunk_bytes = kLookBytes}));
    const auto chunk = reader->next();
    if (!chunk && chunk.error().code == Errc::kCorrupt) break;  // who reads it for real reports it
    if (!chunk) return tl::unexpected(chunk.error());
    if (!*chunk) continue;
    RecordBlock block;
    parser.prepare(block);
    const ParseProgress progress = parser.parse((*chunk)->text, (*chunk)->offset, block);
    shape.rows = block.rows();
    shape.entries = block.values.size();
    shape.cols = block.cols;
    if (shape.rows > 0 || progress.bad) break;
  }
  return shape;
}

PipeGeometry geometry_for(const InputSpec& spec, const InputShape& shape,
                          std::uint64_t slot_bytes_max) {
  const BatchKind kind = spec.format == Format::kCsv ? BatchKind::kDense : BatchKind::kCsr;
  const std::uint64_t rows = spec.batch_rows;
  std::uint64_t bytes = 0;
  if (shape.rows > 0) {
    const std::uint64_t per_row = shape.entries / shape.rows + 1;
    const std::uint64_t spare = kind == BatchKind::kDense ? 0 : per_row / 4 + 1;
    bytes = batch_bytes(kind, spec.format == Format::kLibffm, rows, rows * (per_row + spare));
  }
  bytes = std::clamp(bytes, kSlotBytesMin, std::max(slot_bytes_max, kSlotBytesMin));
  return {kSlots, (bytes + kPage - 1) / kPage * kPage};
}

}  // namespace dlrun::io
