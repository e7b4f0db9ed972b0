// TFRecord, RecordIO, NPY, IDX and token files: frames and headers, by hand and damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "io/core/array_file.h"
#include "io/core/crc32c.h"
#include "io/core/record_io.h"
#include "io/core/tf_record.h"
#include "io/core/token_file.h"
#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class T>
std::string raw(std::initializer_list<T> values, bool big = false) {
  std::string out;
  for (const T value : values) {
    std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
    if (big) bytes = std::string(bytes.rbegin(), bytes.rend());
    out += bytes;
  }
  return out;
}

MakeParser tf(std::uint64_t record_bytes_max = 1 << 20) {
  return [=] {
    return std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), record_bytes_max);
  };
}
MakeParser record_io(std::uint64_t record_bytes_max = 1 << 20) {
  return [=] {
    return std::make_unique<RecordIoParser>(std::make_unique<RawDecoder>(), record_bytes_max);
  };
}
MakeParser array(ArrayFormat format) {
  return [=] { return std::make_unique<ArrayParser>(format); };
}
MakeParser tokens(const TokenOptions& options) {
  return [=] {
    auto parser = TokenParser::make(options);
    EXPECT_TRUE(parser) << parser.error().to_string();
    return std::unique_ptr<TableParser>(std::move(*parser));
  };
}

// ---- CRC-32C

TEST(Crc32c, GivesTheNumbersOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, TheLanesAgreeWithTheTableAtEveryLengthAndAlignment) {
  SplitMix64 rng(1);
  std::string bytes(3 * 8192 * 2 + 3 * 336 + 100, '\0');
  for (char& c : bytes) c = static_cast<char>(rng.next());
  for (std::size_t n = 0; n < 1300; ++n)
    ASSERT_EQ(crc32c(std::string_view(bytes).substr(n % 9, n)),
              crc32c_by_table(std::string_view(bytes).substr(n % 9, n)))
        << n;
  for (int i = 0; i < 50; ++i) {
    const auto at = static_cast<std::size_t>(rng.below(16));
    const auto n = static_cast<std::size_t>(rng.below(bytes.size() - 16));
    const auto before = static_cast<std::uint32_t>(rng.next());
    const std::string_view part = std::string_view(bytes).substr(at, n);
    ASSERT_EQ(crc32c(part, before), crc32c_by_table(part, before)) << n;
    ASSERT_EQ(crc32c(part.substr(n / 3), crc32c(part.substr(0, n / 3))), crc32c(part));
  }
}

// ---- TFRecord

TEST(TfRecord, ReadsWhatIsFramed) {
  EXPECT_EQ(outcome_of(tf(), tf_frame("hello") + tf_frame("") + tf_frame("x")), "hello\n\nx\n");
}

TEST(TfRecord, AFlippedBitOfEachKindNamesItsPlaceAndReadingGoesOn) {
  const std::string one = tf_frame("first"), two = tf_frame("second"), three = tf_frame("third");
  const std::string file = one + two + three;
  const auto flipped = [&](std::size_t at) {
    std::string bytes = file;
    bytes[one.size() + at] = static_cast<char>(bytes[one.size() + at] ^ 0x10);
    return outcome_of(tf(), bytes);
  };
  for (std::size_t at = 0; at < 12; ++at)
    EXPECT_EQ(flipped(at), "first\nthird\n@21:9 checksum of the length\n") << at;
  for (std::size_t at = 12; at < two.size(); ++at)
    EXPECT_EQ(flipped(at), "first\nthird\n@21:13 checksum of the data\n") << at;
}

TEST(TfRecord, AHeaderThatIsDamagedIsFollowedByTheNextWholeRecord) {
  // What looks like a record within the junk but does not hold is not one.
  std::string fake = tf_frame("fake");
  fake.back() = static_cast<char>(fake.back() ^ 1);
  EXPECT_EQ(outcome_of(tf(), "junk that is longer than a header" + fake + tf_frame("real")),
            "real\n@0:9 checksum of the length\n");
  EXPECT_EQ(outcome_of(tf(), tf_frame("a") + "junkjunkjunkjunk"),
            "a\n@17:9 checksum of the length\n");
}

