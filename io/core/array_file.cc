#include "io/core/array_file.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "io/core/little.h"
#include "io/core/text.h"

namespace dlrun::io {

namespace {

using Element = ArrayHeader::Element;
constexpr std::size_t kNpyHeaderMax = 64 * 1024;
constexpr std::size_t kDimensionsMax = 64;
constexpr std::uint64_t kRowBytesMax = std::uint64_t{1} << 30;
constexpr std::string_view kNpyMagic = "\x93NUMPY";

std::size_t element_bytes(Element element) {
  switch (element) {
    case Element::kU1:
    case Element::kBool:
    case Element::kI1:
      return 1;
    case Element::kI2:
    case Element::kU2:
    case Element::kF2:
      return 2;
    case Element::kI4:
    case Element::kU4:
    case Element::kF4:
      return 4;
    default:
      return 8;
  }
}

ValueType value_type(Element element) {
  switch (element) {
    case Element::kU1:
    case Element::kBool:
      return ValueType::kUint8;
    case Element::kI1:
    case Element::kI2:
    case Element::kI4:
    case Element::kU2:
      return ValueType::kInt32;
    case Element::kI8:
    case Element::kU4:
      return ValueType::kInt64;
    case Element::kU8:
      return ValueType::kUint64;
    case Element::kF2:
    case Element::kF4:
      return ValueType::kFloat32;
    case Element::kF8:
      return ValueType::kFloat64;
  }
  return ValueType::kUint8;
}

/// IEEE 754 binary16 to binary32: exact.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = half >> 10 & 0x1f;
  const std::uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class From, class To>
void convert(std::string_view bytes, bool swap, Column& column) {
  const std::size_t count = bytes.size() / sizeof(From);
  const std::size_t at = column.data.size();
  column.data.resize(at + count * sizeof(To));
  char* to = column.data.data() + at;
  for (std::size_t i = 0; i < count; ++i, to += sizeof(To)) {
    char raw[sizeof(From)];
    std::memcpy(raw, bytes.data() + i * sizeof(From), sizeof raw);
    if (swap) std::reverse(raw, raw + sizeof raw);
    From from;
    std::memcpy(&from, raw, sizeof from);
    const To value = static_cast<To>(from);
    std::memcpy(to, &value, sizeof value);
  }
}

void append_row(const ArrayHeader& header, std::string_view bytes, Column& column) {
  const bool swap = header.big_endian;
  switch (header.element) {
    case Element::kU1:
    case Element::kBool:
      column.data.insert(column.data.end(), bytes.begin(), bytes.end());
      break;
    case Element::kI1:
      convert<std::int8_t, std::int32_t>(bytes, false, column);
      break;
    case Element::kI2:
      convert<std::int16_t, std::int32_t>(bytes, swap, column);
      break;
    case Element::kU2:
      convert<std::uint16_t, std::int32_t>(bytes, swap, column);
      break;
    case Element::kI4:
      convert<std::int32_t, std::int32_t>(bytes, swap, column);
      break;
    case Element::kU4:
      convert<std::uint32_t, std::int64_t>(bytes, swap, column);
      break;
    case Element::kI8:
      convert<std::int64_t, std::int64_t>(bytes, swap, column);
      break;
    case Element::kU8:
      convert<std::uint64_t, std::uint64_t>(bytes, swap, column);
      break;
    case Element::kF2:
      for (std::size_t i = 0; i + 2 <= bytes.size(); i += 2) {
        auto half = little<std::uint16_t>(bytes, i);
        if (swap) half = static_cast<std::uint16_t>(half >> 8 | half << 8);
        column.push(from_half(half));
      }
      break;
    case Element::kF4:
      convert<std::uint32_t, std::uint32_t>(bytes, swap, column);
      break;
    case Element::kF8:
      convert<std::uint64_t, std::uint64_t>(bytes, swap, column);
      break;
  }
  column.end_row();
}

tl::unexpected<Error> wrong(std::string what) {
  return fail(Errc::kInvalidArgument, std::move(what));
}

Status finish(ArrayHeader& header) {
  if (header.shape.empty()) return wrong("an array without dimensions has no records");
  header.rows = header.shape[0];
  header.width = 1;
  for (std::size_t i = 1; i < header.shape.size(); ++i) {
    if (header.shape[i] == 0) return wrong("rows of no values");
    if (header.shape[i] > kRowBytesMax || header.width * header.shape[i] > kRowBytesMax)
      return wrong("rows of more than 1 GiB");
    header.width *= header.shape[i];
  }
  if (header.row_bytes() > kRowBytesMax) return wrong("rows of more than 1 GiB");
  if (header.rows > (std::uint64_t{1} << 62) / header.row_bytes())
    return wrong("more than 2^62 bytes");
  return {};
}

/// The Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class NpyDict {
 public:
  NpyDict(std::string_view text, std::size_t offset) : text_(text), offset_(offset) {}

  Result<ArrayHeader> read(std::size_t& at) {
    ArrayHeader header;
    const Status status = dict(header);
    at = offset_ + p_;
    if (!status) return tl::unexpected(status.error());
    return header;
  }

