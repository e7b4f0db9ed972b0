// The look of the sources: 100 columns, a first line that says what a header is, clang-format's
// layout. tools/format.sh mends all but the second.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace dlrun::house {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kColumns = 100;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool is_source(const fs::path& path) {
  const std::string e = path.extension();
  return e == ".h" || e == ".hpp" || e == ".cc" || e == ".cu" || e == ".cuh";
}

std::vector<std::string> sources(const fs::path& root) {
  std::vector<std::string> found;
  for (const auto& top : fs::directory_iterator(root)) {
    if (!top.is_directory() || top.path().filename().string().starts_with(".")) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top))
      if (entry.is_regular_file() && is_source(entry.path()))
        found.push_back(entry.path().lexically_relative(root));
  }
  return found;
}

/// Characters, not bytes.
std::size_t columns(const std::string& line) {
  std::size_t n = 0;
  for (const char c : line) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return n;
}

/// "file:line" of lines past column 100, those of raw strings apart: they are bytes, not layout.
std::vector<std::string> long_lines(const std::string& name, const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  std::string line, end;  // `end` of the raw string that is open
  for (int number = 1; std::getline(lines, line); ++number) {
    const bool inside = !end.empty();
    std::size_t at = 0;
    bool raw = inside;
    while (true) {
      if (!end.empty()) {
        const auto close = line.find(end, at);
        if (close == std::string::npos) break;
        at = close + end.size();
        end.clear();
      }
      const auto open = line.find("R\"", at);
      const auto parenthesis = open == std::string::npos ? open : line.find('(', open);
      if (parenthesis == std::string::npos) break;
      end = ")" + line.substr(open + 2, parenthesis - open - 2) + "\"";
      at = parenthesis + 1;
      raw = true;
    }
    if (!raw && columns(line) > kColumns) found.push_back(name + ":" + std::to_string(number));
  }
  return found;
}

/// A header's first comment begins with its path (those for users' programs with how they are
/// included), in one of the first three lines.
bool says_what_it_is(const std::string& path, const std::string& text) {
  std::string name = path;
  for (const std::string folder : {"runtime/client/include/", "ps/pslite/include/"})
    if (path.starts_with(folder)) name = path.substr(folder.size());
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; number <= 3 && std::getline(lines, line); ++number)
    if (line.starts_with("/// " + name + ": ") || line.starts_with("/* " + name + ": "))
      return true;
  return false;
}

struct Output {
  int status = -1;
  std::string text;
};

Output run(const std::string& command) {
  Output out;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
    out.text.append(buffer, n);
  out.status = ::pclose(pipe);
  return out;
}

class Format : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("DLRUN_SOURCE_DIR");
    ASSERT_NE(source, nullptr) << "run by ctest, or with DLRUN_SOURCE_DIR set";
    root_ = source;
    files_ = sources(root_);
    ASSERT_GT(files_.size(), 300u);
  }
  fs::path root_;
  std::vector<std::string> files_;
};

TEST_F(Format, NoLineIsLongerThan100Columns) {
  std::vector<std::string> found;
  for (const std::string& file : files_)
    for (const std::string& line : long_lines(file, read(root_ / file))) found.push_back(line);
  EXPECT_THAT(found, IsEmpty()) << "tools/format.sh";
}

TEST_F(Format, AHeaderBeginsWithItsPathAndWhatItIs) {
  std::vector<std::string> found;
  for (const std::string& file : files_)
    if ((file.ends_with(".h") || file.ends_with(".hpp")) &&
        !says_what_it_is(file, read(root_ / file)))
      found.push_back(file);
  EXPECT_THAT(found, IsEmpty());
}

TEST_F(Format, TheSourcesAreAsClangFormatLeavesThem) {
  if (run("clang-format-14 --version").status != 0)
    GTEST_SKIP() << "no clang-format-14: tools/install-deps.sh test";
  std::string command = "cd '" + root_.string() + "' && clang-format-14 --dry-run -Werror";
  for (const std::string& file : files_) command += " " + file;
  const Output out = run(command);
  EXPECT_EQ(out.status, 0) << "tools/format.sh\n" << out.text.substr(0, 4000);
}

