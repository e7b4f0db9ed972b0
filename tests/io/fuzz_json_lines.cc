// Fuzz entry of JSON lines: every kind of field, and the guess of types.
#include "io/core/json_lines.h"
#include "tests/io/fuzz_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::io;
  const FuzzInput in = fuzz_input(data, size);
  Schema schema(5);
  schema[0].name = "i";
  schema[0].type = FieldType::kInt64;
  schema[1].name = "a.f";
  schema[1].width = 2;
  schema[2].name = "s";
  schema[2].type = FieldType::kText;
  schema[2].width = 0;
  schema[3].name = "b";
  schema[3].type = FieldType::kBoolean;
  schema[4].name = "h";
  schema[4].type = FieldType::kHashed;
  for (FieldSpec& field : schema) field.may_miss = (in.options & 1) != 0;
  fuzz_table([&] { return std::move(*JsonLinesParser::make(schema, 300)); }, in.bytes, in.piece);
  if (const auto guess = infer_json_lines(in.bytes, true)) {
    // Types that were inferred from a whole file fit it.
    auto parser = JsonLinesParser::make(*guess, 1 << 20);
    must(parser.has_value());
    must(fuzz_parse(**parser, in.bytes, in.bytes.size() + 1).bad.empty());
  }
  return 0;
}
