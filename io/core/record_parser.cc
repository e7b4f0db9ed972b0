#include "io/core/record_parser.h"

#include <cstring>
#include <limits>

#include "io/core/fast_number.h"
#include "io/core/text.h"

namespace dlrun::io {

namespace {

const char* skip_blanks(const char* p, const char* end) {
  while (p != end && is_blank(*p)) ++p;
  return p;
}

}  // namespace

RecordParser::RecordParser(const InputSpec& spec, std::uint64_t record_bytes_max)
    : format_(spec.format),
      index_base_(spec.format == Format::kLibsvm ? spec.index_base : 0),
      delimiter_(spec.delimiter),
      header_(spec.format == Format::kCsv && spec.header),
      label_column_(spec.label_column),
      record_bytes_max_(record_bytes_max) {}

void RecordParser::prepare(RecordBlock& block, std::uint64_t cols) const {
  block.clear();
  block.kind = format_ == Format::kCsv ? BatchKind::kDense : BatchKind::kCsr;
  block.with_fields = format_ == Format::kLibffm;
  block.cols = format_ == Format::kCsv ? cols : 0;
}

ParseProgress RecordParser::parse(std::string_view text, std::uint64_t offset,
                                  RecordBlock& block) const {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const char* p = begin;
  bool skip_line = false;
  if (offset == 0) {
    if (text.starts_with(kByteOrderMark)) p += kByteOrderMark.size();
    skip_line = header_;
  }
  while (p != end) {
    const char* line = p;
    const auto* newline =
        static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
    const char* line_end = newline != nullptr ? newline : end;
    p = newline != nullptr ? newline + 1 : end;
    if (line_end != line && line_end[-1] == '\r') --line_end;
    std::optional<Defect> trouble;
    if (static_cast<std::uint64_t>(line_end - line) > record_bytes_max_) {
      trouble = Defect{line, "record of " + std::to_string(line_end - line) + " bytes; at most " +
                                 std::to_string(record_bytes_max_)};
    } else if (skip_line) {
      skip_line = false;
      continue;
    } else {
      const std::size_t rows = block.rows();
      trouble = format_ == Format::kCsv      ? parse_dense(line, line_end, end, block)
                : format_ == Format::kLibffm ? parse_sparse<true>(line, line_end, end, block)
                                             : parse_sparse<false>(line, line_end, end, block);
      if (trouble) block.truncate(rows);
    }
    if (trouble) {
      BadRecord bad;
      bad.offset = offset + static_cast<std::uint64_t>(line - begin);
      bad.column = static_cast<std::uint64_t>(trouble->at - line) + 1;
      bad.reason = std::move(trouble->reason);
      return {static_cast<std::size_t>(p - begin), std::move(bad)};
    }
  }
  return {text.size(), std::nullopt};
}

template <bool kFields>
std::optional<RecordParser::Defect> RecordParser::parse_sparse(const char* p, const char* end,
                                                               const char* readable,
                                                               RecordBlock& block) const {
  p = skip_blanks(p, end);
  if (p == end || *p == '#') return std::nullopt;
  const FloatToken label = read_float_fast(p, readable);
  if (label.error != NumberError::kNone)
    return Defect{p, std::string("label: ") + reason(label.error)};
  const auto ends_token = [end](const char* at) {
    return at == end || is_blank(*at) || *at == '#';
  };
  p = label.end;
  if (p != end && *p == ':') return Defect{p, "label weights are not supported"};
  if (!ends_token(p)) return Defect{p, "label: unexpected " + shown(p, end)};
  block.labels.push_back(label.value);

  // Room for as many as the line can hold ("1:1 "), so that nothing grows within it.
  const std::size_t before = block.values.size();
  const std::size_t most = before + static_cast<std::size_t>(end - p) / 4 + 1;
  block.ids.resize(most);
  block.values.resize(most);
  if (kFields) block.fields.resize(most);
  std::uint64_t* ids = block.ids.data() + before;
  float* values = block.values.data() + before;
  std::uint32_t* fields = kFields ? block.fields.data() + before : nullptr;
  for (;;) {
    p = skip_blanks(p, end);
    if (p == end || *p == '#') break;
    const char* const token = p;
    [[maybe_unused]] std::uint32_t field = 0;
    if constexpr (kFields) {
      const IdToken read = read_id_fast(p, readable);
      if (read.error == NumberError::kSyntax)
        return Defect{p, "field: expected an unsigned integer, found " + shown(p, end)};
      if (read.error != NumberError::kNone ||
          read.value > std::numeric_limits<std::uint32_t>::max())
        return Defect{p, "field: does not fit 32 bits"};
      if (read.end == end || *read.end != ':')
        return Defect{read.end, "expected field:id:value, found " + shown(read.end, end)};
      field = static_cast<std::uint32_t>(read.value);
      p = read.end + 1;
    }
    const IdToken id = read_id_fast(p, readable);
    if (id.error == NumberError::kSyntax) {
      if (end - token >= 4 && std::memcmp(token, "qid:", 4) == 0)
        return Defect{token, "qid is not supported"};
      return Defect{p, "feature id: expected an unsigned integer, found " + shown(p, end)};
    }
    if (id.error != NumberError::kNone) return Defect{p, "feature id: does not fit 64 bits"};
    if (id.value < index_base_)
      return Defect{p, "feature id " + std::to_string(id.value) + " is below index_base " +
                           std::to_string(index_base_)};
    if (id.end == end || *id.end != ':')
      return Defect{id.end, std::string(kFields ? "expected field:id:value" : "expected id:value") +
                                ", found " + shown(id.end, end)};
    p = id.end + 1;
    const FloatToken value = read_float_fast(p, readable);
    if (value.error != NumberError::kNone)
      return Defect{p, std::string("value: ") + reason(value.error)};
    if (!ends_token(value.end))
      return Defect{value.end, "value: unexpected " + shown(value.end, end)};
    p = value.end;
    *ids++ = id.value - index_base_;
    *values++ = value.value;
    if constexpr (kFields) *fields++ = field;
  }
  const auto total = static_cast<std::size_t>(values - block.values.data());
  block.ids.resize(total);
  block.values.resize(total);
  if (kFields) block.fields.resize(total);
  block.offsets.push_back(static_cast<std::int64_t>(block.values.size()));
  return std::nullopt;
}

std::optional<RecordParser::Defect> RecordParser::parse_dense(const char* p, const char* end,
                                                              const char* readable,
                                                              RecordBlock& block) const {
  const auto is_pad = [this](char c) { return is_blank(c) && c != delimiter_; };
  const auto skip_pad = [&](const char* at) {
    while (at != end && is_pad(*at)) ++at;
    return at;
  };
  const char* const line = p;
  if (skip_pad(p) == end) return std::nullopt;
  // Room for as many as the line can hold ("1,"), so that nothing grows within it.
  const std::size_t before = block.values.size();
  block.values.resize(before + static_cast<std::size_t>(end - p) / 2 + 1);
  float* values = block.values.data() + before;
  const std::uint64_t label_at = label_column_ < 0 ? std::numeric_limits<std::uint64_t>::max()
                                                   : static_cast<std::uint64_t>(label_column_);
  float label = 0;
  std::uint64_t width = 0;
  for (;;) {
    p = skip_pad(p);
    if (p == end || *p == delimiter_) return Defect{p, "empty field"};
    if (*p == '"') return Defect{p, "quoted fields are not supported"};
    const FloatToken value = read_float_fast(p, readable);
    if (value.error != NumberError::kNone)
      return Defect{p, "field " + std::to_string(width + 1) + ": " + reason(value.error)};
    if (width == label_at)
      label = value.value;
    else
      *values++ = value.value;
    ++width;
    p = skip_pad(value.end);
    if (p == end) break;
    if (*p != delimiter_)
      return Defect{p, "field " + std::to_string(width) + ": unexpected " + shown(p, end)};
    ++p;
  }
  if (block.cols != 0 && width != block.cols + 1)
    return Defect{line, std::to_string(width) + " columns; the first record of the input has " +
                            std::to_string(block.cols + 1)};
  if (label_column_ >= 0 && label_at >= width)
    return Defect{line, "label_column " + std::to_string(label_column_) + " of a line of " +
                            std::to_string(width) + " columns"};
  if (width == 1) return Defect{line, "a label and no other column"};
  if (label_column_ < 0) label = *--values;
  block.values.resize(static_cast<std::size_t>(values - block.values.data()));
  block.labels.push_back(label);
  block.cols = width - 1;
  block.offsets.push_back(static_cast<std::int64_t>(block.values.size()));
  return std::nullopt;
}

}  // namespace dlrun::io
