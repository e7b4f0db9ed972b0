// docs/io.md has a table of what each format answers to each odd case; here is a test for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "io/core/array_file.h"
#include "io/core/record_io.h"
#include "io/core/record_parser.h"
#include "io/core/tf_example.h"
#include "io/core/tf_record.h"
#include "io/core/token_file.h"
#include "io/source/split_reader.h"
#include "io/source/table_reader.h"
#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

using std::string_literals::operator""s;
using std::string_view_literals::operator""sv;

// ---- how each format is asked

std::string sparse(Format format, std::string_view text) {
  InputSpec spec;
  spec.format = format;
  const RecordParser parser(spec);
  RecordBlock block;
  parser.prepare(block);
  std::string bad;
  for (std::size_t at = 0; at < text.size();) {
    const ParseProgress progress = parser.parse(text.substr(at), at, block);
    at += progress.consumed;
    if (progress.bad) bad += text_of(*progress.bad) + "\n";
  }
  std::string out;
  char buffer[32];
  for (std::size_t row = 0; row < block.rows(); ++row) {
    out += std::to_string(static_cast<int>(block.labels[row]));
    for (auto i = static_cast<std::size_t>(block.offsets[row]);
         i < static_cast<std::size_t>(block.offsets[row + 1]); ++i) {
      std::snprintf(buffer, sizeof buffer, "%.9g", static_cast<double>(block.values[i]));
      out += ' ';
      if (format != Format::kCsv) out += std::to_string(block.ids[i]) + ':';
      out += buffer;
    }
    out += '\n';
  }
  return out + bad;
}
std::string libsvm(std::string_view text) { return sparse(Format::kLibsvm, text); }
std::string libffm(std::string_view text) { return sparse(Format::kLibffm, text); }
std::string dense(std::string_view text) { return sparse(Format::kCsv, text); }

const Schema kCsv = {field("f", FieldType::kFloat32), field("s", FieldType::kText)};
std::string csv(std::string_view text) { return outcome_of(csv_of(kCsv), text); }
const Schema kJson = {field("f", FieldType::kFloat32)};
std::string json(std::string_view text) { return outcome_of(json_of(kJson), text); }

/// Bits of floats through each binary format and back.
std::string bits(const Table& table) {
  std::string out;
  char buffer[16];
  for (const float value : table.columns[0].as<float>()) {
    std::snprintf(buffer, sizeof buffer, "%08x ", std::bit_cast<std::uint32_t>(value));
    out += buffer;
  }
  return out;
}
std::string raw(std::initializer_list<std::uint32_t> words, bool big = false) {
  std::string out;
  for (const std::uint32_t word : words)
    for (int i = 0; i < 4; ++i) out += static_cast<char>(word >> 8 * (big ? 3 - i : i));
  return out;
}
std::string parsed_bits(TableParser&& parser, const std::string& bytes) {
  const Outcome out = parse_whole(parser, bytes);
  return out.bad.empty() ? bits(out.table) : text_of(out);
}
std::string npy(std::initializer_list<std::uint32_t> words) {
  std::string dict =
      "{'descr':'<f4','fortran_order':False,'shape':(" + std::to_string(words.size()) + ",)}";
  std::string head = "\x93NUMPY\x01"s + '\0' + static_cast<char>(dict.size()) + '\0';
  return parsed_bits(ArrayParser(ArrayFormat::kNpy), head + dict + raw(words));
}
std::string idx(std::initializer_list<std::uint32_t> words) {
  const std::string head = "\0\0\x0d\x01"s + raw({static_cast<std::uint32_t>(words.size())}, true);
  return parsed_bits(ArrayParser(ArrayFormat::kIdx), head + raw(words, true));
}
std::string example(std::initializer_list<std::uint32_t> words) {
  const auto message = [](char tag, const std::string& bytes) {
    return tag + std::string(1, static_cast<char>(bytes.size())) + bytes;
  };
  const std::string list = message('\x12', message('\x0a', raw(words)));
  const std::string feature = message('\x0a', message('\x0a', "f") + message('\x12', list));
  const Schema schema = {field("f", FieldType::kFloat32, false, 0)};
  return parsed_bits(TfRecordParser(std::make_unique<ExampleDecoder>(schema), 1000),
                     tf_frame(message('\x0a', feature)));
}
std::string tf(std::string_view file) {
  return outcome_of(
      [] { return std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), 1000); }, file);
}
std::string record_io(std::string_view file) {
  return outcome_of(
      [] { return std::make_unique<RecordIoParser>(std::make_unique<RawDecoder>(), 1000); }, file);
}
std::string tokens(std::string_view file) {
  return outcome_of(
      [] {
        TokenOptions options;
        options.sequence_length = 1;
        return std::unique_ptr<TableParser>(std::move(*TokenParser::make(options)));
      },
      file);
}

