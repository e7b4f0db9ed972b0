#include "io/feeder/row_reader.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "io/core/array_file.h"
#include "io/core/record_parser.h"
#include "io/feeder/table_format.h"
#include "io/source/chunk_reader.h"
#include "io/source/table_reader.h"
#include "runtime/base/assert.h"

namespace dlrun::io {

namespace {

/// Lines of a split -> rows, whatever parses them.
class LineRows final : public RowReader {
 public:
  /// Of whole lines that lie at `offset`.
  using Parse = std::function<ParseProgress(std::string_view text, std::uint64_t offset)>;

  LineRows(std::string uri, std::unique_ptr<ChunkReader> chunks, std::uint64_t record_bytes_max,
           Parse parse, BadRecordPolicy& policy)
      : uri_(std::move(uri)),
        chunks_(std::move(chunks)),
        record_bytes_max_(record_bytes_max),
        parse_(std::move(parse)),
        policy_(policy) {}

  Result<bool> read() override {
    auto chunk = chunks_->next();
    if (!chunk && chunk.error().code != Errc::kCorrupt) return tl::unexpected(chunk.error());
    if (!chunk) {
      DLRUN_TRY(judge({chunks_->offset(), 1, chunk.error().context, true}, {}));
      return false;
    }
    if (!*chunk) return false;
    if ((*chunk)->skipped_bytes != 0)
      DLRUN_TRY(judge({(*chunk)->offset, 1,
                       "record of " + std::to_string((*chunk)->skipped_bytes) + " bytes; at most " +
                           std::to_string(record_bytes_max_)},
                      {}));
    std::string_view text = (*chunk)->text;
    std::uint64_t offset = (*chunk)->offset;
    while (!text.empty()) {
      const ParseProgress progress = parse_(text, offset);
      if (progress.bad) {
        const auto start = static_cast<std::size_t>(progress.bad->offset - offset);
        DLRUN_TRY(judge(*progress.bad, text.substr(start, progress.consumed - start)));
        if (progress.bad->fatal) return false;
      }
      text.remove_prefix(progress.consumed);
      offset += progress.consumed;
    }
    return true;
  }

 private:
  Status judge(const BadRecord& bad, std::string_view raw) {
    std::uint64_t line = 0;
    if (policy_.wants_place()) {
      const auto found = chunks_->line_of(bad.offset);
      line = found ? *found : 0;
    }
    return policy_.judge(uri_, line, bad, raw);
  }

  const std::string uri_;
  const std::unique_ptr<ChunkReader> chunks_;
  const std::uint64_t record_bytes_max_;
  const Parse parse_;
  BadRecordPolicy& policy_;
};

/// A whole file of a typed format.
class FileRows final : public RowReader {
 public:
  FileRows(std::string uri, std::unique_ptr<ByteStream> stream, std::unique_ptr<TableParser> parser,
           BadRecordPolicy& policy, Table& table, FilePart part = {})
      : reader_(std::move(uri), std::move(stream), std::move(parser), policy, part),
        table_(table) {}
  Result<bool> read() override { return reader_.read(table_); }