 private:
  bool take(char c) {
    skip();
    if (p_ == text_.size() || text_[p_] != c) return false;
    ++p_;
    return true;
  }
  void skip() {
    while (p_ < text_.size() && text_[p_] == ' ') ++p_;
  }
  Status expected(const char* what) const {
    return wrong("npy header: expected " + std::string(what) + ", found " +
                 shown(text_.data() + p_, text_.data() + text_.size()));
  }
  Result<std::string_view> string() {
    skip();
    const char quote = p_ < text_.size() ? text_[p_] : ' ';
    if (quote != '\'' && quote != '"') return tl::unexpected(expected("a string").error());
    const std::size_t begin = ++p_;
    const std::size_t end = text_.find(quote, begin);
    if (end == text_.npos) return wrong("npy header: a string without its end");
    p_ = end + 1;
    return text_.substr(begin, end - begin);
  }
  Status dict(ArrayHeader& header) {
    bool descr = false, order = false, shape = false, fortran = false;
    if (!take('{')) return expected("'{'");
    for (;;) {
      if (take('}')) break;
      DLRUN_ASSIGN(const std::string_view key, string());
      if (!take(':')) return expected("':'");
      bool* const seen = key == "descr"           ? &descr
                         : key == "fortran_order" ? &order
                         : key == "shape"         ? &shape
                                                  : nullptr;
      if (seen == nullptr || *seen) return wrong("npy header: the key " + quoted(key));
      *seen = true;
      if (key == "descr") {
        skip();
        if (p_ < text_.size() && text_[p_] == '[') return wrong("npy: records of named fields");
        DLRUN_ASSIGN(const std::string_view type, string());
        DLRUN_TRY(element(type, header));
      } else if (key == "fortran_order") {
        skip();
        fortran = text_.substr(p_).starts_with("True");
        if (!fortran && !text_.substr(p_).starts_with("False")) return expected("True or False");
        p_ += fortran ? 4 : 5;
      } else {
        DLRUN_TRY(dimensions(header));
      }
      if (!take(',')) {
        if (!take('}')) return expected("',' or '}'");
        break;
      }
    }
    skip();
    if (p_ < text_.size() && text_[p_] == '\n') ++p_;
    if (p_ != text_.size()) return expected("nothing after the dict");
    if (!descr || !order || !shape)
      return wrong("npy header: descr, fortran_order or shape is not there");
    if (fortran && header.shape.size() > 1)
      return wrong("npy: Fortran order; save it with order='C'");
    return finish(header);
  }
  Status dimensions(ArrayHeader& header) {
    if (!take('(')) return expected("'('");
    for (;;) {
      if (take(')')) return {};
      skip();
      std::uint64_t n = 0;
      const std::size_t begin = p_;
      while (p_ < text_.size() && text_[p_] >= '0' && text_[p_] <= '9') {
        if (n >= std::uint64_t{1} << 58) return wrong("npy header: a dimension of more than 2^62");
        n = n * 10 + static_cast<std::uint64_t>(text_[p_++] - '0');
      }
      if (p_ == begin) return expected("a dimension");
      if (header.shape.size() == kDimensionsMax)
        return wrong("npy header: more than 64 dimensions");
      header.shape.push_back(n);
      if (take(',')) continue;
      if (!take(')')) return expected("',' or ')'");
      return {};
    }
  }
  static Status element(std::string_view type, ArrayHeader& header) {
    static constexpr std::pair<std::string_view, Element> kNames[] = {
        {"u1", Element::kU1}, {"b1", Element::kBool}, {"i1", Element::kI1}, {"i2", Element::kI2},
        {"i4", Element::kI4}, {"u2", Element::kU2},   {"i8", Element::kI8}, {"u4", Element::kU4},
        {"u8", Element::kU8}, {"f2", Element::kF2},   {"f4", Element::kF4}, {"f8", Element::kF8}};
    for (const auto& [name, element] : kNames) {
      if (type.size() != 3 || type.substr(1) != name) continue;
      const bool known = element_bytes(element) == 1 ? type[0] == '|' || type[0] == '<'
                                                     : type[0] == '<' || type[0] == '>';
      if (!known) break;
      header.element = element;
      header.big_endian = type[0] == '>';
      return {};
    }
    return wrong("npy: elements of type " + quoted(type));
  }

  std::string_view text_;
  std::size_t offset_;
  std::size_t p_ = 0;
};

}  // namespace

std::uint64_t ArrayHeader::row_bytes() const { return width * element_bytes(element); }