#define ANSWER(row, format, asked, answer) \
  TEST(DocumentedAnswer, row##In##format) { EXPECT_EQ(asked, answer); }

// ---- ends of lines

ANSWER(CrLf, Libsvm, libsvm("1 2:3\r\n0 4:5\r\n"), "1 2:3\n0 4:5\n")
ANSWER(CrLf, Libffm, libffm("1 0:2:3\r\n0 0:4:5\r\n"), "1 2:3\n0 4:5\n")
ANSWER(CrLf, DenseCsv, dense("1,2\r\n3,4\r\n"), "1 2\n3 4\n")
ANSWER(CrLf, Csv, csv("1,a\r\n3,b\r\n"), "1|a\n3|b\n")
ANSWER(CrLf, JsonLines, json("{\"f\":1}\r\n{\"f\":2}\r\n"), "1\n2\n")

ANSWER(LoneCr, Libsvm, libsvm("1 2:3\r0 4:5\n"), "@0:6 value: unexpected a carriage return\n")
ANSWER(LoneCr, Libffm, libffm("1 0:2:3\r0 0:4:5\n"), "@0:8 value: unexpected a carriage return\n")
ANSWER(LoneCr, DenseCsv, dense("1,2\r3,4\n"), "@0:4 field 2: unexpected a carriage return\n")
ANSWER(LoneCr, Csv, csv("1,a\r3,b\n"), "@0:4 a carriage return that does not end the line\n")
ANSWER(LoneCr, JsonLines, json("{\"f\":1}\r{\"f\":2}\n"),
       "@0:8 expected nothing after the object, found a carriage return\n")

ANSWER(NoFinalNewline, Libsvm, libsvm("1 2:3\n0 4:5"), "1 2:3\n0 4:5\n")
ANSWER(NoFinalNewline, Libffm, libffm("1 0:2:3\n0 0:4:5"), "1 2:3\n0 4:5\n")
ANSWER(NoFinalNewline, DenseCsv, dense("1,2\n3,4"), "1 2\n3 4\n")
ANSWER(NoFinalNewline, Csv, csv("1,a\n3,b"), "1|a\n3|b\n")
ANSWER(NoFinalNewline, JsonLines, json("{\"f\":1}\n{\"f\":2}"), "1\n2\n")

// ---- what is no record

ANSWER(ByteOrderMark, Libsvm,
       libsvm("\xEF\xBB\xBF"
              "1 2:3\n"),
       "1 2:3\n")
ANSWER(ByteOrderMark, Libffm,
       libffm("\xEF\xBB\xBF"
              "1 0:2:3\n"),
       "1 2:3\n")
ANSWER(ByteOrderMark, DenseCsv,
       dense("\xEF\xBB\xBF"
             "1,2\n"),
       "1 2\n")
ANSWER(ByteOrderMark, Csv,
       csv("\xEF\xBB\xBF"
           "1,a\n"),
       "1|a\n")
ANSWER(ByteOrderMark, JsonLines, json("\xEF\xBB\xBF{\"f\":1}\n"), "1\n")
ANSWER(ByteOrderMarkLater, Csv,
       csv("1,a\n\xEF\xBB\xBF"
           "2,b\n"),
       "1|a\n@4:1 field 'f': '\\xef\\xbb\\xbf2' is no float32: not a number\n")
ANSWER(ByteOrderMarkLater, JsonLines, json("{\"f\":1}\n\xEF\xBB\xBF{}\n"),
       "1\n@8:1 expected an object, found byte 0xef\n")

ANSWER(Comment, Libsvm, libsvm("# one\n1 2:3 # two\n"), "1 2:3\n")
ANSWER(Comment, Libffm, libffm("# one\n1 0:2:3 # two\n"), "1 2:3\n")
ANSWER(Comment, DenseCsv, dense("# one\n1,2\n"), "1 2\n@0:1 field 1: not a number\n")
ANSWER(Comment, Csv, csv("1,# two\n"), "1|# two\n")
ANSWER(Comment, JsonLines, json("# one\n{\"f\":1}\n"), "1\n@0:1 expected an object, found '#'\n")

ANSWER(EmptyLine, Libsvm, libsvm("\n1 2:3\n \t\n\r\n"), "1 2:3\n")
ANSWER(EmptyLine, Libffm, libffm("\n1 0:2:3\n \t\n\r\n"), "1 2:3\n")
ANSWER(EmptyLine, DenseCsv, dense("\n1,2\n \t\n\r\n"), "1 2\n")
ANSWER(EmptyLine, Csv, csv("\n1,a\n \t\n\r\n"), "1|a\n")
ANSWER(EmptyLine, JsonLines, json("\n{\"f\":1}\n \t\n\r\n"), "1\n")

ANSWER(EmptyFile, Libsvm, libsvm(""), "")
ANSWER(EmptyFile, Libffm, libffm(""), "")
ANSWER(EmptyFile, DenseCsv, dense(""), "")
ANSWER(EmptyFile, Csv, csv(""), "")
ANSWER(EmptyFile, JsonLines, json(""), "")
ANSWER(EmptyFile, TfRecord, tf(""), "")
ANSWER(EmptyFile, RecordIo, record_io(""), "")
ANSWER(EmptyFile, TokenFile, tokens(""), "")
ANSWER(EmptyFile, Npy, parsed_bits(ArrayParser(ArrayFormat::kNpy), ""),
       "!@0:1 an empty file, which has no header\n")
ANSWER(EmptyFile, Idx, parsed_bits(ArrayParser(ArrayFormat::kIdx), ""),
       "!@0:1 an empty file, which has no header\n")

// ---- numbers

ANSWER(Nan, Libsvm, libsvm("1 2:nan\n"), "@0:5 value: not finite (nan and inf are refused)\n")
ANSWER(Nan, Libffm, libffm("1 0:2:nan\n"), "@0:7 value: not finite (nan and inf are refused)\n")
ANSWER(Nan, DenseCsv, dense("1,nan\n"), "@0:3 field 2: not finite (nan and inf are refused)\n")
ANSWER(Nan, Csv, csv("nan,a\n"),
       "@0:1 field 'f': 'nan' is no float32: not finite (nan and inf are refused)\n")
ANSWER(Nan, JsonLines, json("{\"f\":nan}\n"), "@0:6 expected a value, found 'n'\n")
ANSWER(Nan, TfExample, example({0x7fc00001}), "7fc00001 ")
ANSWER(Nan, Npy, npy({0x7fc00001}), "7fc00001 ")
ANSWER(Nan, Idx, idx({0x7fc00001}), "7fc00001 ")

ANSWER(Inf, Libsvm, libsvm("1 2:-inf\n"), "@0:5 value: not finite (nan and inf are refused)\n")
ANSWER(Inf, Libffm, libffm("1 0:2:inf\n"), "@0:7 value: not finite (nan and inf are refused)\n")
ANSWER(Inf, DenseCsv, dense("1,Infinity\n"), "@0:3 field 2: not finite (nan and inf are refused)\n")
ANSWER(Inf, Csv, csv("inf,a\n"),
       "@0:1 field 'f': 'inf' is no float32: not finite (nan and inf are refused)\n")
ANSWER(Inf, JsonLines, json("{\"f\":Infinity}\n"), "@0:6 expected a value, found 'I'\n")
ANSWER(Inf, TfExample, example({0xff800000}), "ff800000 ")
ANSWER(Inf, Npy, npy({0xff800000}), "ff800000 ")
ANSWER(Inf, Idx, idx({0xff800000}), "ff800000 ")

ANSWER(TooLarge, Libsvm, libsvm("1 2:1e400\n"), "@0:5 value: out of range\n")
ANSWER(TooLarge, Libffm, libffm("1 0:2:1e39\n"), "@0:7 value: out of range\n")
ANSWER(TooLarge, DenseCsv, dense("1,-1e400\n"), "@0:3 field 2: out of range\n")
ANSWER(TooLarge, Csv, csv("1e400,a\n"), "@0:1 field 'f': '1e400' is no float32: out of range\n")
ANSWER(TooLarge, JsonLines, json("{\"f\":1e400}\n"),
       "@0:6 field 'f': '1e400' is no float32: out of range\n")

ANSWER(Denormal, Libsvm, libsvm("1 2:1e-45 3:1e-400\n"), "1 2:1.40129846e-45 3:0\n")
ANSWER(Denormal, Libffm, libffm("1 0:2:1e-45 0:3:1e-400\n"), "1 2:1.40129846e-45 3:0\n")
ANSWER(Denormal, DenseCsv, dense("1,1e-45,1e-400\n"), "1 1.40129846e-45 0\n")
ANSWER(Denormal, Csv, csv("1e-45,a\n-1e-400,b\n"), "1.40129846e-45|a\n-0|b\n")
ANSWER(Denormal, JsonLines, json("{\"f\":1e-45}\n{\"f\":1e-400}\n"), "1.40129846e-45\n0\n")
ANSWER(Denormal, TfExample, example({0x00000001}), "00000001 ")
ANSWER(Denormal, Npy, npy({0x00000001}), "00000001 ")
ANSWER(Denormal, Idx, idx({0x00000001}), "00000001 ")

ANSWER(Plus, Libsvm, libsvm("1 +3:1\n"),
       "@0:3 feature id: expected an unsigned integer, found '+'\n")
ANSWER(Plus, Libffm, libffm("1 0:+3:1\n"),
       "@0:5 feature id: expected an unsigned integer, found '+'\n")
ANSWER(Plus, DenseCsv, dense("+1,+3\n"), "1 3\n")
ANSWER(Plus, Csv, csv("+3,a\n"), "3|a\n")
ANSWER(Plus, JsonLines, json("{\"f\":+3}\n"), "@0:6 expected a value, found '+'\n")

// ---- NUL

ANSWER(Nul, Libsvm, libsvm("1 2:3\0 4:5\n"sv), "@0:6 value: unexpected a NUL byte\n")
ANSWER(Nul, Libffm, libffm("1 0:2:3\0\n"sv), "@0:8 value: unexpected a NUL byte\n")
ANSWER(Nul, DenseCsv, dense("1,2\0\n"sv), "@0:4 field 2: unexpected a NUL byte\n")
ANSWER(Nul, Csv, csv("1,a\0b\n2,\"\0\"\n"sv), "@0:4 a NUL byte\n@6:4 a NUL byte\n")
ANSWER(Nul, JsonLines, json("{\"f\":1\0}\n"sv), "@0:7 expected ',' or '}', found a NUL byte\n")
ANSWER(Nul, TfRecord, tf(tf_frame("a\0b"sv)), "a\0b\n"sv)
ANSWER(Nul, RecordIo, record_io(record_io_frame("a\0b"sv)), "a\0b\n"sv)
ANSWER(Nul, TokenFile, tokens("\0\0\1\0"sv), "0\n1\n")

// ---- records of 100 MB

/// `head`, 100 MB of 'x', `tail`; holds no more than a block.
class LongFile final : public File {
 public:
  LongFile(std::string head, std::string tail) : head_(std::move(head)), tail_(std::move(tail)) {}
  std::uint64_t size_bytes() const override { return head_.size() + kLong + tail_.size(); }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out) override {
    std::size_t n = 0;
    while (n < out.size() && offset + n < size_bytes()) {
      const std::uint64_t at = offset + n;
      if (at < head_.size()) {
        out[n++] = head_[static_cast<std::size_t>(at)];
      } else if (at < head_.size() + kLong) {
        const auto run = std::min<std::uint64_t>(head_.size() + kLong - at, out.size() - n);
        std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(n), run, 'x');
        n += static_cast<std::size_t>(run);
      } else {
        out[n++] = tail_[static_cast<std::size_t>(at - head_.size() - kLong)];
      }
    }
    return n;
  }
  Status verify() override { return {}; }
  static constexpr std::uint64_t kLong = 100'000'000;

 private:
  std::string head_, tail_;
};

