/// Every typed format through a real feeder: files in, named columns of the ring out; and what the
/// policies do with a bad record.

#include <cstring>

#include "io/core/record_io.h"
#include "io/core/tf_record.h"
#include "tests/io/feeder_fixture.h"

namespace dlrun::io {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;
using Lines = std::vector<std::string>;

template <class T>
T value_at(const ColumnView& column, std::size_t i) {
  T value;
  std::memcpy(&value, column.data.data() + i * sizeof value, sizeof value);
  return value;
}

std::string value_text(const ColumnView& column, std::size_t i) {
  std::ostringstream out;
  switch (column.type) {
    case ValueType::kUint8:
      out << int{value_at<std::uint8_t>(column, i)};
      break;
    case ValueType::kInt32:
      out << value_at<std::int32_t>(column, i);
      break;
    case ValueType::kInt64:
      out << value_at<std::int64_t>(column, i);
      break;
    case ValueType::kUint64:
      out << value_at<std::uint64_t>(column, i);
      break;
    case ValueType::kFloat32:
      out << value_at<float>(column, i);
      break;
    case ValueType::kFloat64:
      out << value_at<double>(column, i);
      break;
    case ValueType::kBytes:
      out.write(reinterpret_cast<const char*>(column.data.data()) + column.value_offsets[i],
                column.value_offsets[i + 1] - column.value_offsets[i]);
  }
  return out.str();
}

/// Values with '|' between columns, lists in brackets, '-' for what is missing.
std::string row_text(const BatchView& view, std::size_t row) {
  std::string out;
  for (const ColumnView& column : view.columns) {
    if (&column != &view.columns[0]) out += '|';
    if (!column.valid.empty() && column.valid[row] == 0) {
      out += '-';
      continue;
    }
    const auto width = static_cast<std::size_t>(column.width);
    const auto begin = width != 0 ? row * width : static_cast<std::size_t>(column.row_offsets[row]);
    const auto end =
        width != 0 ? begin + width : static_cast<std::size_t>(column.row_offsets[row + 1]);
    if (width != 1) out += '[';
    for (std::size_t i = begin; i < end; ++i) out += (i > begin ? " " : "") + value_text(column, i);
    if (width != 1) out += ']';
  }
  return out;
}

FieldSpec column(std::string name, FieldType type, bool may_miss = false, std::uint64_t width = 1) {
  FieldSpec field;
  field.name = std::move(name);
  field.type = type;
  field.may_miss = may_miss;
  field.width = width;
  return field;
}

class FeederFormats : public FeederTest {
 protected:
  struct Got {
    Lines rows;   ///< sorted
    Lines names;  ///< of the columns of the last batch
    Error end;
    std::uint64_t batches = 0;
  };
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / "data" / name, std::ios::binary) << bytes;
  }
  void take(std::uint8_t n, Got& got) {
    auto reader = attach(n);
    if (!reader) {
      got.end = reader.error();
      return;
    }
    for (;;) {
      const auto view = (*reader)->next(20s);
      if (!view) {
        got.end = view.error();
        return;
      }
      if (view->pass_ended) continue;
      EXPECT_EQ(view->kind, BatchKind::kTable);
      EXPECT_TRUE(view->labels.empty());
      got.names.clear();
      for (const ColumnView& c : view->columns) got.names.emplace_back(c.name);
      for (std::size_t row = 0; row < view->rows; ++row) got.rows.push_back(row_text(*view, row));
      ++got.batches;
      (*reader)->release(*view);
    }
  }
  /// What two consumers get together; the ends must agree.
  Got read() {
    start();
    admit(1);
    admit(2);
    Got one, two;
    std::thread other([&] { take(2, two); });
    take(1, one);
    other.join();
    one.rows.insert(one.rows.end(), two.rows.begin(), two.rows.end());
    std::sort(one.rows.begin(), one.rows.end());
    if (one.names.empty()) one.names = two.names;
    if (one.end.code == Errc::kEndOfData) one.end = two.end;
    one.batches += two.batches;
    return one;
  }
  /// Reads on without a second consumer, so that counts of bad records are one consumer's.
  Got read_alone() {
    start();
    admit(1);
    Got got;
    take(1, got);
    std::sort(got.rows.begin(), got.rows.end());
    return got;
  }
  static void expect_all(const Got& got, Lines rows) {
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(got.end.code, Errc::kEndOfData) << got.end.to_string();
    EXPECT_EQ(got.rows, rows);
  }
};