 private:
  TableReader reader_;
  Table& table_;
};

/// A split without a record.
class NoRows final : public RowReader {
 public:
  Result<bool> read() override { return false; }
};

/// What make_store() made for this format.
template <class Store>
Store& as(RowStore& store) {
  auto* const made = dynamic_cast<Store*>(&store);
  DLRUN_ASSERT(made != nullptr);
  return *made;
}

constexpr std::uint64_t div_up(std::uint64_t n, std::uint64_t by) { return n / by + (n % by != 0); }

/// The rows of one length that start in the split. What is wrong with the header is told by the
/// split where it stands, what is wrong with the end by the last.
Result<std::unique_ptr<RowReader>> open_fixed_rows(std::unique_ptr<File> file, const Split& split,
                                                   const InputSpec& spec, Table& table,
                                                   BadRecordPolicy& policy) {
  const std::uint64_t size = file->size_bytes();
  std::unique_ptr<TableParser> parser;
  std::uint64_t data = 0, row_bytes = 0;
  std::optional<ArrayHeader> header;
  if (spec.format == Format::kTokens) {
    row_bytes =
        spec.tokens.sequence_length * (spec.tokens.type == TokenOptions::Type::kU16 ? 2 : 4);
  } else {
    DLRUN_ASSIGN(header, read_array_header(*file, spec.format));
    if (header) {
      const Column column = ArrayParser::column_of(*header);
      const Column& wanted = table.columns.at(0);
      if (column.type != wanted.type || column.width != wanted.width) header.reset();
    }
    if (!header && split.begin != 0) return std::unique_ptr<RowReader>(std::make_unique<NoRows>());
    data = header ? header->data_offset : 0;
    row_bytes = header ? header->row_bytes() : 0;
  }
  const auto row_behind = [&](std::uint64_t byte) {  // the first that begins there or behind
    return byte <= data ? 0 : div_up(byte - data, row_bytes);
  };
  const std::uint64_t row = split.begin == 0 ? 0 : row_behind(split.begin);
  const std::uint64_t from = split.begin == 0 ? 0 : data + row * row_bytes;
  std::uint64_t to = row_bytes == 0 ? size : data + row_behind(split.end) * row_bytes;
  const bool to_end = to >= size;  // also one whose last row is cut
  to = std::min(to, size);
  const bool behind_all = header && row > header->rows;  // told by the split of the first such byte
  if (split.begin != 0 && (from >= to || behind_all))
    return std::unique_ptr<RowReader>(std::make_unique<NoRows>());
  if (header && split.begin != 0) {
    parser = std::make_unique<ArrayParser>(
        spec.format == Format::kNpy ? ArrayFormat::kNpy : ArrayFormat::kIdx, *header, row);
  } else {
    DLRUN_ASSIGN(parser, make_table_parser(spec, {}));
  }
  return std::unique_ptr<RowReader>(
      std::make_unique<FileRows>(split.uri, ByteStream::open_range(std::move(file), from, to),
                                 std::move(parser), policy, table, FilePart{from, row, to_end}));
}

}  // namespace

std::unique_ptr<RowStore> make_store(const InputSpec& spec, const InputShape& shape) {
  if (is_table(spec.format)) return std::make_unique<TableStore>(shape.form);
  RecordBlock block;
  RecordParser(spec).prepare(block, shape.cols);
  return std::make_unique<BlockStore>(block);
}

Result<std::unique_ptr<RowReader>> open_rows(Source& source, const Split& split,
                                             const InputSpec& spec, const InputShape& shape,
                                             RowStore& store, BadRecordPolicy& policy) {
  const bool table = is_table(spec.format);
  const bool fixed = has_fixed_rows(spec);
  if (reads_whole_files(spec) || fixed) {
    DLRUN_ASSIGN(auto file, source.open(split.uri, split.etag));
    Table& to = as<TableStore>(store).table();
    if (fixed) {
      char head[kCodecHeadBytes];
      DLRUN_ASSIGN(const std::size_t have, file->read_at(0, head));
      if (codec_of({head, have}) == Codec::kNone)
        return open_fixed_rows(std::move(file), split, spec, to, policy);
      if (split.begin != 0) return std::unique_ptr<RowReader>(std::make_unique<NoRows>());
    }
    DLRUN_ASSIGN(auto parser, make_table_parser(spec, shape.schema));
    auto stream = ByteStream::open(std::move(file));
    if (!stream) return fail_as(split.uri, stream);
    return std::unique_ptr<RowReader>(
        std::make_unique<FileRows>(split.uri, std::move(*stream), std::move(parser), policy, to));
  }
  const std::uint64_t most = table ? spec.record_bytes_max : kRecordBytesMax;
  DLRUN_ASSIGN(auto chunks, open_chunks(source, split, {.record_bytes_max = most}));
  LineRows::Parse parse;
  if (table) {
    DLRUN_ASSIGN(auto made, make_table_parser(spec, shape.schema));
    const std::shared_ptr<TableParser> parser = std::move(made);
    parse = [parser, &to = as<TableStore>(store).table()](std::string_view text,
                                                          std::uint64_t offset) {
      return parser->parse(text, offset, true, to);
    };
  } else {
    parse = [parser = RecordParser(spec), &to = as<BlockStore>(store).block()](
                std::string_view text, std::uint64_t offset) {
      return parser.parse(text, offset, to);
    };
  }
  return std::unique_ptr<RowReader>(
      std::make_unique<LineRows>(split.uri, std::move(chunks), most, std::move(parse), policy));
}

}  // namespace dlrun::io
