// Files that Python's csv, json, struct, numpy, gzip, bz2 and lzma wrote, and what they read of
// them (oracle.py). Needs $DLRUN_PYTHON with numpy.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "io/core/array_file.h"
#include "io/core/record_io.h"
#include "io/core/tf_record.h"
#include "io/core/token_file.h"
#include "io/source/byte_stream.h"
#include "tests/io/table_helper.h"

extern char** environ;

namespace dlrun::io {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class Oracle : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* python = std::getenv("DLRUN_PYTHON");
    if (python == nullptr) GTEST_SKIP() << "DLRUN_PYTHON is not set: no interpreter with numpy";
    python_ = python;
    std::string pattern = (fs::temp_directory_path() / "dlrun-oracle-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override {
    if (!dir_.empty()) fs::remove_all(dir_);
  }
  void make(const std::string& format, int seed) {
    const std::string script = std::string(std::getenv("DLRUN_SOURCE_DIR")) + "/tests/io/oracle.py";
    std::vector<std::string> args{python_, script, format, std::to_string(seed), dir_.string()};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    ASSERT_EQ(::posix_spawn(&pid, python_.c_str(), nullptr, nullptr, argv.data(), environ), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0) << "oracle.py " << format << ' ' << seed;
  }
  std::string python_;
  fs::path dir_;
};

std::string rows(const Table& table) {
  std::string out;
  for (std::size_t row = 0; row < table.rows; ++row) {
    std::string text;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const Column& column = table.columns[c];
      std::size_t begin = row * static_cast<std::size_t>(column.width);
      std::size_t end = begin + static_cast<std::size_t>(column.width);
      if (column.width == 0) {
        begin = row == 0 ? 0 : static_cast<std::size_t>(column.row_ends[row - 1]);
        end = static_cast<std::size_t>(column.row_ends[row]);
      }
      if (c != 0) text += '\x1f';
      if (column.width != 1) text += '[';
      for (std::size_t i = begin; i < end; ++i)
        text += (i > begin ? " " : "") + value_text(column, i);
      if (column.width != 1) text += ']';
    }
    out += text + '\x1e';
  }
  return out;
}

std::unique_ptr<TableParser> parser_of(const std::string& format) {
  if (format == "csv" || format == "tsv") {
    CsvOptions options;
    options.delimiter = format == "tsv" ? '\t' : ',';
    options.newlines_in_quotes = true;
    return csv_of({field("id", FieldType::kInt64), field("x", FieldType::kFloat32),
                   field("s", FieldType::kText, true)},
                  options)();
  }
  if (format == "json")
    return json_of({field("id", FieldType::kInt64), field("user.name", FieldType::kText),
                    field("x", FieldType::kFloat64), field("tags", FieldType::kText, false, 0),
                    field("ok", FieldType::kBoolean)})();
  if (format == "tfrecord")
    return std::make_unique<TfRecordParser>(std::make_unique<RawDecoder>(), 1 << 20);
  if (format == "recordio")
    return std::make_unique<RecordIoParser>(std::make_unique<RawDecoder>(), 1 << 20);
  if (format == "npy") return std::make_unique<ArrayParser>(ArrayFormat::kNpy);
  if (format == "idx") return std::make_unique<ArrayParser>(ArrayFormat::kIdx);
  TokenOptions options;
  options.sequence_length = 10;
  return std::move(*TokenParser::make(options));
}

TEST_P(Oracle, ReadsWhatPythonReads) {
  const std::string format = GetParam();
  const bool many = std::getenv("DLRUN_LONG") != nullptr;
  const int seeds = (format == "npy" || format == "idx" ? 6 : 3) * (many ? 50 : 1);
  for (int seed = 0; seed < seeds; ++seed) {
    ASSERT_NO_FATAL_FAILURE(make(format, seed));
    const auto parser = parser_of(format);
    const std::string data = read_file(dir_ / "data");
    SplitMix64 rng(static_cast<std::uint64_t>(seed));
    const Outcome out = parse_with(*parser, data, [&](std::size_t at) {
      return at + 1 + static_cast<std::size_t>(rng.below(20'000));
    });
    for (const BadRecord& bad : out.bad) ADD_FAILURE() << text_of(bad);
    EXPECT_GT(out.table.rows, 0u);
    EXPECT_TRUE(rows(out.table) == read_file(dir_ / "expected")) << format << " seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, Oracle,
                         ::testing::Values("csv", "tsv", "json", "tfrecord", "recordio", "npy",
                                           "idx", "tokens"),
                         [](const auto& info) { return std::string(info.param); });

class CompressedOracle : public Oracle {};
TEST_P(CompressedOracle, DecodesWhatPythonPacked) {
  for (int seed = 0; seed < 3; ++seed) {
    ASSERT_NO_FATAL_FAILURE(make("compressed", seed));
    const std::string expected = read_file(dir_ / "expected");
    auto stream = ByteStream::open(
        std::make_unique<MemoryFile>(read_file(dir_ / (std::string("data.") + GetParam()))));
    ASSERT_TRUE(stream) << stream.error().to_string();
    EXPECT_STREQ(codec_name((*stream)->codec()), GetParam());
    std::string text(expected.size() + 1, '\0');
    const auto n = (*stream)->read(text);
    ASSERT_TRUE(n) << n.error().to_string();
    text.resize(*n);
    EXPECT_TRUE(text == expected) << GetParam() << " seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Codecs, CompressedOracle, ::testing::Values("gzip", "bzip2", "xz"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dlrun::io