TEST_F(FeederFormats, CsvWithTypesHashesDictionariesAndMissingValuesInManySplits) {
  spec_.format = Format::kTable;
  spec_.header = true;
  spec_.columns = {column("id", FieldType::kInt64),   column("price", FieldType::kFloat32, true),
                   column("name", FieldType::kText),  column("color", FieldType::kDictionary),
                   column("on", FieldType::kBoolean), column("city", FieldType::kHashed)};
  spec_.columns[3].dictionary = {"red", "green"};
  spec_.columns[5].buckets = 1;
  spec_.missing = {"", "NA"};
  Lines want;
  for (int file = 0; file < 2; ++file) {
    std::string text = "id,price,name,color,on,city\r\n";
    for (int i = 0; i < 150; ++i) {
      const std::string id = std::to_string(file * 1000 + i);
      text += id + (i % 3 == 0 ? ",NA" : ",0.5") + ",\"a \"\"" + id + "\"\", b\"," +
              (i % 2 == 0 ? "red" : "green") + (i % 5 == 0 ? ",true" : ",0") + ",Rome\r\n";
      want.push_back(id + (i % 3 == 0 ? "|-" : "|0.5") + "|a \"" + id + "\", b|" +
                     (i % 2 == 0 ? "0" : "1") + (i % 5 == 0 ? "|1" : "|0") + "|0");
    }
    write("part-" + std::to_string(file) + ".csv", text);
  }
  const Got got = read();
  expect_all(got, want);
  EXPECT_THAT(got.names, ElementsAre("id", "price", "name", "color", "on", "city"));
}

TEST_F(FeederFormats, CsvWhoseTypesAreInferredFromTheFirstRecordsAndThenFixed) {
  spec_.format = Format::kTable;
  spec_.delimiter = '\t';
  spec_.header = true;
  write("a.tsv", "n\tx\ts\n1\t0.5\tu\n-2\t1e3\t7\n");
  write("b.tsv", "n\tx\ts\n3\t2\tw\n");
  expect_all(read(), {"1|0.5|u", "-2|1000|7", "3|2|w"});
  feeder_.reset();
  write("c.tsv", "n\tx\ts\n4.5\t2\tw\n");
  const Got got = read();
  EXPECT_THAT(got.end.context, HasSubstr("c.tsv: offset 6, line 2, column 1: field 'n': '4.5' "
                                         "is no int64"));
  EXPECT_THAT(got.end.context, HasSubstr("the type is inferred"));
}

TEST_F(FeederFormats, CsvWithNewlinesInQuotesIsOneSplitAFile) {
  spec_.format = Format::kTable;
  spec_.newlines_in_quotes = true;
  spec_.columns = {column("id", FieldType::kInt64), column("text", FieldType::kText)};
  Lines want;
  for (int file = 0; file < 3; ++file) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      const std::string id = std::to_string(100 * file + i);
      text += id + ",\"line\n" + id + ",\r\nmore\"\n";
      want.push_back(id + "|line\n" + id + ",\r\nmore");
    }
    write("q" + std::to_string(file), text);
  }
  expect_all(read(), want);
}

TEST_F(FeederFormats, JsonLinesWithPathsAndListsPlainAndCompressed) {
  spec_.format = Format::kJsonLines;
  spec_.columns = {column("user.id", FieldType::kInt64), column("tags", FieldType::kText, true, 0),
                   column("pair", FieldType::kFloat64, false, 2)};
  Lines want;
  for (int file = 0; file < 2; ++file) {
    std::string text;
    for (int i = 0; i < 80; ++i) {
      const std::string id = std::to_string(1000 * file + i);
      text += "{\"pair\": [" + id + ", 0.25], \"user\": {\"id\": " + id + "}";
      if (i % 4 != 0) text += ", \"tags\": [\"t\\u0041" + id + "\", \"\"]";
      text += "}\n";
      want.push_back(id + (i % 4 != 0 ? "|[tA" + id + " ]" : "|-") + "|[" + id + " 0.25]");
    }
    write("part-" + std::to_string(file), text);
  }
  pack("part-1", "part-1.gz");
  expect_all(read(), want);
}

