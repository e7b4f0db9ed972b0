#include "io/core/record_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <sstream>

#include "io/core/fast_number.h"
#include "io/core/number.h"
#include "runtime/base/rng.h"

namespace dlrun::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

InputSpec libsvm(std::uint32_t base = 0) {
  InputSpec s;
  s.format = Format::kLibsvm;
  s.index_base = base;
  return s;
}
InputSpec libffm() {
  InputSpec s;
  s.format = Format::kLibffm;
  return s;
}
InputSpec csv(std::int32_t label = 0, char delimiter = ',', bool header = false) {
  InputSpec s;
  s.format = Format::kCsv;
  s.label_column = label;
  s.delimiter = delimiter;
  s.header = header;
  return s;
}

struct Parsed {
  RecordBlock block;
  std::vector<BadRecord> bad;
};
Parsed parse_all(const InputSpec& spec, std::string_view text, std::uint64_t offset = 0,
                 std::uint64_t record_bytes_max = kRecordBytesMax) {
  const RecordParser parser(spec, record_bytes_max);
  Parsed p;
  parser.prepare(p.block);
  std::size_t at = 0;
  while (at < text.size()) {
    ParseProgress progress = parser.parse(text.substr(at), offset + at, p.block);
    at += progress.consumed;
    if (!progress.bad) {
      EXPECT_EQ(at, text.size());
      break;
    }
    p.bad.push_back(*progress.bad);
  }
  return p;
}
std::string reason_of(const InputSpec& spec, std::string_view text) {
  const Parsed p = parse_all(spec, text);
  EXPECT_EQ(p.block.rows(), 0u);
  return p.bad.size() == 1 ? p.bad[0].reason + " @" + std::to_string(p.bad[0].column) : "no error";
}

// ---- libsvm

