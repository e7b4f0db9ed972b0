// Public data sets, when $DLRUN_DATA_DIR has them: counted by the parsers and by a few lines of
// plain C++.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "io/core/array_file.h"
#include "io/core/csv.h"
#include "io/core/record_parser.h"
#include "io/source/local_source.h"
#include "io/source/split_reader.h"
#include "io/source/table_reader.h"

namespace dlrun::io {
namespace {

namespace fs = std::filesystem;

/// Rows, values, and the sums of labels, ids, fields and values: enough to tell one file from
/// another.
struct Sums {
  std::uint64_t rows = 0, entries = 0, ids = 0, fields = 0;
  double labels = 0, values = 0;
};

Sums parsed(const fs::path& path, const InputSpec& spec, std::uint64_t split_bytes) {
  LocalSource source;
  const FileEntry file = source.list({path.string()}, 1).value().at(0);
  const RecordParser parser(spec);
  Sums sums;
  for (std::uint64_t begin = 0; begin < file.size_bytes; begin += split_bytes) {
    const std::uint64_t end = std::min(begin + split_bytes, file.size_bytes);
    auto reader = SplitReader::open(source, {0, 0, file.uri, file.etag, begin, end}, {}).value();
    RecordBlock block;
    parser.prepare(block);
    while (auto chunk = reader->next().value()) {
      const ParseProgress progress = parser.parse(chunk->text, chunk->offset, block);
      EXPECT_FALSE(progress.bad) << describe(file.uri, 0, *progress.bad);
      if (progress.bad) return sums;
    }
    sums.rows += block.rows();
    sums.entries += block.values.size();
    for (const float label : block.labels) sums.labels += label;
    for (const float value : block.values) sums.values += value;
    for (const std::uint64_t id : block.ids) sums.ids += id;
    for (const std::uint32_t field : block.fields) sums.fields += field;
  }
  return sums;
}

Sums plain(const fs::path& path, int parts) {
  std::ifstream in(path);
  Sums sums;
  for (std::string line; std::getline(in, line);) {
    std::istringstream tokens(line);
    std::string token;
    tokens >> token;
    ++sums.rows;
    sums.labels += std::strtof(token.c_str(), nullptr);
    while (tokens >> token) {
      std::istringstream piece(token);
      std::string field = "0", id = "0", value;
      if (parts == 3) std::getline(piece, field, ':');
      if (parts >= 2) std::getline(piece, id, ':');
      std::getline(piece, value);
      ++sums.entries;
      sums.fields += std::stoull(field);
      sums.ids += std::stoull(id);
      sums.values += std::strtof(value.c_str(), nullptr);
    }
  }
  return sums;
}

class RealData : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* dir = std::getenv("DLRUN_DATA_DIR");
    if (dir == nullptr) GTEST_SKIP() << "DLRUN_DATA_DIR is not set: no public data sets here";
    dir_ = dir;
  }
  void compare(const fs::path& name, const InputSpec& spec, int parts, std::uint64_t rows) {
    const fs::path path = dir_ / name;
    if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
    const Sums expected = plain(path, parts);
    EXPECT_EQ(expected.rows, rows);
    for (const std::uint64_t split_bytes : {1ull << 30, 100'000ull, 777ull}) {
      const Sums sums = parsed(path, spec, split_bytes);
      EXPECT_EQ(sums.rows, rows);
      EXPECT_EQ(sums.entries, expected.entries);
      EXPECT_EQ(sums.ids, expected.ids);
      EXPECT_EQ(sums.fields, expected.fields);
      EXPECT_EQ(sums.labels, expected.labels);
      EXPECT_NEAR(sums.values, expected.values, 1e-6 * std::abs(expected.values) + 1e-6);
    }
  }
  fs::path dir_;
};

/// A whole file of a typed format, through TableReader.
Table table_of(const fs::path& path, std::unique_ptr<TableParser> parser) {
  LocalSource source;
  const FileEntry file = source.list({path.string()}, 1).value().at(0);
  auto stream = ByteStream::open(source.open(file.uri, file.etag).value()).value();
  Table table;
  parser->prepare(table);
  BadRecordPolicy policy(BadRecordAction::kFail, 0);
  TableReader reader(file.uri, std::move(stream), std::move(parser), policy);
  for (;;) {
    const auto more = reader.read(table);
    EXPECT_TRUE(more) << more.error().to_string();
    if (!more || !*more) return table;
  }
}

TEST_F(RealData, MnistInCompressedIdx) {
  const fs::path images = dir_ / "mnist" / "t10k-images-idx3-ubyte.gz";
  const fs::path labels = dir_ / "mnist" / "t10k-labels-idx1-ubyte.gz";
  if (!fs::exists(images) || !fs::exists(labels)) GTEST_SKIP() << images << " is not there";
  const Table digits = table_of(labels, std::make_unique<ArrayParser>(ArrayFormat::kIdx));
  std::vector<int> counts(10);
  for (const std::uint8_t digit : digits.columns[0].as<std::uint8_t>()) ++counts.at(digit);
  // As published with the set.
  EXPECT_EQ(counts, (std::vector<int>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}));
  const Table pixels = table_of(images, std::make_unique<ArrayParser>(ArrayFormat::kIdx));
  EXPECT_EQ(pixels.rows, 10000u);
  EXPECT_EQ(pixels.columns[0].width, 784u);
  std::uint64_t sum = 0;
  for (const std::uint8_t pixel : pixels.columns[0].as<std::uint8_t>()) sum += pixel;
  std::uint64_t expected = 0;
  const gzFile in = ::gzopen(images.c_str(), "rb");
  ASSERT_NE(in, nullptr);
  ASSERT_EQ(::gzseek(in, 16, SEEK_SET), 16);
  std::vector<unsigned char> block(1 << 16);
  for (int n = 0; (n = ::gzread(in, block.data(), 1 << 16)) > 0;)
    for (int i = 0; i < n; ++i) expected += block[static_cast<std::size_t>(i)];
  ::gzclose(in);
  EXPECT_EQ(sum, expected);
}

