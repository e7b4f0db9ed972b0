#include "io/feeder/table_format.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "io/core/array_file.h"
#include "io/core/csv.h"
#include "io/core/json_lines.h"
#include "io/core/record_io.h"
#include "io/core/tf_example.h"
#include "io/core/tf_record.h"
#include "io/core/token_file.h"
#include "io/source/byte_stream.h"

namespace dlrun::io {

namespace {

constexpr std::size_t kLookBytes = 64 * 1024;

CsvOptions csv_options(const InputSpec& spec) {
  return {spec.delimiter, spec.header, spec.newlines_in_quotes, spec.missing,
          spec.record_bytes_max};
}

struct Head {
  std::string bytes;
  bool whole = false;  ///< it is all of the file
};

/// What of a damaged file can be decoded is its head; whoever reads it for real reports it.
Result<Head> head_of(Source& source, const FileEntry& file, std::size_t bytes) {
  DLRUN_ASSIGN(auto opened, source.open(file.uri, file.etag));
  auto stream = ByteStream::open(std::move(opened));
  if (!stream && stream.error().code == Errc::kCorrupt) return Head{};
  if (!stream) return fail_as(file.uri, stream);
  Head head;
  head.bytes.resize(bytes);
  std::size_t have = 0;
  while (have < bytes) {
    const auto got = (*stream)->read({head.bytes.data() + have, bytes - have});
    if (!got && got.error().code != Errc::kCorrupt) return fail_as(file.uri, got);
    if (!got) break;
    have += *got;
    head.whole = *got == 0;
    if (head.whole) break;
  }
  head.bytes.resize(have);
  return head;
}

/// Types that the head tells; an error of kInvalidArgument says why it tells none.
Result<Schema> infer(const InputSpec& spec, const Head& head) {
  if (spec.format == Format::kTable) return infer_csv(head.bytes, head.whole, csv_options(spec));
  if (spec.format == Format::kJsonLines) return infer_json_lines(head.bytes, head.whole);
  TfRecordParser frames(std::make_unique<RawDecoder>(), spec.record_bytes_max);
  Table records;
  frames.prepare(records);
  (void)frames.parse(head.bytes, 0, head.whole, records);
  std::vector<std::string_view> payloads;
  for (std::size_t i = 0; i < records.rows; ++i) payloads.push_back(records.columns[0].bytes_of(i));
  return infer_example(payloads);
}

}  // namespace

Result<std::unique_ptr<TableParser>> make_table_parser(const InputSpec& spec,
                                                       const Schema& schema) {
  switch (spec.format) {
    case Format::kTable: {
      DLRUN_ASSIGN(auto parser, CsvParser::make(schema, csv_options(spec)));
      return std::unique_ptr<TableParser>(std::move(parser));
    }
    case Format::kJsonLines: {
      DLRUN_ASSIGN(auto parser, JsonLinesParser::make(schema, spec.record_bytes_max));
      return std::unique_ptr<TableParser>(std::move(parser));
    }
    case Format::kTfExample:
      DLRUN_TRY(check_schema(schema));
      return std::unique_ptr<TableParser>(std::make_unique<TfRecordParser>(
          std::make_unique<ExampleDecoder>(schema), spec.record_bytes_max));
    case Format::kTfRecord:
      return std::unique_ptr<TableParser>(
          std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), spec.record_bytes_max));
    case Format::kRecordIo:
      return std::unique_ptr<TableParser>(
          std::make_unique<RecordIoParser>(std::make_unique<RawDecoder>(), spec.record_bytes_max));
    case Format::kNpy:
      return std::unique_ptr<TableParser>(std::make_unique<ArrayParser>(ArrayFormat::kNpy));
    case Format::kIdx:
      return std::unique_ptr<TableParser>(std::make_unique<ArrayParser>(ArrayFormat::kIdx));
    case Format::kTokens: {
      TokenOptions options = spec.tokens;
      options.document_tokens_max =
          std::max<std::uint64_t>(spec.record_bytes_max / sizeof(std::int32_t), 1);
      DLRUN_ASSIGN(auto parser, TokenParser::make(options));
      return std::unique_ptr<TableParser>(std::move(parser));
    }
    case Format::kLibsvm:
    case Format::kLibffm:
    case Format::kCsv:
      break;
  }
  return fail(Errc::kInvalidArgument, "no typed format");
}

bool has_fixed_rows(const InputSpec& spec) {
  return spec.format == Format::kNpy || spec.format == Format::kIdx ||
         (spec.format == Format::kTokens && spec.tokens.sequence_length != 0);
}

Result<std::optional<ArrayHeader>> read_array_header(File& file, Format format) {
  std::string head(kLookBytes + 16, '\0');  // 64 KiB is the longest header of NPY
  DLRUN_ASSIGN(const std::size_t have, file.read_at(0, head));
  head.resize(have);
  std::size_t at = 0;
  auto header = format == Format::kNpy ? read_npy_header(head, at) : read_idx_header(head, at);
  if (!header) return std::optional<ArrayHeader>{};
  return std::move(*header);
}

Result<std::optional<TableHead>> look_at_table(Source& source, const FileEntry& file,
                                               const InputSpec& spec) {
  TableHead out;
  out.schema = spec.columns;
  Head head;
  std::size_t bytes = kLookBytes;
  for (;;) {
    DLRUN_ASSIGN(head, head_of(source, file, bytes));
    if (!has_schema(spec.format) || !spec.columns.empty()) break;
    auto inferred = infer(spec, head);
    if (inferred) {
      out.schema = std::move(*inferred);
      break;
    }
    // The first record may be longer than what was read.
    const std::size_t most = static_cast<std::size_t>(spec.record_bytes_max) + kLookBytes;
    if (head.whole || bytes >= most || head.bytes.size() < bytes)
      return fail_as(file.uri + ": types cannot be inferred (columns declares them)", inferred);
    bytes = most;
  }
  DLRUN_ASSIGN(const auto parser, make_table_parser(spec, out.schema));
  parser->prepare(out.table);
  const ParseProgress progress = parser->parse(head.bytes, 0, head.whole, out.table);
  if (out.table.columns.empty()) {
    if (progress.bad) return fail(Errc::kInvalidArgument, describe(file.uri, 1, *progress.bad));
    return std::optional<TableHead>{};
  }
  return std::optional(std::move(out));
}

std::uint64_t weight_max(const InputSpec& spec, const Table& form) {
  // A list of small int64 in tf.train.Example: a byte each.
  constexpr std::uint64_t kDensest = 8;
  std::uint64_t most = 0;
  for (const Column& column : form.columns) {
    if (column.width == 0 && spec.format != Format::kTokens)
      return kDensest * spec.record_bytes_max;
    if (column.width == 0 || column.type == ValueType::kBytes) most = spec.record_bytes_max;
  }
  return most;
}

}  // namespace dlrun::io
