#include "io/source/split_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "io/source/local_source.h"
#include "runtime/base/rng.h"

namespace dlrun::io {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "dlrun-source-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = dir_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  std::vector<std::string> listed(const std::vector<std::string>& uris) {
    const auto files = source_.list(uris, 1000);
    EXPECT_TRUE(files) << files.error().to_string();
    std::vector<std::string> names;
    if (files)
      for (const FileEntry& f : *files) names.push_back(fs::relative(f.uri, dir_).string());
    return names;
  }
  /// The error names what it is about.
  Errc list_error(const std::string& uri) {
    const auto files = source_.list({uri}, 3);
    EXPECT_FALSE(files) << uri;
    if (files) return Errc::kInternal;
    EXPECT_THAT(files.error().context, HasSubstr(uri));
    return files.error().code;
  }
  Split split(const std::string& uri, std::uint64_t begin, std::uint64_t end) {
    return {0, 0, uri, source_.list({uri}, 1)->at(0).etag, begin, end};
  }
  /// All text of a split, its pieces joined; a line too long to hold shows as "<n>".
  std::string read(const Split& split, SplitReader::Options options) {
    auto reader = SplitReader::open(source_, split, options);
    EXPECT_TRUE(reader) << reader.error().to_string();
    std::string text;
    std::uint64_t at = 0;
    bool first = true;
    for (;;) {
      auto chunk = (*reader)->next();
      EXPECT_TRUE(chunk) << chunk.error().to_string();
      if (!chunk || !*chunk) break;
      if (!first) {
        EXPECT_EQ((*chunk)->offset, at);
      }
      first = false;
      at = (*chunk)->offset + (*chunk)->text.size() + (*chunk)->skipped_bytes;
      EXPECT_LE((*chunk)->text.size(), options.chunk_bytes + options.record_bytes_max + 2);
      text += (*chunk)->text;
      if ((*chunk)->skipped_bytes != 0) text += "<" + std::to_string((*chunk)->skipped_bytes) + ">";
    }
    return text;
  }

  fs::path dir_;
  LocalSource source_;
};

TEST_F(SourceTest, ExpandsDirectoriesAndGlobsInByteOrder) {
  write("d/b.txt", "1");
  write("d/a/z.txt", "1");
  write("d/B.txt", "1");
  write("d/_SUCCESS", "");
  write("d/.hidden/x", "1");
  write("d/c.csv", "1");
  const std::string d = (dir_ / "d").string();
  EXPECT_THAT(listed({d}), ElementsAre("d/B.txt", "d/a/z.txt", "d/b.txt", "d/c.csv"));
  EXPECT_THAT(listed({d + "/*.txt"}), ElementsAre("d/B.txt", "d/b.txt"));
  EXPECT_THAT(listed({d + "/c.csv", "file://" + d + "/*"}),
              ElementsAre("d/c.csv", "d/B.txt", "d/_SUCCESS", "d/a/z.txt", "d/b.txt"));
}

TEST_F(SourceTest, TakesAPathThatExistsLiterally) {
  write("odd[1] name", "x");
  EXPECT_THAT(listed({(dir_ / "odd[1] name").string()}), ElementsAre("odd[1] name"));
  EXPECT_THAT(listed({"file://" + dir_.string() + "/odd%5B1%5D%20name"}),
              ElementsAre("odd[1] name"));
}

TEST_F(SourceTest, NamesWhatCannotBeRead) {
  EXPECT_EQ(list_error((dir_ / "none").string()), Errc::kNotFound);
  EXPECT_EQ(list_error((dir_ / "none*").string()), Errc::kNotFound);
  EXPECT_EQ(list_error(dir_.string()), Errc::kNotFound);  // an empty directory
  EXPECT_EQ(list_error("relative/path"), Errc::kInvalidArgument);
  EXPECT_EQ(list_error("s3://bucket/key"), Errc::kUnsupported);
  EXPECT_EQ(list_error("file:///a%zz"), Errc::kInvalidArgument);
  EXPECT_EQ(list_error("/dev/null"), Errc::kInvalidArgument);
  for (const char* name : {"f1", "f2", "f3", "f4"}) write(name, "x");
  EXPECT_EQ(list_error(dir_.string()), Errc::kResourceExhausted);
}