TEST(FormatChecker, ALongLineIsFoundAndARawStringIsNot) {
  const std::string wide(101, 'x');
  EXPECT_THAT(long_lines("a.cc", "short\n" + wide + "\n// " + wide + "\n"),
              ElementsAre("a.cc:2", "a.cc:3"));
  EXPECT_THAT(long_lines("a.cc", "f(R\"(" + wide + "\n" + wide + ")\");\n" + wide),
              ElementsAre("a.cc:3"));
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ü";
  EXPECT_THAT(long_lines("a.cc", umlauts), IsEmpty());
}

TEST(FormatChecker, AHeaderThatDoesNotSayWhatItIsIsFound) {
  EXPECT_TRUE(says_what_it_is("a/b.h", "#pragma once\n/// a/b.h: a thing.\n"));
  EXPECT_FALSE(says_what_it_is("a/b.h", "#pragma once\n/// a/c.h: a thing.\n"));
  EXPECT_FALSE(says_what_it_is("a/b.h", "#pragma once\n#include <vector>\n\n/// a/b.h: late.\n"));
}

/// tools/wrap_comments.py on one file of its own.
class WrapComments : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("DLRUN_SOURCE_DIR");
    ASSERT_NE(source, nullptr) << "run by ctest, or with DLRUN_SOURCE_DIR set";
    tool_ = std::string("/usr/bin/python3 '") + source + "/tools/wrap_comments.py' ";
    char folder[] = "/tmp/dlrun_format_XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  std::string wrap(const std::string& text) {
    const fs::path file = folder_ / "a.h";
    std::ofstream(file) << text;
    out_ = run(tool_ + file.string());
    return read(file);
  }
  fs::path folder_;
  std::string tool_;
  Output out_;
};

std::string words(std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += i == 0 ? "word" : " word";
  return text;
}

TEST_F(WrapComments, ALongLineFlowsIntoTheNextOneOfItsParagraph) {
  EXPECT_EQ(wrap("/// " + words(22) + "\n/// end.\n"),
            "/// " + words(19) + "\n/// " + words(3) + " end.\n");
  EXPECT_EQ(out_.status, 0);
}

TEST_F(WrapComments, LabelsListsAndTablesKeepTheirLines) {
  const std::string text = "/// Errors: " + words(4) + "\n/// Threads: one.\n///\n///   item " +
                           words(21) + "\n///   item two\n///   name     " + words(19) + "\n";
  EXPECT_EQ(wrap(text), "/// Errors: " + words(4) + "\n/// Threads: one.\n///\n///   item " +
                            words(18) + "\n///     " + words(3) +
                            "\n///   item two\n///   name     " + words(17) + "\n///            " +
                            words(2) + "\n");
}

TEST_F(WrapComments, APictureIsNamedAndLeftAlone) {
  const std::string picture = "///   a --> " + std::string(95, '-') + " b\n";
  EXPECT_EQ(wrap(picture), picture);
  EXPECT_NE(out_.status, 0);
  EXPECT_THAT(out_.text, HasSubstr("cannot be broken"));
}

TEST_F(WrapComments, ACommentBehindCodeMovesInFrontOfIt) {
  EXPECT_EQ(wrap("  int x = 0;  ///< " + words(20) + "\n"),
            "  /// " + words(19) + "\n  /// " + words(1) + "\n  int x = 0;\n");
  EXPECT_EQ(wrap("  if (x) {  // " + words(20) + "\n"),
            "  if (x) {\n    // " + words(18) + "\n    // " + words(2) + "\n");
}

TEST_F(WrapComments, StringsAndLinesThatFitAreLeftAlone) {
  const std::string text = "const char* a = \"http://x" + std::string(90, 'y') +
                           "\";\nconst char* b = R\"(// " + words(30) + "\n/// " + words(30) +
                           ")\";\n/// short\n/// lines\n";
  EXPECT_EQ(wrap(text), text);
}

}  // namespace
}  // namespace dlrun::house