TEST_F(RealData, IrisInCsvWithInferredTypes) {
  const fs::path path = dir_ / "iris" / "iris_training.csv";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  CsvOptions options;
  options.header = true;
  const auto schema = infer_csv(text.substr(0, 1000), false, options);
  ASSERT_TRUE(schema) << schema.error().to_string();
  ASSERT_EQ(schema->size(), 5u);
  EXPECT_EQ((*schema)[2].name, "setosa");
  EXPECT_EQ((*schema)[2].type, FieldType::kFloat32);
  EXPECT_EQ((*schema)[4].type, FieldType::kInt64);
  const Table table = table_of(path, CsvParser::make(*schema, options).value());
  EXPECT_EQ(table.rows, 120u);  // as its header says
  std::vector<double> sums(5), expected(5);
  for (std::size_t c = 0; c < 4; ++c)
    for (const float value : table.columns[c].as<float>()) sums[c] += static_cast<double>(value);
  for (const std::int64_t value : table.columns[4].as<std::int64_t>())
    sums[4] += static_cast<double>(value);
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::string cell;
    for (std::size_t c = 0; std::getline(cells, cell, ','); ++c)
      expected.at(c) += static_cast<double>(std::strtof(cell.c_str(), nullptr));
  }
  EXPECT_EQ(sums, expected);
}

TEST_F(RealData, AgaricusInLibsvm) {
  InputSpec spec;
  spec.format = Format::kLibsvm;
  compare("agaricus/train.libsvm", spec, 2, 6513);
  compare("agaricus/test.libsvm", spec, 2, 1611);
}

TEST_F(RealData, ClicksInLibffm) {
  InputSpec spec;
  spec.format = Format::kLibffm;
  compare("ctr/train-00000.libffm", spec, 3, 200);
}

TEST_F(RealData, HiggsInTabSeparatedColumns) {
  InputSpec spec;
  spec.format = Format::kCsv;
  spec.delimiter = '\t';
  compare("higgs/binary.train.tsv", spec, 1, 7000);
  compare("higgs/binary.test.tsv", spec, 1, 500);
}

}  // namespace
}  // namespace dlrun::io
