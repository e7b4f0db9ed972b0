#pragma once
/// io/core/tf_record.h: TFRecord files: u64 length, its masked CRC-32C, the payload, its masked
/// CRC-32C; little endian. Both sums are always checked.
/// Source: tensorflow/core/lib/io/record_writer.h.
/// A record cannot be found from the middle of a file (a payload may hold a TFRecord file), so a
/// file is one split.
/// Bad payload sum, payload that does not decode: that record is bad, the next follows it. Bad
/// length sum: reading goes on at the next place where both sums hold. Too long: passed over
/// without being held. A file that ends within a record: fatal.
/// Bounds: payload <= record_bytes_max.

#include <memory>

#include "io/core/table_parser.h"

namespace dlrun::io {

class TfRecordParser final : public TableParser {
 public:
  TfRecordParser(std::unique_ptr<PayloadDecoder> decoder, std::uint64_t record_bytes_max);
  void prepare(Table& table) const override { decoder_->prepare(table); }
  ParseProgress parse(std::string_view bytes, std::uint64_t offset, bool last,
                      Table& table) override;

 private:
  std::unique_ptr<PayloadDecoder> decoder_;
  const std::uint64_t record_bytes_max_;
  std::uint64_t passing_over_ = 0;  ///< bytes of a record that is too long
  bool searching_ = false;          ///< for the next whole record
};

inline constexpr std::size_t kTfHeaderBytes = 12;
inline constexpr std::size_t kTfFooterBytes = 4;

/// A payload in its frame, as a writer makes it.
std::string tf_frame(std::string_view payload);

}  // namespace dlrun::io
