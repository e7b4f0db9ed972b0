#pragma once
/// io/core/array_file.h: NPY and IDX files: a header, then numbers of one type; the first dimension
/// counts the records -> one column "values" whose width is the product of the others.
///   npy  "\x93NUMPY", version 1 to 3, a Python dict of descr, fortran_order, shape
///        (numpy.org/doc/stable/reference/generated/numpy.lib.format.html)
///   idx  0, 0, type, dimensions, each dimension as big-endian u32 (yann.lecun.com/exdb/mnist)
/// Types: u1, bool -> uint8; i1, i2, i4, u2 -> int32; i8, u4 -> int64; u8 -> uint64; f2, f4 ->
/// float32; f8 -> float64; both byte orders. Numbers are bits: nan and inf are kept.
/// Refused, fatal: pickled objects and other types, Fortran order of more than one dimension, no
/// dimension, a row of no values, a size that does not fit the header, bytes after the last row, a
/// file whose rows are unlike those of the input's first. A bool that is neither 0 nor 1 is a bad
/// record.
/// Bounds: NPY header 64 KiB; 64 dimensions; a row 1 GiB.

#include <optional>
#include <vector>

#include "io/core/table_parser.h"
#include "runtime/base/result.h"

namespace dlrun::io {

struct ArrayHeader {
  enum class Element : std::uint8_t {
    kU1,
    kBool,
    kI1,
    kI2,
    kI4,
    kU2,
    kI8,
    kU4,
    kU8,
    kF2,
    kF4,
    kF8
  };
  Element element = Element::kU1;
  bool big_endian = false;
  std::uint64_t rows = 0;
  std::uint64_t width = 1;           ///< values of a row
  std::vector<std::uint64_t> shape;  ///< all dimensions
  std::uint64_t data_offset = 0;

  std::uint64_t row_bytes() const;
  std::uint64_t file_bytes() const { return data_offset + rows * row_bytes(); }
};

/// Whether `head` is long enough to hold the header, else nothing; 8 bytes tell.
/// Errors: kInvalidArgument says what is wrong; `at` is the byte.
Result<std::optional<ArrayHeader>> read_npy_header(std::string_view head, std::size_t& at);
Result<std::optional<ArrayHeader>> read_idx_header(std::string_view head, std::size_t& at);

enum class ArrayFormat { kNpy, kIdx };

class ArrayParser final : public TableParser {
 public:
  explicit ArrayParser(ArrayFormat format) : format_(format) {}
  /// From the first byte of row `row` on.
  ArrayParser(ArrayFormat format, ArrayHeader header, std::uint64_t row)
      : format_(format), header_(std::move(header)), row_(row) {}
  /// The column comes with the first header; a table that has it keeps it.
  void prepare(Table& table) const override;
  ParseProgress parse(std::string_view bytes, std::uint64_t offset, bool last,
                      Table& table) override;
  /// Once it was read.
  const std::optional<ArrayHeader>& header() const { return header_; }
  /// The column of such rows.
  static Column column_of(const ArrayHeader& header);

 private:
  const ArrayFormat format_;
  std::optional<ArrayHeader> header_;
  std::uint64_t row_ = 0;
};

}  // namespace dlrun::io
