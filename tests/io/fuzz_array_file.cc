// Fuzz entry of NPY and IDX.
#include "io/core/array_file.h"
#include "tests/io/fuzz_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::io;
  const FuzzInput in = fuzz_input(data, size);
  const ArrayFormat format = (in.options & 1) != 0 ? ArrayFormat::kNpy : ArrayFormat::kIdx;
  fuzz_table([&] { return std::make_unique<ArrayParser>(format); }, in.bytes, in.piece);
  return 0;
}
