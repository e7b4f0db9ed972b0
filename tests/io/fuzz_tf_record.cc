// Fuzz entry of TFRecord: frames, and tf.train.Example in them; the sums are put right, so that the
// payload is reached.
#include "io/core/tf_example.h"
#include "io/core/tf_record.h"
#include "tests/io/fuzz_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::io;
  const FuzzInput in = fuzz_input(data, size);
  Schema schema(3);
  schema[0].name = "i";
  schema[0].type = FieldType::kInt64;
  schema[1].name = "f";
  schema[1].width = 2;
  schema[2].name = "s";
  schema[2].type = FieldType::kText;
  schema[2].width = 0;
  for (FieldSpec& field : schema) field.may_miss = (in.options & 1) != 0;
  const auto examples = [&] {
    return std::make_unique<TfRecordParser>(std::make_unique<ExampleDecoder>(schema), 1000);
  };
  const auto frames = [] {
    return std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), 1000);
  };
  fuzz_table(frames, in.bytes, in.piece);
  const std::string framed = tf_frame(in.bytes.substr(0, 900));
  fuzz_table(examples, framed + framed, in.piece);
  (void)infer_example({in.bytes});
  return 0;
}
