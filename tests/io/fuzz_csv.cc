// Fuzz entry of CSV: typed fields, missing values, quotes over lines or not, and the guess of
// types.
#include "io/core/csv.h"
#include "tests/io/fuzz_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::io;
  const FuzzInput in = fuzz_input(data, size);
  CsvOptions options;
  options.newlines_in_quotes = (in.options & 1) != 0;
  options.header = (in.options & 2) != 0;
  options.delimiter = (in.options & 4) != 0 ? '\t' : ',';
  options.record_bytes_max = 200;
  Schema schema(3);
  schema[0].name = "i";
  schema[0].type = FieldType::kInt64;
  schema[1].name = "f";
  schema[1].may_miss = true;
  schema[2].name = "s";
  schema[2].type = (in.options & 8) != 0 ? FieldType::kHashed : FieldType::kText;
  fuzz_table([&] { return std::move(*CsvParser::make(schema, options)); }, in.bytes, in.piece);
  options.record_bytes_max = 1 << 20;
  if (const auto guess = infer_csv(in.bytes, true, options)) {
    // Types that were inferred from a whole file fit it.
    auto parser = CsvParser::make(*guess, options);
    must(parser.has_value());
    must(fuzz_parse(**parser, in.bytes, in.bytes.size() + 1).bad.empty());
  }
  return 0;
}
