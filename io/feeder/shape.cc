#include "io/feeder/shape.h"

#include <algorithm>

#include "io/core/row_store.h"
#include "io/feeder/table_format.h"
#include "io/pipe/protocol.h"
#include "io/source/chunk_reader.h"

namespace dlrun::io {

namespace {
constexpr std::uint64_t kLookBytes = 64 * 1024;
constexpr std::size_t kLookFiles = 16;
constexpr std::uint64_t kPage = 4096;
/// Bytes of a slot that holds any one record of a table.
std::uint64_t one_row_bytes(const InputSpec& spec, const Table& form) {
  return TableStore(form).batch_bytes(1, weight_max(spec, form), 1);
}

Result<InputShape> look_at_tables(Source& source, const std::vector<FileEntry>& files,
                                  const InputSpec& spec) {
  InputShape shape;
  std::optional<Error> why_not;
  std::size_t looked = 0;
  for (const FileEntry& file : files) {
    if (file.size_bytes == 0) continue;
    if (looked++ == kLookFiles) break;
    auto head = look_at_table(source, file, spec);
    if (!head && head.error().code != Errc::kInvalidArgument) return tl::unexpected(head.error());
    if (!head && !why_not) why_not = head.error();
    if (!head || !*head) continue;
    Table& table = (*head)->table;
    shape.schema = std::move((*head)->schema);
    shape.rows = table.rows;
    shape.entries = 0;
    for (std::size_t row = 0; row < table.rows; ++row)
      shape.entries += TableStore::row_weight(table, row);
    table.clear();
    shape.form = std::move(table);
    if (shape.rows > 0) break;
  }
  if (shape.form.columns.empty() && why_not) return tl::unexpected(*why_not);
  if (const auto bytes = one_row_bytes(spec, shape.form); bytes > pipe::kSlotBytesMax)
    return fail(Errc::kInvalidArgument, "input " + spec.name + ": a record may take " +
                                            std::to_string(bytes) + " bytes; a batch has at most " +
                                            std::to_string(pipe::kSlotBytesMax));
  return shape;
}
}  // namespace

Result<InputShape> look_at(Source& source, const std::vector<FileEntry>& files,
                           const InputSpec& spec) {
  if (is_table(spec.format)) return look_at_tables(source, files, spec);
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
  std::uint64_t least = kSlotBytesMin;
  if (is_table(spec.format)) {
    const std::uint64_t per_row = shape.rows == 0 ? 0 : shape.entries / shape.rows + 1;
    bytes = TableStore::table_batch_bytes(shape.form, rows, rows * (per_row + per_row / 4),
                                          std::min<std::uint64_t>(rows, 64));
    least = std::max(least, one_row_bytes(spec, shape.form));
  } else if (shape.rows > 0) {
    const std::uint64_t per_row = shape.entries / shape.rows + 1;
    const std::uint64_t spare = kind == BatchKind::kDense ? 0 : per_row / 4 + 1;
    bytes = batch_bytes(kind, spec.format == Format::kLibffm, rows, rows * (per_row + spare));
  }
  bytes = std::clamp(bytes, least, std::max(slot_bytes_max, least));
  return {kRingSlots, (bytes + kPage - 1) / kPage * kPage};
}

}  // namespace dlrun::io