TEST_F(SourceTest, RefusesAFileThatChanged) {
  const std::string path = write("f", "1\n2\n");
  const Split before = split(path, 0, 4);
  auto reader = SplitReader::open(source_, before, {});
  ASSERT_TRUE(reader);
  write("f", "1\n2\n3\n");
  const auto opened = SplitReader::open(source_, before, {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(opened.error().context, HasSubstr(path));
  Result<std::optional<TextChunk>> chunk = (*reader)->next();  // opened before the change
  while (chunk && *chunk) chunk = (*reader)->next();
  EXPECT_EQ(chunk.error().code, Errc::kFailedPrecondition);
}

/// A file that gives less than its size says, though nothing about it has changed.
class ShortSource final : public Source {
  class ShortFile final : public File {
   public:
    std::uint64_t size_bytes() const override { return 100; }
    Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out) override {
      const std::string text = "1 1:1\n0 2:";
      const std::size_t begin = std::min<std::size_t>(offset, text.size());
      return text.copy(out.data(), out.size(), begin);
    }
    Status verify() override { return {}; }
  };

 public:
  Result<std::vector<FileEntry>> list(const std::vector<std::string>&, std::uint64_t) override {
    return std::vector<FileEntry>{};
  }
  Result<std::unique_ptr<File>> open(const std::string&, const std::string&) override {
    return std::make_unique<ShortFile>();
  }
};

TEST(SplitReader, NamesAFileThatEndsBeforeItsSize) {
  ShortSource source;
  const auto reader = SplitReader::open(source, {0, 0, "/data/part-7", "", 0, 100}, {});
  ASSERT_TRUE(reader);
  const auto chunk = (*reader)->next();
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().context, "/data/part-7: offset 10: the file ended before its size");
}

TEST_F(SourceTest, EveryLineBelongsToExactlyOneSplitHoweverTheFileIsCut) {
  SplitMix64 rng(3);
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (std::uint64_t lines = rng.below(12); lines > 0; --lines) {
      text += std::string(static_cast<std::size_t>(rng.below(9)), 'a');
      text += rng.below(4) == 0 ? "\r\n" : "\n";
    }
    if (rng.below(2) != 0) text += "tail";
    if (text.empty()) continue;
    const std::string path = write("f", text);
    for (std::uint64_t size = 1; size <= text.size() + 1; ++size) {
      std::string joined;
      for (std::uint64_t begin = 0; begin < text.size(); begin += size) {
        const std::uint64_t end = std::min<std::uint64_t>(begin + size, text.size());
        const std::string part = read(split(path, begin, end),
                                      {.chunk_bytes = 1 + rng.below(6), .record_bytes_max = 12});
        if (!part.empty() && begin > 0) {
          // it starts where a line starts, inside the split
          EXPECT_EQ(text[joined.size() - 1], '\n');
          EXPECT_GE(joined.size(), begin);
          EXPECT_LT(joined.size(), end);
        }
        joined += part;
      }
      ASSERT_EQ(joined, text) << "split size " << size;
    }
  }
}

TEST_F(SourceTest, PassesOverALineThatIsTooLongAndGoesOnAfterIt) {
  const std::string path = write("f", "short\n" + std::string(500000, 'x') + "\nnext\n");
  EXPECT_EQ(read(split(path, 0, 20), {.chunk_bytes = 100, .record_bytes_max = 1000}),
            "short\n<500001>");
  EXPECT_EQ(read(split(path, 0, 500012), {.chunk_bytes = 100, .record_bytes_max = 1000}),
            "short\n<500001>next\n");
  EXPECT_EQ(read(split(path, 20, 400000), {.chunk_bytes = 100, .record_bytes_max = 1000}), "");
  EXPECT_EQ(read(split(path, 20, 500012), {.chunk_bytes = 100, .record_bytes_max = 1000}),
            "next\n");
}

TEST_F(SourceTest, CountsLinesForAnError) {
  const std::string path = write("f", "a\nb\nc\n");
  auto reader = SplitReader::open(source_, split(path, 2, 6), {});
  ASSERT_TRUE(reader);
  EXPECT_EQ((*reader)->line_of(0).value(), 1u);
  EXPECT_EQ((*reader)->line_of(4).value(), 3u);
}

TEST_F(SourceTest, ReadsBeyondFourGigabytesOfASparseFile) {
  const std::string path = (dir_ / "big").string();
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  const std::uint64_t at = 5'000'000'000;
  ASSERT_EQ(::pwrite(fd, "\n1 7:1\n", 7, static_cast<off_t>(at)), 7);
  ::close(fd);
  EXPECT_EQ(read(split(path, at, at + 7), {}), "1 7:1\n");
}

}  // namespace
}  // namespace dlrun::io