TEST_F(FeederFormats, TfRecordsGiveTheirPayloads) {
  spec_.format = Format::kTfRecord;
  std::string bytes;
  Lines want;
  for (int i = 0; i < 100; ++i) {
    want.push_back("payload " + std::to_string(i) + std::string(static_cast<std::size_t>(i), 'x'));
    bytes += tf_frame(want.back());
  }
  write("a", bytes);
  write("empty", "");
  const Got got = read();
  expect_all(got, want);
  EXPECT_THAT(got.names, ElementsAre("record"));
}

/// A length-delimited field of a protobuf message shorter than 128 bytes.
std::string field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         std::string(1, static_cast<char>(bytes.size())) + bytes;
}
std::string example(const std::string& name, int label, const std::vector<float>& values) {
  std::string floats(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(floats.data(), values.data(), floats.size());
  const auto feature = [](const std::string& key, const std::string& list) {
    return field(1, field(1, key) + field(2, list));
  };
  return field(1,
               feature("name", field(1, field(1, name))) +
                   feature("label", field(3, field(1, std::string(1, static_cast<char>(label))))) +
                   feature("x", field(2, field(1, floats))));
}

TEST_F(FeederFormats, TfExamplesGiveTheirFeaturesDeclaredOrInferred) {
  spec_.format = Format::kTfExample;
  Lines want;
  for (int file = 0; file < 2; ++file) {
    std::string bytes;
    for (int i = 0; i < 50; ++i) {
      const std::string name = std::to_string(file) + "." + std::to_string(i);
      bytes +=
          tf_frame(example(name, i, std::vector<float>(static_cast<std::size_t>(i % 3), 1.5f)));
      want.push_back(std::to_string(i) + "|" + name + "|[" +
                     (i % 3 == 0   ? ""
                      : i % 3 == 1 ? "1.5"
                                   : "1.5 1.5") +
                     "]");
    }
    write("part-" + std::to_string(file) + ".tfrecord", bytes);
  }
  const Got got = read();
  expect_all(got, want);
  EXPECT_THAT(got.names, ElementsAre("label", "name", "x"));
  feeder_.reset();
  spec_.columns = {column("label", FieldType::kInt64), column("name", FieldType::kText),
                   column("x", FieldType::kFloat32, false, 0)};
  expect_all(read(), want);
}

TEST_F(FeederFormats, RecordIoGivesItsPayloads) {
  spec_.format = Format::kRecordIo;
  std::string bytes;
  Lines want;
  for (int i = 0; i < 100; ++i) {
    want.push_back(std::to_string(i) + std::string(static_cast<std::size_t>(i % 7), 'y'));
    bytes += record_io_frame(want.back());
  }
  write("a.rec", bytes);
  expect_all(read(), want);
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  dict.resize((10 + dict.size() + 64) / 64 * 64 - 11, ' ');
  dict += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size() & 255) +
         static_cast<char>(dict.size() >> 8) + dict + data;
}

TEST_F(FeederFormats, NpyGivesARowForEachOfTheFirstDimension) {
  spec_.format = Format::kNpy;
  Lines want;
  for (int file = 0; file < 2; ++file) {
    std::string data;
    for (int row = 0; row < 120; ++row)
      for (int i = 0; i < 3; ++i) {
        const float value = static_cast<float>(1000 * file + row) + 0.25f * static_cast<float>(i);
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
        if (i == 0) want.push_back("[" + std::to_string(1000 * file + row));
        if (i > 0) {
          std::ostringstream text;
          text << value;
          want.back() += " " + text.str() + (i == 2 ? "]" : "");
        }
      }
    write("part-" + std::to_string(file) + ".npy", npy("<f4", "(120, 3)", data));
  }
  const Got got = read();
  expect_all(got, want);
  EXPECT_THAT(got.names, ElementsAre("values"));
}