TEST(RecordParser, ReadsLibsvmWithCommentsBlanksAndBareLabels) {
  const Parsed p =
      parse_all(libsvm(), "1 3:0.5 7:-2 # note\n\n# only a comment\n-1\n+1\t2:1e1  \n");
  EXPECT_THAT(p.bad, ::testing::IsEmpty());
  EXPECT_THAT(p.block.labels, ElementsAre(1, -1, 1));
  EXPECT_THAT(p.block.offsets, ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(p.block.ids, ElementsAre(3, 7, 2));
  EXPECT_THAT(p.block.values, ElementsAre(0.5f, -2, 10));
}

TEST(RecordParser, KeepsAll64BitsOfAnIdAndSubtractsTheBase) {
  const Parsed p = parse_all(libsvm(), "1 18446744073709551615:1 0:1 9007199254740993:1\n");
  EXPECT_THAT(p.block.ids, ElementsAre(18446744073709551615ULL, 0, 9007199254740993ULL));
  EXPECT_THAT(parse_all(libsvm(1), "1 1:1 5:1\n").block.ids, ElementsAre(0, 4));
  EXPECT_EQ(reason_of(libsvm(1), "1 0:1\n"), "feature id 0 is below index_base 1 @3");
  EXPECT_EQ(reason_of(libsvm(), "1 18446744073709551616:1\n"),
            "feature id: does not fit 64 bits @3");
}

TEST(RecordParser, RefusesWhatLibsvmReadersGuessAt) {
  EXPECT_EQ(reason_of(libsvm(), "1 qid:3 1:1\n"), "qid is not supported @3");
  EXPECT_EQ(reason_of(libsvm(), "1:0.5 1:1\n"), "label weights are not supported @2");
  EXPECT_EQ(reason_of(libsvm(), "1 7\n"), "expected id:value, found the end of the line @4");
  EXPECT_EQ(reason_of(libsvm(), "0 +3:1\n"),
            "feature id: expected an unsigned integer, found '+' @3");
  EXPECT_EQ(reason_of(libsvm(), "0 -3:1\n"),
            "feature id: expected an unsigned integer, found '-' @3");
  EXPECT_EQ(reason_of(libsvm(), "0 3:\n"), "value: not a number @5");
  EXPECT_EQ(reason_of(libsvm(), "0 3:1x\n"), "value: unexpected 'x' @6");
  EXPECT_EQ(reason_of(libsvm(), "0 3:0x10\n"), "value: unexpected 'x' @6");
  EXPECT_EQ(reason_of(libsvm(), "0 3:1:2\n"), "value: unexpected ':' @6");
  EXPECT_EQ(reason_of(libsvm(), "a 3:1\n"), "label: not a number @1");
  EXPECT_EQ(reason_of(libsvm(), "0 3:1,4:1\n"), "value: unexpected ',' @6");
}

TEST(RecordParser, RefusesNanInfAndOverflowAndKeepsDenormals) {
  for (const char* word : {"nan", "NaN", "-nan", "inf", "+inf", "-INF", "infinity"})
    EXPECT_EQ(reason_of(libsvm(), std::string("1 3:") + word + "\n"),
              "value: not finite (nan and inf are refused) @5");
  EXPECT_EQ(reason_of(libsvm(), "nan 3:1\n"), "label: not finite (nan and inf are refused) @1");
  EXPECT_EQ(reason_of(libsvm(), "1 3:1e400\n"), "value: out of range @5");
  EXPECT_EQ(reason_of(libsvm(), "1 3:-1e39\n"), "value: out of range @5");
  const Parsed p = parse_all(libsvm(), "1 1:1e-45 2:1e-40 3:1e-400 4:-1e-50 5:3.4028235e38\n");
  EXPECT_THAT(p.bad, ::testing::IsEmpty());
  EXPECT_THAT(p.block.values, ElementsAre(1e-45f, 1e-40f, 0, -0.0f, 3.4028235e38f));
}

TEST(RecordParser, AnswersEachLineEnding) {
  const Parsed crlf = parse_all(libsvm(), "1 1:1\r\n0 2:1\r\n");
  EXPECT_THAT(crlf.block.labels, ElementsAre(1, 0));
  EXPECT_THAT(crlf.bad, ::testing::IsEmpty());
  EXPECT_THAT(parse_all(libsvm(), "1 1:1\n0 2:1").block.labels, ElementsAre(1, 0));
  EXPECT_THAT(parse_all(libsvm(), "1 1:1\n0 2:1\r").block.labels, ElementsAre(1, 0));
  EXPECT_EQ(reason_of(libsvm(), "1 1:1\r0 2:1\n"), "value: unexpected a carriage return @6");
  EXPECT_EQ(parse_all(libsvm(), "").block.rows(), 0u);
  EXPECT_EQ(parse_all(libsvm(), "\n\r\n  \n").block.rows(), 0u);
  EXPECT_EQ(reason_of(libsvm(), std::string_view("1 1:1\0 2:1\n", 11)),
            "value: unexpected a NUL byte @6");
}

TEST(RecordParser, SkipsAByteOrderMarkOnlyAtTheStartOfAFile) {
  EXPECT_THAT(parse_all(libsvm(),
                        "\xEF\xBB\xBF"
                        "1 1:1\n")
                  .block.labels,
              ElementsAre(1));
  const Parsed p = parse_all(libsvm(),
                             "\xEF\xBB\xBF"
                             "1 1:1\n",
                             100);
  ASSERT_EQ(p.bad.size(), 1u);
  EXPECT_EQ(p.bad[0].offset, 100u);
}

TEST(RecordParser, NamesALineThatIsTooLong) {
  const std::string longest = "1 1:1 #" + std::string(93, 'x');
  const Parsed p = parse_all(libsvm(), longest + "\n" + longest + "y\n0\n", 0, 100);
  ASSERT_EQ(p.bad.size(), 1u);
  EXPECT_EQ(p.bad[0].offset, 101u);
  EXPECT_EQ(p.bad[0].reason, "record of 101 bytes; at most 100");
  EXPECT_THAT(p.block.labels, ElementsAre(1, 0));
}

TEST(RecordParser, LeavesTheBlockAsItWasAfterABadRecord) {
  const Parsed p = parse_all(libffm(), "1 1:2:3\n0 4:5:6 7:8:x\n1 9:9:9\n");
  ASSERT_EQ(p.bad.size(), 1u);
  EXPECT_EQ(describe("/f", 2, p.bad[0]), "/f: offset 8, line 2, column 13: value: not a number");
  EXPECT_THAT(p.block.offsets, ElementsAre(0, 1, 2));
  EXPECT_THAT(p.block.fields, ElementsAre(1, 9));
  EXPECT_THAT(p.block.ids, ElementsAre(2, 9));
  EXPECT_THAT(p.block.values, ElementsAre(3, 9));
}

TEST(RecordParser, ReadsLibffmFields) {
  EXPECT_EQ(reason_of(libffm(), "1 4294967296:1:1\n"), "field: does not fit 32 bits @3");
  EXPECT_EQ(reason_of(libffm(), "1 3:1\n"),
            "expected field:id:value, found the end of the line @6");
  EXPECT_THAT(parse_all(libffm(), "1 4294967295:1:1\n").block.fields, ElementsAre(4294967295u));
}

// ---- csv

TEST(RecordParser, ReadsCsvWithLabelAnywhereHeaderAndPadding) {
  const Parsed first = parse_all(csv(0, ',', true), "y,a,b\n1,0.5,-2\n0, 3 ,4\n");
  EXPECT_THAT(first.bad, ::testing::IsEmpty());
  EXPECT_EQ(first.block.cols, 2u);
  EXPECT_THAT(first.block.labels, ElementsAre(1, 0));
  EXPECT_THAT(first.block.values, ElementsAre(0.5f, -2, 3, 4));
  const Parsed last = parse_all(csv(-1, '\t'), "5\t6\t1\n7\t8\t0");
  EXPECT_THAT(last.block.labels, ElementsAre(1, 0));
  EXPECT_THAT(last.block.values, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(parse_all(csv(1), "5,6,7\n").block.values, ElementsAre(5, 7));
}

TEST(RecordParser, RefusesCsvThatIsNotDenseNumbers) {
  EXPECT_EQ(reason_of(csv(), "1,,2\n"), "empty field @3");
  EXPECT_EQ(reason_of(csv(), "1,2,\n"), "empty field @5");
  EXPECT_EQ(reason_of(csv(), "1,\"2\"\n"), "quoted fields are not supported @3");
  EXPECT_EQ(reason_of(csv(), "1,nan\n"), "field 2: not finite (nan and inf are refused) @3");
  EXPECT_EQ(reason_of(csv(), "1,2 3\n"), "field 2: unexpected '3' @5");
  EXPECT_EQ(reason_of(csv(5), "1,2\n"), "label_column 5 of a line of 2 columns @1");
  EXPECT_EQ(reason_of(csv(), "1\n"), "a label and no other column @1");
  const Parsed p = parse_all(csv(), "1,2,3\n1,2\n1,2,3,4\n0,5,6\n");
  ASSERT_EQ(p.bad.size(), 2u);
  EXPECT_EQ(p.bad[0].reason, "2 columns; the first record of the input has 3");
  EXPECT_THAT(p.block.values, ElementsAre(2, 3, 5, 6));
}

// ---- numbers, against the C library

TEST(Number, RoundsAsTheCLibraryDoes) {
  SplitMix64 rng(11);
  for (int i = 0; i < 200000; ++i) {
    std::string text;
    if (i % 3 == 0) {
      const auto bits = static_cast<std::uint32_t>(rng.next());
      const float value = std::bit_cast<float>(bits);
      if (!std::isfinite(value)) continue;
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, i % 2 == 0 ? "%.9g" : "%.6f", value);
      text = buffer;
    } else {
      if (rng.below(2) != 0) text += '-';
      for (std::uint64_t n = rng.below(12); n > 0; --n)
        text += static_cast<char>('0' + rng.below(10));
      text += '.';
      for (std::uint64_t n = 1 + rng.below(12); n > 0; --n)
        text += static_cast<char>('0' + rng.below(10));
      if (rng.below(4) == 0) text += "e" + std::to_string(static_cast<int>(rng.below(60)) - 30);
    }
    const float expected = std::strtof(text.c_str(), nullptr);
    const FloatToken token = read_float(text.data(), text.data() + text.size());
    ASSERT_EQ(token.end, text.data() + text.size()) << text;
    if (std::isinf(expected)) {
      ASSERT_EQ(token.error, NumberError::kOverflow) << text;
    } else {
      ASSERT_EQ(token.error, NumberError::kNone) << text;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(token.value), std::bit_cast<std::uint32_t>(expected))
          << text;
    }
  }
}

