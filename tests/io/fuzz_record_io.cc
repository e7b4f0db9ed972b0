// Fuzz entry of RecordIO: frames as they come, and what a writer makes of any payload.
#include "io/core/record_io.h"
#include "tests/io/fuzz_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::io;
  const FuzzInput in = fuzz_input(data, size);
  const auto make = [] {
    return std::make_unique<RecordIoParser>(std::make_unique<RawDecoder>(), 1000);
  };
  fuzz_table(make, in.bytes, in.piece);
  const std::string_view payload = in.bytes.substr(0, 1000);
  const auto parser = make();
  const FuzzOutcome out = fuzz_parse(*parser, record_io_frame(payload), 1 << 20);
  must(out.table.rows == 1 && out.bad.empty() && out.table.columns[0].bytes_of(0) == payload);
  return 0;
}