TEST_F(FeederFormats, ARowOfNpyMayBeLargerThanASmallSlot) {
  spec_.format = Format::kNpy;
  const std::size_t width = 3u << 20;  // 3 MiB; a slot has 1 MiB where rows are small
  write("big.npy", npy("|u1", "(2, " + std::to_string(width) + ")",
                       std::string(width, 1) + std::string(width, 2)));
  start();
  admit(1);
  const auto reader = attach(1);
  ASSERT_TRUE(reader) << reader.error().to_string();
  std::multiset<int> seen;
  for (;;) {
    const auto view = (*reader)->next(20s);
    if (!view) {
      EXPECT_EQ(view.error().code, Errc::kEndOfData) << view.error().to_string();
      break;
    }
    if (view->pass_ended) continue;
    ASSERT_EQ(view->columns.size(), 1u);
    EXPECT_EQ(view->columns[0].data.size(), view->rows * width);
    for (std::size_t row = 0; row < view->rows; ++row) {
      const auto* begin = view->columns[0].data.data() + row * width;
      EXPECT_EQ(std::count(begin, begin + width, begin[0]), static_cast<std::ptrdiff_t>(width));
      seen.insert(static_cast<int>(begin[0]));
    }
    (*reader)->release(*view);
  }
  EXPECT_EQ(seen, (std::multiset<int>{1, 2}));
}

TEST_F(FeederFormats, IdxGivesARowForEachOfTheFirstDimension) {
  spec_.format = Format::kIdx;
  write("images",
        std::string("\x00\x00\x08\x03\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x02", 16) +
            "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c");
  expect_all(read(), {"[1 2 3 4]", "[5 6 7 8]", "[9 10 11 12]"});
}

TEST_F(FeederFormats, TokenFilesGiveSequencesOrDocuments) {
  spec_.format = Format::kTokens;
  std::string bytes;
  for (const int token : {5, 6, 0, 7, 8, 9, 0, 3}) {
    bytes += static_cast<char>(token);
    bytes += '\0';
  }
  write("tokens.bin", bytes);
  spec_.tokens.sequence_length = 3;
  spec_.tokens.tail = TokenOptions::Tail::kPad;
  expect_all(read(), {"[5 6 0]", "[7 8 9]", "[0 3 0]"});
  feeder_.reset();
  spec_.tokens.sequence_length = 0;
  expect_all(read(), {"[5 6 0]", "[7 8 9 0]", "[3]"});
}

TEST_F(FeederFormats, FilesOfRowsOfOneLengthAreCutAnywhereAndEveryRowIsReadOnce) {
  std::string data, tokens;
  Lines rows, sequences;
  for (int row = 0; row < 300; ++row) {
    const std::int64_t values[3] = {row, -row, 7};
    data.append(reinterpret_cast<const char*>(values), sizeof values);
    rows.push_back("[" + std::to_string(row) + " -" + std::to_string(row) + " 7]");
    if (row == 0) rows.back() = "[0 0 7]";
    for (const int token : {row % 256, 1}) tokens.append({static_cast<char>(token), '\0'});
    sequences.push_back("[" + std::to_string(row % 256) + " 1]");
  }
  for (const std::uint64_t bytes : {7u, 23u, 24u, 25u, 77u, 4096u}) {
    SCOPED_TRACE(bytes);
    spec_.split_bytes = bytes;
    spec_.format = Format::kNpy;
    fs::remove(dir_ / "data" / "tokens");
    write("rows.npy", npy("<i8", "(300, 3)", data));
    expect_all(read(), rows);
    feeder_.reset();
    fs::remove(dir_ / "data" / "rows.npy");
    spec_.format = Format::kTokens;
    spec_.tokens.sequence_length = 2;
    write("tokens", tokens);
    expect_all(read(), sequences);
    feeder_.reset();
  }
}