Result<std::optional<ArrayHeader>> read_npy_header(std::string_view head, std::size_t& at) {
  at = 0;
  const std::size_t shared = std::min(head.size(), kNpyMagic.size());
  if (head.substr(0, shared) != kNpyMagic.substr(0, shared))
    return wrong("npy: not the magic bytes");
  if (head.size() < 8) return std::optional<ArrayHeader>{};
  at = 6;
  const int major = head[6];
  if (major < 1 || major > 3 || head[7] != 0)
    return wrong("npy: version " + std::to_string(major) + "." + std::to_string(head[7]));
  const std::size_t begin = major == 1 ? 10 : 12;
  if (head.size() < begin) return std::optional<ArrayHeader>{};
  at = 8;
  const std::size_t length =
      major == 1 ? little<std::uint16_t>(head, 8) : little<std::uint32_t>(head, 8);
  if (length > kNpyHeaderMax) return wrong("npy: a header of more than 64 KiB");
  if (head.size() < begin + length) return std::optional<ArrayHeader>{};
  DLRUN_ASSIGN(ArrayHeader header, NpyDict(head.substr(begin, length), begin).read(at));
  header.data_offset = begin + length;
  return std::optional(std::move(header));
}

Result<std::optional<ArrayHeader>> read_idx_header(std::string_view head, std::size_t& at) {
  at = 0;
  if (!head.empty() && head[0] != 0) return wrong("idx: not the magic bytes");
  if (head.size() < 4) return std::optional<ArrayHeader>{};
  if (head[1] != 0) return wrong("idx: not the magic bytes");
  ArrayHeader header;
  header.big_endian = true;
  at = 2;
  switch (head[2]) {
    case 0x08:
      header.element = Element::kU1;
      break;
    case 0x09:
      header.element = Element::kI1;
      break;
    case 0x0b:
      header.element = Element::kI2;
      break;
    case 0x0c:
      header.element = Element::kI4;
      break;
    case 0x0d:
      header.element = Element::kF4;
      break;
    case 0x0e:
      header.element = Element::kF8;
      break;
    default:
      return wrong("idx: elements of type " + std::to_string(static_cast<unsigned char>(head[2])));
  }
  at = 3;
  const std::size_t dimensions = static_cast<unsigned char>(head[3]);
  if (dimensions > kDimensionsMax) return wrong("idx: more than 64 dimensions");
  header.data_offset = 4 + 4 * dimensions;
  if (head.size() < header.data_offset) return std::optional<ArrayHeader>{};
  for (std::size_t i = 0; i < dimensions; ++i) header.shape.push_back(big32(head, 4 + 4 * i));
  DLRUN_TRY(finish(header));
  return std::optional(std::move(header));
}

Column ArrayParser::column_of(const ArrayHeader& header) {
  Column column;
  column.name = "values";
  column.type = value_type(header.element);
  column.width = header.width;
  return column;
}

void ArrayParser::prepare(Table& table) const {
  table.rows = 0;
  table.columns.clear();
}

ParseProgress ArrayParser::parse(std::string_view bytes, std::uint64_t offset, bool last,
                                 Table& table) {
  std::size_t at = 0;
  const auto fatal = [&](std::uint64_t place, std::string reason) {
    return ParseProgress{bytes.size(), BadRecord{offset + at, place + 1, std::move(reason), true}};
  };
  if (!header_) {
    std::size_t place = 0;
    auto read = format_ == ArrayFormat::kNpy ? read_npy_header(bytes, place)
                                             : read_idx_header(bytes, place);
    if (!read) return fatal(place, read.error().context);
    if (!*read) {
      if (!last) return {0, std::nullopt};
      return bytes.empty() ? fatal(0, "an empty file, which has no header")
                           : fatal(bytes.size(), "the file ends within its header");
    }
    const ArrayHeader& header = **read;
    const ValueType type = value_type(header.element);
    if (table.columns.empty()) {
      table.columns.push_back(column_of(header));
    } else if (table.columns[0].type != type || table.columns[0].width != header.width) {
      return fatal(0, "rows of " + std::to_string(header.width) + " " + type_name(type) +
                          "; those of the first file of the input are " +
                          std::to_string(table.columns[0].width) + " " +
                          type_name(table.columns[0].type));
    }
    header_ = header;
    at = static_cast<std::size_t>(header.data_offset);
  }
  const auto row_bytes = static_cast<std::size_t>(header_->row_bytes());
  while (row_ < header_->rows && bytes.size() - at >= row_bytes) {
    const std::string_view row = bytes.substr(at, row_bytes);
    if (header_->element == Element::kBool) {
      const auto odd =
          std::find_if(row.begin(), row.end(), [](char c) { return c != 0 && c != 1; });
      if (odd != row.end()) {
        ++row_;
        BadRecord record{offset + at, static_cast<std::uint64_t>(odd - row.begin()) + 1,
                         "a bool that is neither 0 nor 1", false};
        return {at + row_bytes, std::move(record)};
      }
    }
    append_row(*header_, row, table.columns[0]);
    ++table.rows;
    ++row_;
    at += row_bytes;
  }
  if (row_ == header_->rows && at < bytes.size()) return fatal(0, "bytes after the last row");
  if (last && row_ < header_->rows)
    return fatal(bytes.size() - at, "the file ends within row " + std::to_string(row_ + 1) +
                                        "; its header says " + std::to_string(header_->rows));
  return {at, std::nullopt};
}

}  // namespace dlrun::io
