#include "io/source/table_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/core/tf_record.h"
#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Schema kSchema = {field("n", FieldType::kInt64), field("s", FieldType::kText)};

struct Read {
  std::string rows;
  Error error;
  bool failed = false;
  std::uint64_t bad = 0;
};
Read read(std::string bytes, const MakeParser& make, BadRecordAction action,
          std::uint64_t records_max = 0, std::unique_ptr<Quarantine> quarantine = nullptr) {
  BadRecordPolicy policy(action, records_max, std::move(quarantine));
  TableReader reader("/f", *ByteStream::open(std::make_unique<MemoryFile>(std::move(bytes))),
                     make(), policy);
  Table table;
  make()->prepare(table);
  Read out;
  for (;;) {
    const auto more = reader.read(table);
    if (!more) {
      out.failed = true;
      out.error = more.error();
    }
    if (!more || !*more) break;
  }
  out.rows = text_of(table);
  out.bad = policy.seen();
  return out;
}

std::string gzip(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned int>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<unsigned int>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

TEST(TableReader, FailEndsWithThePlaceOfTheFirstBadRecord) {
  const Read r = read("1,a\n2,b\nx,c\n4,d\n", csv_of(kSchema), BadRecordAction::kFail);
  EXPECT_TRUE(r.failed);
  EXPECT_EQ(r.error.code, Errc::kInvalidArgument);
  EXPECT_EQ(r.error.context,
            "/f: offset 8, line 3, column 1: field 'n': 'x' is no int64: not a number");
  EXPECT_EQ(r.rows, "1|a\n2|b\n");
}

TEST(TableReader, SkipPassesOverSoManyAndNoMore) {
  const std::string text = "1,a\nx,b\n3,c\ny,d\n5,e\n";
  const Read two = read(text, csv_of(kSchema), BadRecordAction::kSkip, 2);
  EXPECT_FALSE(two.failed);
  EXPECT_EQ(two.rows, "1|a\n3|c\n5|e\n");
  const Read one = read(text, csv_of(kSchema), BadRecordAction::kSkip, 1);
  EXPECT_THAT(one.error.context, HasSubstr("line 4, column 1"));
  EXPECT_THAT(one.error.context, HasSubstr("more than 1 bad records"));
  EXPECT_EQ(one.rows, "1|a\n3|c\n");
}

TEST(TableReader, CountsLinesOfTextAndRecordsOfBinaryFiles) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + ",abc\n";
  const Read late = read(text + "x,y\n", csv_of(kSchema), BadRecordAction::kFail);
  EXPECT_THAT(late.error.context,
              HasSubstr("offset " + std::to_string(text.size()) + ", line 200001, column 1"));
  const MakeParser tf = [] {
    return std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), 1 << 20);
  };
  std::string broken = tf_frame("\n\n\n");
  broken.back() = static_cast<char>(broken.back() ^ 1);
  const Read third = read(tf_frame("\n") + broken + broken, tf, BadRecordAction::kSkip, 1);
  EXPECT_THAT(third.error.context, HasSubstr("offset 36, line 3, column 13: checksum of the data"));
}