TEST_F(FeederFormats, WhatIsWrongWithAnArrayFileThatIsCutIsToldOnce) {
  spec_.format = Format::kNpy;
  spec_.split_bytes = 64;
  spec_.on_bad_record = OnBadRecord::kSkip;
  spec_.bad_records_max = 1;
  const std::string data(300, '\1');
  write("a.npy", npy("|u1", "(300,)", data));
  Lines rows(300, "1");
  for (const std::string& odd :
       {npy("|u1", "(299,)", data), npy("|u1", "(301,)", data), npy("<f4", "(75,)", data),
        std::string(data), std::string("\x93NUMPY")}) {
    write("b.npy", odd);
    const Got got = read_alone();
    EXPECT_EQ(got.end.code, Errc::kEndOfData) << got.end.to_string();
    EXPECT_GE(got.rows.size(), 300u);
    feeder_.reset();
    spec_.bad_records_max = 0;
    EXPECT_THAT(read_alone().end.context, HasSubstr("b.npy: offset "));
    feeder_.reset();
    spec_.bad_records_max = 1;
  }
  write("b.npy", npy("|u1", "(300,)", data));
  pack("b.npy", "c.npy.gz");
  rows.insert(rows.end(), 300, "1");
  expect_all(read(), rows);
}

TEST_F(FeederFormats, ABadRecordEndsTheInputAndNamesUriOffsetLineColumnAndReason) {
  spec_.format = Format::kTable;
  spec_.shuffle = false;
  spec_.columns = {column("a", FieldType::kInt64), column("b", FieldType::kInt64)};
  write("x.csv", "1,2\n3,4\n5,six\n7,8\n");
  const Got got = read_alone();
  EXPECT_EQ(got.end.code, Errc::kInvalidArgument);
  EXPECT_THAT(got.end.context, HasSubstr("/data/x.csv: offset 8, line 3, column 3: field 'b': "
                                         "'six' is no int64"));
}

TEST_F(FeederFormats, SkipsAtMostAsManyBadRecordsOfATypedFormatAsTheJobAllows) {
  spec_.format = Format::kJsonLines;
  spec_.columns = {column("a", FieldType::kInt64)};
  spec_.on_bad_record = OnBadRecord::kSkip;
  spec_.bad_records_max = 2;
  write("x.jsonl", "{\"a\": 1}\n{\"a\": }\n{\"a\": 2}\nnull\n{\"a\": 3}\n");
  expect_all(read_alone(), {"1", "2", "3"});
  feeder_.reset();
  spec_.bad_records_max = 1;
  const Got got = read_alone();
  EXPECT_THAT(got.end.context, HasSubstr("x.jsonl: offset 26, line 4, column 1"));
  EXPECT_THAT(got.end.context, HasSubstr("more than 1 bad records, which the job allows"));
}

TEST_F(FeederFormats, AFlippedBitOfATfRecordIsABadRecordWithItsPlaceAndTheNextIsRead) {
  spec_.format = Format::kTfRecord;
  std::string bytes = tf_frame("one") + tf_frame("two") + tf_frame("three");
  bytes[tf_frame("one").size() + kTfHeaderBytes] ^= 1;
  write("a", bytes);
  const Got failed = read_alone();
  EXPECT_THAT(failed.end.context, HasSubstr("/data/a: offset 19, line 2, column"));
  feeder_.reset();
  spec_.on_bad_record = OnBadRecord::kSkip;
  spec_.bad_records_max = 1;
  expect_all(read_alone(), {"one", "three"});
}

