// Fuzz entry of token files: sequences and documents, every tail.
#include "io/core/token_file.h"
#include "tests/io/fuzz_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::io;
  const FuzzInput in = fuzz_input(data, size);
  TokenOptions options;
  options.type = static_cast<TokenOptions::Type>(in.options % 3);
  options.sequence_length = in.options / 3 % 4;
  options.tail = static_cast<TokenOptions::Tail>(in.options / 12 % 3);
  options.vocabulary = 60000;
  options.document_tokens_max = 5;
  fuzz_table([&] { return std::move(*TokenParser::make(options)); }, in.bytes, in.piece);
  return 0;
}