TEST(TfRecord, ARecordThatIsTooLongIsPassedOver) {
  EXPECT_EQ(outcome_of(tf(100), tf_frame(std::string(101, 'x')) + tf_frame(std::string(100, 'y'))),
            std::string(100, 'y') + "\n@0:1 record of 101 bytes; at most 100\n");
  const std::string cut = tf_frame(std::string(101, 'x')).substr(0, 50);
  EXPECT_THAT(outcome_of(tf(100), cut), HasSubstr("the file ends within a record"));
  std::string huge = raw<std::uint64_t>({~0ull});
  huge += raw<std::uint32_t>({masked(crc32c(huge))});
  EXPECT_THAT(outcome_of(tf(100), huge),
              StartsWith("!@0:1 a record of 18446744073709551615 bytes"));
}

TEST(TfRecord, SurvivesTruncationAndMutationAndPiecesOfAnySize) {
  const std::string file = tf_frame("first") + tf_frame(std::string(40, 'z')) + tf_frame("");
  expect_truncation_is_safe(tf(), file);
  EXPECT_EQ(outcome_of(tf(), file.substr(0, 30)),
            "first\n!@21:10 the file ends within a record: 3 bytes are missing\n");
  expect_mutations_are_safe(tf(64), file, {}, 300, 5);
}

// ---- RecordIO

TEST(RecordIo, ReadsRecordsWholeAndInParts) {
  const std::string magic = raw<std::uint32_t>({kRecordIoMagic});
  for (const std::string& payload :
       {std::string("abc"), std::string(), magic, magic + magic, "1234" + magic + "5", "12" + magic,
        magic + "tail", "1234" + magic + magic + "5678"}) {
    const std::string file = record_io_frame(payload) + record_io_frame("next");
    EXPECT_EQ(outcome_of(record_io(), file), payload + "\nnext\n");
  }
  // dmlc::RecordIOWriter over b"abc", by hand
  EXPECT_EQ(record_io_frame("abc"), magic + raw<std::uint32_t>({3}) + std::string("abc\0", 4));
}

TEST(RecordIo, GoesOnAtTheNextRecordAfterDamage) {
  const std::string one = record_io_frame("first"), three = record_io_frame("third");
  std::string two = record_io_frame("second!");
  two[0] ^= 1;
  EXPECT_EQ(outcome_of(record_io(), one + two + three),
            "first\nthird\n@16:1 not the magic number\n");
  two = record_io_frame("second!");
  two.back() = 1;
  EXPECT_EQ(outcome_of(record_io(), one + two + three),
            "first\nthird\n@16:16 padding that is not zero\n");
  const std::string magic = raw<std::uint32_t>({kRecordIoMagic});
  const std::string parts = record_io_frame("1234" + magic + "5678");
  EXPECT_EQ(outcome_of(record_io(), parts.substr(12) + three),
            "third\n@0:1 a later part of a record without its first\n");
  EXPECT_EQ(outcome_of(record_io(), parts.substr(0, 12) + three),
            "third\n@0:13 a record without its last part\n");
  EXPECT_EQ(outcome_of(record_io(4), one + record_io_frame("four") + three),
            "four\n@0:1 record of more than 4 bytes\n@28:1 record of more than 4 bytes\n");
}

TEST(RecordIo, SurvivesTruncationAndMutationAndPiecesOfAnySize) {
  const std::string magic = raw<std::uint32_t>({kRecordIoMagic});
  const std::string file =
      record_io_frame("first") + record_io_frame("ab12" + magic + "cd") + record_io_frame("");
  expect_truncation_is_safe(record_io(), file);
  expect_mutations_are_safe(record_io(64), file, magic, 300, 6);
}

// ---- NPY

std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  out += version == 1 ? raw<std::uint16_t>({static_cast<std::uint16_t>(dict.size())})
                      : raw<std::uint32_t>({static_cast<std::uint32_t>(dict.size())});
  return out + dict + data;
}