TEST_F(FeederFormats, AQuarantineKeepsBadRecordsOfEveryKindOfReader) {
  const std::string path = (dir_ / "bad.jsonl").string();
  spec_.on_bad_record = OnBadRecord::kQuarantine;
  spec_.quarantine = path;
  const auto kept = [&] {
    Lines lines;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    fs::remove(path);
    return lines;
  };
  spec_.format = Format::kTable;
  spec_.columns = {column("a", FieldType::kInt64)};
  write("x", "1\nz\n2\n");
  expect_all(read_alone(), {"1", "2"});
  EXPECT_THAT(kept(), ElementsAre(HasSubstr("/data/x\", \"offset\": 2, \"line\": 2, \"column\": 1, "
                                            "\"reason\": \"field 'a': 'z' is no int64")));
  feeder_.reset();
  spec_.format = Format::kTfRecord;
  spec_.columns.clear();
  write("x", tf_frame("one") + std::string("cut"));
  expect_all(read_alone(), {"one"});
  EXPECT_THAT(kept(), ElementsAre(HasSubstr("/data/x\", \"offset\": 19, \"line\": 2")));
  feeder_.reset();
  spec_.format = Format::kLibsvm;
  write("x", "0 0:1 1000000:0.5\n0 3:x\n");
  start();
  admit(1);
  EXPECT_EQ(read_all(1).end.code, Errc::kEndOfData);
  EXPECT_THAT(kept(), ElementsAre(HasSubstr("\"offset\": 18, \"line\": 2, \"column\": 5")));
  feeder_.reset();
  spec_.quarantine = (dir_ / "none" / "bad.jsonl").string();
  start();
  admit(1);
  const auto reader = attach(1);
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().context, HasSubstr(spec_.quarantine));
}

TEST_F(FeederFormats, ARecordThatIsTooLongIsBadAndTheNextIsRead) {
  spec_.record_bytes_max = 1000;
  spec_.on_bad_record = OnBadRecord::kSkip;
  spec_.bad_records_max = 1;
  spec_.split_bytes = 1u << 20;
  spec_.format = Format::kTable;
  spec_.columns = {column("a", FieldType::kText)};
  const std::string fits(1000, 'f');
  write("x", "1\n" + std::string(600'000, 'x') + "\n" + fits + "\n");
  expect_all(read_alone(), {"1", fits});
  feeder_.reset();
  spec_.format = Format::kRecordIo;
  spec_.columns.clear();
  write("x",
        record_io_frame("1") + record_io_frame(std::string(5000, 'x')) + record_io_frame(fits));
  expect_all(read_alone(), {"1", fits});
}

TEST_F(FeederFormats, AttachSaysWhyColumnsCannotBeKnown) {
  spec_.format = Format::kTable;
  write("x", "1,2\n3\n");
  start();
  admit(1);
  const auto reader = attach(1);
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().context, HasSubstr("/data/x: types cannot be inferred"));
  EXPECT_THAT(reader.error().context, HasSubstr("offset 4, column 1: 1 fields"));
  feeder_.reset();
  spec_.format = Format::kNpy;
  start();
  admit(1);
  EXPECT_FALSE(attach(1));
}

TEST_F(FeederFormats, EmptyFilesGiveNoRowsAndTheEnd) {
  spec_.format = Format::kJsonLines;
  write("x", "");
  const Got got = read();
  EXPECT_EQ(got.end.code, Errc::kEndOfData) << got.end.to_string();
  EXPECT_THAT(got.rows, IsEmpty());
}

TEST_F(FeederFormats, RowsKeepTheirOrderWithoutShuffleAndAreShuffledBySeedWithIt) {
  spec_.format = Format::kTable;
  spec_.columns = {column("a", FieldType::kInt64), column("t", FieldType::kText)};
  spec_.split_bytes = 1u << 20;
  spec_.shuffle = false;
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::to_string(i) + ",t" + std::to_string(i) + "\n";
  write("x", text);
  const auto order = [&] {
    start();
    admit(1);
    Got got;
    take(1, got);
    feeder_.reset();
    return got.rows;
  };
  Lines plain;
  for (int i = 0; i < 500; ++i) plain.push_back(std::to_string(i) + "|t" + std::to_string(i));
  EXPECT_EQ(order(), plain);
  spec_.shuffle = true;
  const Lines shuffled = order();
  EXPECT_NE(shuffled, plain);
  EXPECT_THAT(shuffled, UnorderedElementsAreArray(plain));
  EXPECT_EQ(order(), shuffled);
}

}  // namespace
}  // namespace dlrun::io