TEST(Number, TheFastWayGivesTheSameValuesErrorsAndEnds) {
  SplitMix64 rng(12);
  const auto digits = [&rng](std::uint64_t most) {
    std::string out;
    for (std::uint64_t n = rng.below(most + 1); n > 0; --n)
      out += static_cast<char>('0' + rng.below(10));
    return out;
  };
  static constexpr const char* kEnds[] = {" ", ":", "\n", "\r\n", "x", ",", ".", "e", "", "-"};
  for (int i = 0; i < 400000; ++i) {
    std::string text;
    if (rng.below(3) == 0) text += rng.below(3) != 0 ? '-' : '+';
    if (rng.below(50) == 0) text += rng.below(2) != 0 ? '-' : '+';
    text += digits(rng.below(2) != 0 ? 7 : 20);
    if (rng.below(3) != 0) text += '.' + digits(rng.below(2) != 0 ? 8 : 18);
    if (rng.below(6) == 0) text += "e" + std::string(rng.below(2) != 0 ? "-" : "") + digits(3);
    if (rng.below(60) == 0) text += rng.below(2) != 0 ? "nan" : "inf";
    text += kEnds[rng.below(std::size(kEnds))];
    // What follows is another line, or nothing.
    text += std::string(rng.below(2) != 0 ? 0 : 30, "9\n 5."[rng.below(6)]);
    const std::vector<char> exact(text.begin(), text.end());
    const char* const begin = exact.data();
    const char* const end = begin + exact.size();
    const FloatToken slow = read_float(begin, end), fast = read_float_fast(begin, end);
    ASSERT_EQ(fast.end, slow.end) << text;
    ASSERT_EQ(fast.error, slow.error) << text;
    if (slow.error == NumberError::kNone) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(fast.value), std::bit_cast<std::uint32_t>(slow.value))
          << text;
    }
    const DoubleToken wide = read_double(begin, end), wide_fast = read_double_fast(begin, end);
    ASSERT_EQ(wide_fast.end, wide.end) << text;
    ASSERT_EQ(wide_fast.error, wide.error) << text;
    if (wide.error == NumberError::kNone) {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(wide_fast.value),
                std::bit_cast<std::uint64_t>(wide.value))
          << text;
    }
    const IntToken whole = read_int(begin, end), whole_fast = read_int_fast(begin, end);
    ASSERT_EQ(whole_fast.end, whole.end) << text;
    ASSERT_EQ(whole_fast.error, whole.error) << text;
    if (whole.error == NumberError::kNone) {
      ASSERT_EQ(whole_fast.value, whole.value) << text;
    }
    const IdToken id = read_id(begin, end), quick = read_id_fast(begin, end);
    ASSERT_EQ(quick.end, id.end) << text;
    ASSERT_EQ(quick.error, id.error) << text;
    if (id.error == NumberError::kNone) {
      ASSERT_EQ(quick.value, id.value) << text;
    }
  }
  // Exactly between two floats, and a hair beside: where rounding twice would go wrong.
  for (const char* text :
       {"16777217.0000000000000000000000000", "16777217.0000001 xxxxxxxxxxxxxxx",
        "8388608.5000000 xxxxxxxxxxxxxxxx", "8388609.49999999 xxxxxxxxxxxxxxx",
        "1.00000005960464 xxxxxxxxxxxxxxx", "1.000000059604645 xxxxxxxxxxxxxx"}) {
    const char* const end = text + std::strlen(text);
    EXPECT_EQ(read_float_fast(text, end).value, std::strtof(text, nullptr)) << text;
  }
}