std::string long_record(const MakeParser& make, std::string head, std::string tail) {
  auto stream = ByteStream::open(std::make_unique<LongFile>(std::move(head), std::move(tail)));
  BadRecordPolicy policy(BadRecordAction::kSkip, 1);
  TableReader reader("/f", std::move(*stream), make(), policy);
  Table table;
  make()->prepare(table);
  for (;;) {
    const auto more = reader.read(table);
    if (!more) return text_of(table) + more.error().context;
    if (!*more) return text_of(table) + std::to_string(policy.seen()) + " bad";
  }
}
ANSWER(
    LongLine, Csv, long_record(csv_of(kCsv), "1,a\n2,", "\n3,b\nx,c\n"),
    "1|a\n3|b\n/f: offset 100000011, line 4, column 1: field 'f': 'x' is no float32: not a number "
    "(more than 1 bad records, which the job allows)")
ANSWER(LongLine, JsonLines, long_record(json_of(kJson), "{\"f\":1}\n{\"", "\":2}\n{\"f\":3}"),
       "1\n3\n1 bad")
TEST(DocumentedAnswer, LongRecordInTfRecord) {
  const std::string framed = tf_frame(std::string(LongFile::kLong, 'x'));
  EXPECT_EQ(
      long_record(
          [] { return std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), 1000); },
          tf_frame("a") + framed.substr(0, kTfHeaderBytes),
          framed.substr(framed.size() - kTfFooterBytes) + tf_frame("b")),
      "a\nb\n1 bad");
}
TEST(DocumentedAnswer, LongLineInLibsvm) {
  const std::uint64_t size = LongFile("1 2:3\n1 2:", "\n0 4:5\n").size_bytes();
  auto reader = SplitReader::over(std::make_unique<LongFile>("1 2:3\n1 2:", "\n0 4:5\n"),
                                  {0, 0, "/f", "", 0, size}, {});
  ASSERT_TRUE(reader);
  std::string text;
  std::uint64_t skipped = 0;
  for (;;) {
    const auto chunk = (*reader)->next();
    ASSERT_TRUE(chunk);
    if (!*chunk) break;
    text += libsvm((*chunk)->text);
    skipped += (*chunk)->skipped_bytes;
  }
  EXPECT_EQ(text, "1 2:3\n0 4:5\n");
  EXPECT_EQ(skipped, LongFile::kLong + 5);
}

}  // namespace
}  // namespace dlrun::io