TEST(Npy, ReadsEveryTypeInBothByteOrders) {
  const auto one = [](const std::string& type, const std::string& data) {
    return outcome_of(
        array(ArrayFormat::kNpy),
        npy("{'descr': '" + type + "', 'fortran_order': False, 'shape': (2,), }\n", data));
  };
  EXPECT_EQ(one("|u1", "\x01\xff"), "1\n255\n");
  EXPECT_EQ(one("|i1", "\x01\xff"), "1\n-1\n");
  EXPECT_EQ(one("|b1", std::string("\x01\0", 2)), "1\n0\n");
  for (const bool big : {false, true}) {
    const std::string order = big ? ">" : "<";
    EXPECT_EQ(one(order + "i2", raw<std::int16_t>({-2, 300}, big)), "-2\n300\n");
    EXPECT_EQ(one(order + "u2", raw<std::uint16_t>({65535, 1}, big)), "65535\n1\n");
    EXPECT_EQ(one(order + "i4", raw<std::int32_t>({-2, 1 << 30}, big)), "-2\n1073741824\n");
    EXPECT_EQ(one(order + "u4", raw<std::uint32_t>({~0u, 1}, big)), "4294967295\n1\n");
    EXPECT_EQ(one(order + "i8", raw<std::int64_t>({-2, 1ll << 60}, big)),
              "-2\n1152921504606846976\n");
    EXPECT_EQ(one(order + "u8", raw<std::uint64_t>({~0ull, 1}, big)), "18446744073709551615\n1\n");
    EXPECT_EQ(one(order + "f4", raw<float>({0.1f, -1e30f}, big)), "0.100000001\n-1.00000002e+30\n");
    EXPECT_EQ(one(order + "f8", raw<double>({0.1, -1e300}, big)),
              "0.10000000000000001\n-1.0000000000000001e+300\n");
    EXPECT_EQ(one(order + "f2", raw<std::uint16_t>({0x3c00, 0xc500}, big)), "1\n-5\n");
  }
  EXPECT_EQ(one("|b1", std::string("\x01\x02", 2)), "1\n@69:1 a bool that is neither 0 nor 1\n");
}

TEST(Npy, TurnsEveryHalfIntoTheFloatOfItsFormula) {
  std::string data;
  for (std::uint32_t i = 0; i < 65536; ++i)
    data += raw<std::uint16_t>({static_cast<std::uint16_t>(i)});
  ArrayParser parser(ArrayFormat::kNpy);
  const Outcome out =
      parse_whole(parser, npy("{'descr':'<f2','fortran_order':False,'shape':(65536,)}", data));
  ASSERT_EQ(out.table.rows, 65536u);
  const auto values = out.table.columns[0].as<float>();
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const double sign = i >> 15 != 0 ? -1 : 1;
    const int exponent = static_cast<int>(i >> 10 & 31);
    const double fraction = i & 1023;
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(values[i]), fraction != 0) << i;
      ASSERT_EQ(std::isinf(values[i]), fraction == 0) << i;
      continue;
    }
    const double expected = exponent == 0 ? sign * std::ldexp(fraction, -24)
                                          : sign * std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(static_cast<double>(values[i]), expected) << i;
    ASSERT_EQ(std::signbit(values[i]), sign < 0) << i;
  }
}

TEST(Npy, KeepsTheShapeOfARowAndTakesEveryVersion) {
  const std::string dict = "{'shape': (2, 2, 3), 'fortran_order': False, \"descr\": '|u1'}   \n";
  for (const int version : {1, 2, 3})
    EXPECT_EQ(outcome_of(array(ArrayFormat::kNpy), npy(dict, "abcdefABCDEF", version)),
              "[97 98 99 100 101 102]\n[65 66 67 68 69 70]\n");
  EXPECT_EQ(outcome_of(array(ArrayFormat::kNpy),
                       npy("{'descr':'<f4','fortran_order':True,'shape':(0,)}", "")),
            "");
}