// ---- whole files, against a reader made of istream and strtod

Parsed brute_force_libsvm(const std::string& text, bool fields) {
  Parsed p;
  p.block.with_fields = fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream tokens(line);
    std::string token;
    if (!(tokens >> token)) continue;
    p.block.labels.push_back(std::strtof(token.c_str(), nullptr));
    while (tokens >> token) {
      if (fields) {
        p.block.fields.push_back(static_cast<std::uint32_t>(std::stoull(token)));
        token = token.substr(token.find(':') + 1);
      }
      p.block.ids.push_back(std::stoull(token));
      p.block.values.push_back(std::strtof(token.c_str() + token.find(':') + 1, nullptr));
    }
    p.block.offsets.push_back(static_cast<std::int64_t>(p.block.values.size()));
  }
  return p;
}

std::string random_file(SplitMix64& rng, bool fields) {
  std::ostringstream out;
  for (std::uint64_t row = 0, rows = rng.below(30); row < rows; ++row) {
    out << (rng.below(2) != 0 ? "1" : "-1");
    for (std::uint64_t i = 0, n = rng.below(8); i < n; ++i) {
      out << (rng.below(5) == 0 ? "  " : " ");
      if (fields) out << rng.below(100) << ':';
      out << (rng.below(3) == 0 ? rng.next() : rng.below(1000)) << ':';
      if (rng.below(2) == 0)
        out << static_cast<std::int64_t>(rng.below(200)) - 100;
      else
        out << (rng.uniform() - 0.5) * std::pow(10, static_cast<double>(rng.below(20)) - 10);
    }
    if (row + 1 < rows || rng.below(2) != 0) out << '\n';
  }
  return out.str();
}

