#pragma once
/// io/core/record_io.h: RecordIO files as MXNet and XGBoost write them (dmlc-core): u32 magic, u32
/// kind and length, payload, padding with zeros to 4 bytes; little endian.
/// Source: dmlc-core include/dmlc/recordio.h. A payload that holds the magic number at a multiple
/// of 4 is written in parts (kinds 1, 2..., 3) with the number between them left out; so the number
/// at a multiple of 4 of the file, with kind 0 or 1, is the start of a record and nothing else.
/// After a bad record reading goes on at the next start. A file that ends within a record: fatal.
/// Bounds: payload <= record_bytes_max.

#include <memory>

#include "io/core/table_parser.h"

namespace dlrun::io {

inline constexpr std::uint32_t kRecordIoMagic = 0xced7230a;

class RecordIoParser final : public TableParser {
 public:
  RecordIoParser(std::unique_ptr<PayloadDecoder> decoder, std::uint64_t record_bytes_max);
  void prepare(Table& table) const override { decoder_->prepare(table); }
  ParseProgress parse(std::string_view bytes, std::uint64_t offset, bool last,
                      Table& table) override;

 private:
  std::unique_ptr<PayloadDecoder> decoder_;
  const std::uint64_t record_bytes_max_;
  bool searching_ = false;
  std::string joined_;
};

/// A payload in its frame or frames, as a writer makes it.
std::string record_io_frame(std::string_view payload);

}  // namespace dlrun::io
