// Fuzz entry of the record parsers: the first byte picks the format, the rest is a file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/core/record_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::io;
  if (size == 0) return 0;
  InputSpec spec;
  spec.format = static_cast<Format>(1 + data[0] % 3);
  spec.index_base = data[0] >> 7;
  spec.header = (data[0] & 0x40) != 0;
  spec.delimiter = (data[0] & 0x20) != 0 ? '\t' : ',';
  spec.label_column = (data[0] & 0x10) != 0 ? -1 : 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const RecordParser parser(spec, 4096);
  RecordBlock block;
  parser.prepare(block);
  for (std::size_t at = 0; at < text.size();) {
    const ParseProgress progress = parser.parse(text.substr(at), at, block);
    if (progress.consumed == 0) std::abort();
    at += progress.consumed;
    if (block.offsets.size() != block.rows() + 1) std::abort();
    if (static_cast<std::size_t>(block.offsets.back()) != block.values.size()) std::abort();
  }
  return 0;
}