TEST(Npy, RefusesWhatItCannotReadAndSaysWhy) {
  const auto why = [](const std::string& dict, const std::string& data = "", int version = 1) {
    return outcome_of(array(ArrayFormat::kNpy), npy(dict, data, version));
  };
  EXPECT_THAT(why("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("elements of type '|O'"));
  EXPECT_THAT(why("{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("elements of type '<U3'"));
  EXPECT_THAT(why("{'descr': [('a','<f4')], 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("records of named fields"));
  EXPECT_THAT(why("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }"),
              HasSubstr("Fortran order"));
  EXPECT_THAT(why("{'descr': '<f4', 'fortran_order': False, 'shape': (), }"),
              HasSubstr("without dimensions"));
  EXPECT_THAT(why("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0), }"),
              HasSubstr("rows of no values"));
  EXPECT_THAT(why("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 999999999999), }"),
              HasSubstr("more than 1 GiB"));
  EXPECT_THAT(why("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999999,), }"),
              HasSubstr("more than 2^62"));
  EXPECT_THAT(why("{'descr': '<f4', 'fortran_order': False, }"), HasSubstr("is not there"));
  EXPECT_THAT(why("{'descr': '<f4', 'descr': '<f4', }"), HasSubstr("the key 'descr'"));
  EXPECT_THAT(why("__import__('os')"), HasSubstr("!@0:11 npy header: expected '{', found '_'"));
  EXPECT_THAT(why("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", "a", 9),
              HasSubstr("version 9.0"));
  EXPECT_EQ(why("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", "ab"),
            "97\n!@66:1 bytes after the last row\n");
  EXPECT_EQ(why("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", raw<float>({1}) + "abc"),
            "1\n!@69:4 the file ends within row 2; its header says 2\n");
  EXPECT_EQ(outcome_of(array(ArrayFormat::kNpy), "PK\x03\x04"), "!@0:1 npy: not the magic bytes\n");
  EXPECT_EQ(outcome_of(array(ArrayFormat::kNpy), ""), "!@0:1 an empty file, which has no header\n");
}

TEST(Npy, TheNextFileOfAnInputMustHaveTheSameRows) {
  Table table;
  const auto add = [&table](const std::string& file) {
    ArrayParser parser(ArrayFormat::kNpy);
    const auto progress = parser.parse(file, 0, true, table);
    return progress.bad ? progress.bad->reason : "";
  };
  EXPECT_EQ(add(npy("{'descr':'<f4','fortran_order':False,'shape':(1,2)}", raw<float>({1, 2}))),
            "");
  EXPECT_EQ(
      add(npy("{'descr':'>f4','fortran_order':False,'shape':(1,2)}", raw<float>({3, 4}, true))),
      "");
  EXPECT_EQ(add(npy("{'descr':'<f4','fortran_order':False,'shape':(1,3)}", raw<float>({1, 2, 3}))),
            "rows of 3 float32; those of the first file of the input are 2 float32");
  EXPECT_EQ(text_of(table), "[1 2]\n[3 4]\n");
}

TEST(Npy, SurvivesTruncationAndMutationAndPiecesOfAnySize) {
  const std::string file =
      npy("{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }\n", "aabbccddeeff");
  expect_truncation_is_safe(array(ArrayFormat::kNpy), file);
  expect_mutations_are_safe(array(ArrayFormat::kNpy), file, "{}(),:'0123456789 <>|uifb", 500, 7);
}

// ---- IDX

std::string idx(char type, std::initializer_list<std::uint32_t> shape, const std::string& data) {
  return std::string("\0\0", 2) + type + static_cast<char>(shape.size()) +
         raw<std::uint32_t>(shape, true) + data;
}

TEST(Idx, ReadsEveryType) {
  const MakeParser make = array(ArrayFormat::kIdx);
  EXPECT_EQ(outcome_of(make, idx(8, {2, 1, 2}, "abcd")), "[97 98]\n[99 100]\n");
  EXPECT_EQ(outcome_of(make, idx(9, {2}, "\xff\x01")), "-1\n1\n");
  EXPECT_EQ(outcome_of(make, idx(0xb, {2}, raw<std::int16_t>({-2, 3}, true))), "-2\n3\n");
  EXPECT_EQ(outcome_of(make, idx(0xc, {1}, raw<std::int32_t>({-70000}, true))), "-70000\n");
  EXPECT_EQ(outcome_of(make, idx(0xd, {1}, raw<float>({0.5f}, true))), "0.5\n");
  EXPECT_EQ(outcome_of(make, idx(0xe, {1}, raw<double>({0.25}, true))), "0.25\n");
}

TEST(Idx, RefusesWhatItCannotReadAndSaysWhy) {
  const MakeParser make = array(ArrayFormat::kIdx);
  EXPECT_EQ(outcome_of(make, idx(7, {1}, "a")), "!@0:3 idx: elements of type 7\n");
  EXPECT_EQ(outcome_of(make, "abcd"), "!@0:1 idx: not the magic bytes\n");
  EXPECT_EQ(outcome_of(make, idx(8, {}, "")), "!@0:4 an array without dimensions has no records\n");
  EXPECT_EQ(outcome_of(make, idx(8, {1}, "ab")), "97\n!@9:1 bytes after the last row\n");
  EXPECT_EQ(outcome_of(make, idx(8, {2, 2}, "abc")),
            "[97 98]\n!@14:2 the file ends within row 2; its header says 2\n");
  expect_truncation_is_safe(make, idx(0xb, {3, 2}, "aabbccddeeff"));
  expect_mutations_are_safe(make, idx(0xb, {3, 2}, "aabbccddeeff"), {"\0\x01\x02\x08\x0b", 5}, 500,
                            8);
}

// ---- token files

TEST(TokenFile, CutsSequencesOfOneLength) {
  TokenOptions options;
  options.sequence_length = 2;
  const std::string file = raw<std::uint16_t>({1, 2, 3, 4, 65535});
  EXPECT_EQ(outcome_of(tokens(options), file), "[1 2]\n[3 4]\n");
  options.tail = TokenOptions::Tail::kPad;
  options.padding = 9;
  EXPECT_EQ(outcome_of(tokens(options), file), "[1 2]\n[3 4]\n[65535 9]\n");
  options.tail = TokenOptions::Tail::kFail;
  EXPECT_EQ(outcome_of(tokens(options), file),
            "[1 2]\n[3 4]\n!@8:1 the last sequence has 1 of 2 tokens\n");
  EXPECT_EQ(outcome_of(tokens(options), file.substr(0, 8)), "[1 2]\n[3 4]\n");
  EXPECT_EQ(outcome_of(tokens(options), file.substr(0, 9)),
            "[1 2]\n[3 4]\n!@8:1 the file ends within a token\n");
  EXPECT_EQ(outcome_of(tokens(options), ""), "");
}

TEST(TokenFile, CutsDocumentsAtTheSeparator) {
  TokenOptions options;
  options.type = TokenOptions::Type::kI32;
  options.separator = 0;
  const std::string file = raw<std::int32_t>({5, 6, 0, 0, 7, 0, 8});
  EXPECT_EQ(outcome_of(tokens(options), file), "[5 6 0]\n[0]\n[7 0]\n");
  options.tail = TokenOptions::Tail::kPad;
  EXPECT_EQ(outcome_of(tokens(options), file), "[5 6 0]\n[0]\n[7 0]\n[8]\n");
  options.document_tokens_max = 2;
  EXPECT_EQ(outcome_of(tokens(options), file),
            "[0]\n[7 0]\n[8]\n@0:1 a document of more than 2 tokens\n");
}

TEST(TokenFile, RefusesAnIdOutsideTheVocabulary) {
  TokenOptions options;
  options.type = TokenOptions::Type::kU32;
  options.sequence_length = 2;
  options.vocabulary = 100;
  EXPECT_EQ(outcome_of(tokens(options), raw<std::uint32_t>({1, 2, 3, 100, 5, 99})),
            "[1 2]\n[5 99]\n@8:5 token 100 is outside the vocabulary of 100\n");
  options.type = TokenOptions::Type::kI32;
  EXPECT_EQ(outcome_of(tokens(options), raw<std::int32_t>({-1, 2})),
            "@0:1 token -1 is outside the vocabulary of 100\n");
  options.padding = 100;
  options.tail = TokenOptions::Tail::kPad;
  EXPECT_FALSE(TokenParser::make(options));
  options.sequence_length = 1u << 25;
  EXPECT_FALSE(TokenParser::make(options));
}

TEST(TokenFile, SurvivesMutationAndPiecesOfAnySize) {
  const std::string file = raw<std::uint16_t>({1, 2, 0, 4, 5, 0, 9, 9, 9, 9, 9, 0, 3});
  TokenOptions options;
  options.vocabulary = 300;
  options.document_tokens_max = 4;
  expect_mutations_are_safe(tokens(options), file, {"\0\x01", 2}, 300, 9);
  options.sequence_length = 3;
  options.tail = TokenOptions::Tail::kPad;
  expect_mutations_are_safe(tokens(options), file, {"\0\x01", 2}, 300, 10);
}

}  // namespace
}  // namespace dlrun::io