TEST(TableReader, QuarantineKeepsTheRecordAndItsPlace) {
  std::string pattern = (fs::temp_directory_path() / "dlrun-quarantine-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const fs::path path = fs::path(pattern) / "bad.jsonl";
  {
    auto quarantine = Quarantine::open(path.string(), 1 << 20);
    ASSERT_TRUE(quarantine) << quarantine.error().to_string();
    const Read r = read("1,a\nx,\"b\xff\"\n3,c\n4\n", csv_of(kSchema), BadRecordAction::kQuarantine,
                        0, std::move(*quarantine));
    EXPECT_FALSE(r.failed);
    EXPECT_EQ(r.rows, "1|a\n3|c\n");
    EXPECT_EQ(r.bad, 2u);
  }
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  std::ifstream in(path);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["uri"], "/f");
  EXPECT_EQ(first["offset"], 4);
  EXPECT_EQ(first["line"], 2);
  EXPECT_EQ(first["column"], 1);
  EXPECT_EQ(first["record"], "eCwiYv8iCg==");  // base64 of x,"b\xff"\n
  ASSERT_TRUE(std::getline(in, line));
  EXPECT_EQ(nlohmann::json::parse(line)["reason"], "1 fields; the schema has 2");
  EXPECT_FALSE(std::getline(in, line));
  // Full: the input ends, nothing is lost in silence.
  auto full = Quarantine::open(path.string(), fs::file_size(path) + 10);
  ASSERT_TRUE(full);
  const Read r = read("x,y\n", csv_of(kSchema), BadRecordAction::kQuarantine, 0, std::move(*full));
  EXPECT_TRUE(r.failed);
  EXPECT_EQ(r.error.code, Errc::kResourceExhausted);
  EXPECT_THAT(r.error.context, StartsWith("/f: offset 0, line 1, column 1: field 'n': 'x' is no"));
  EXPECT_THAT(r.error.context, HasSubstr("the quarantine is full"));
  fs::remove_all(pattern);
}

TEST(TableReader, ADamagedCompressedFileIsOneBadRecordThatTakesTheRest) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919 % 100003) + ",s\n";
  const std::string packed = gzip(text);
  EXPECT_EQ(read(packed, csv_of(kSchema), BadRecordAction::kFail).rows.size(), text.size());
  const std::string cut = packed.substr(0, packed.size() / 2);
  const Read fails = read(cut, csv_of(kSchema), BadRecordAction::kFail);
  EXPECT_THAT(fails.error.context, HasSubstr("gzip, byte " + std::to_string(cut.size()) +
                                             " of the file: the file ends too early"));
  const Read skips = read(cut, csv_of(kSchema), BadRecordAction::kSkip, 1);
  EXPECT_FALSE(skips.failed);
  EXPECT_EQ(skips.bad, 1u);
  EXPECT_GT(skips.rows.size(), text.size() / 4);
  std::string expected = text.substr(0, skips.rows.size());
  std::replace(expected.begin(), expected.end(), ',', '|');
  EXPECT_TRUE(skips.rows == expected);
}

TEST(TableReader, AFatalRecordEndsTheFileAndNotTheInput) {
  CsvOptions options;
  options.header = true;
  const Read r = read("a,b\n1,x\n", csv_of(kSchema, options), BadRecordAction::kSkip, 1);
  EXPECT_FALSE(r.failed);
  EXPECT_EQ(r.rows, "");
}

TEST(TableReader, ALongRecordGrowsTheBufferAndIsReadWhole) {
  const std::string payload(3'000'000, 'p');
  const MakeParser tf = [] {
    return std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), 4 << 20);
  };
  const Read r =
      read(tf_frame("a") + tf_frame(payload) + tf_frame("b"), tf, BadRecordAction::kFail);
  EXPECT_FALSE(r.failed) << r.error.to_string();
  EXPECT_TRUE(r.rows == "a\n" + payload + "\nb\n");
}

/// One record, the whole file; counts what it was given to look at.
class CountingParser final : public TableParser {
 public:
  explicit CountingParser(std::uint64_t& given) : given_(given) {}
  void prepare(Table& table) const override { RawDecoder().prepare(table); }
  ParseProgress parse(std::string_view bytes, std::uint64_t, bool last, Table&) override {
    given_ += bytes.size();
    return {last ? bytes.size() : 0, std::nullopt};
  }

 private:
  std::uint64_t& given_;
};

TEST(TableReader, ARecordOfManyPiecesIsLookedThroughAFewTimesNotOncePerPiece) {
  const std::uint64_t size = 16u << 20;
  std::uint64_t given = 0;
  const Read r = read(
      std::string(size, 'x'), [&] { return std::make_unique<CountingParser>(given); },
      BadRecordAction::kFail);
  EXPECT_FALSE(r.failed);
  EXPECT_GE(given, size);
  EXPECT_LE(given, 3 * size);
}

}  // namespace
}  // namespace dlrun::io