void expect_same(const RecordBlock& a, const RecordBlock& b) {
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.fields, b.fields);
}

TEST(RecordParser, AgreesWithAPlainReaderOnRandomFiles) {
  SplitMix64 rng(5);
  for (int i = 0; i < 500; ++i) {
    const bool fields = i % 2 != 0;
    const std::string text = random_file(rng, fields);
    const Parsed ours = parse_all(fields ? libffm() : libsvm(), text);
    ASSERT_THAT(ours.bad, ::testing::IsEmpty()) << text;
    expect_same(ours.block, brute_force_libsvm(text, fields).block);
  }
}

/// A block is sound whatever the text was.
void expect_sound(const RecordBlock& block) {
  ASSERT_EQ(block.offsets.size(), block.rows() + 1);
  ASSERT_EQ(static_cast<std::size_t>(block.offsets.back()), block.values.size());
  if (block.kind == BatchKind::kCsr) {
    ASSERT_EQ(block.ids.size(), block.values.size());
  }
  if (block.with_fields) {
    ASSERT_EQ(block.fields.size(), block.values.size());
  }
  if (block.kind == BatchKind::kDense) {
    ASSERT_EQ(block.values.size(), block.rows() * block.cols);
  }
}

TEST(RecordParser, AFileCutAtAnyByteGivesFewerRecordsOrAnErrorAndNothingElse) {
  SplitMix64 rng(6);
  const std::string sparse = random_file(rng, true);
  const std::string dense = "1,2.5,3e2\r\n0,-1,+7\r\n1,4,5";
  for (const bool is_sparse : {true, false}) {
    const std::string& text = is_sparse ? sparse : dense;
    const InputSpec spec = is_sparse ? libffm() : csv();
    const std::size_t whole = parse_all(spec, text).block.rows();
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
      const Parsed p = parse_all(spec, std::string(text, 0, cut));
      EXPECT_LE(p.block.rows() + p.bad.size(), whole);
      EXPECT_LE(p.bad.size(), 1u);
      expect_sound(p.block);
    }
  }
}

TEST(RecordParser, SurvivesMutatedFiles) {
  SplitMix64 rng(7);
  static constexpr char kSpice[] =
      "0123456789:,.+-eE# \t\r\n\0nanif\xEF\xBB\xBF"
      "\"x";
  for (int i = 0; i < 4000; ++i) {
    std::string text = random_file(rng, i % 2 != 0);
    for (std::uint64_t n = 1 + rng.below(8); n > 0 && !text.empty(); --n) {
      const auto at = static_cast<std::size_t>(rng.below(text.size()));
      const char c = rng.below(4) == 0 ? static_cast<char>(rng.below(256))
                                       : kSpice[rng.below(sizeof kSpice - 1)];
      switch (rng.below(3)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + rng.below(3));
      }
    }
    // an exact copy on the heap, so that one byte too far is seen
    const std::vector<char> exact(text.begin(), text.end());
    const std::string_view view(exact.data(), exact.size());
    for (const InputSpec& spec : {libsvm(), libsvm(1), libffm(), csv(), csv(-1, '\t', true)})
      expect_sound(parse_all(spec, view, i % 2).block);
  }
}

}  // namespace
}  // namespace dlrun::io
