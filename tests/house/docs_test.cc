// Docs stay true: every file that a page names in backticks is there; folders have a page, and it
// is short.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace dlrun::house {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "About 40 lines", of 100 columns. Bytes: a bound on lines makes them longer.
constexpr std::size_t kReadmeBytesMax = 4096;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// What the tree holds, without hidden folders: paths from its root, and the names of files.
struct Tree {
  std::set<std::string> paths, names;

  static Tree of(const fs::path& root) {
    Tree tree;
    for (auto at = fs::recursive_directory_iterator(root); at != fs::recursive_directory_iterator();
         ++at) {
      const std::string name = at->path().filename();
      const bool hidden = name.starts_with(".") && name != ".ci" && !name.starts_with(".clang");
      if (at->is_directory() && (hidden || name == "node_modules" || name == "__pycache__")) {
        at.disable_recursion_pending();
        continue;
      }
      tree.paths.insert(at->path().lexically_relative(root));
      if (at->is_regular_file()) tree.names.insert(name);
    }
    return tree;
  }
  bool has(const fs::path& path) const {
    std::string text = path.lexically_normal();
    if (text.ends_with("/")) text.pop_back();
    return paths.contains(text);
  }
};

/// A path with a part in capitals, as NAME or P/bin, is a pattern.
bool is_pattern(const std::string& path) {
  static const std::regex capitals(R"((^|/)[A-Z_]+(/|$|\.[a-z]+$))");
  return std::regex_search(path, capitals);
}

/// Paths in backticks that neither the root nor the folder of the page has, and names of sources
/// that no folder has.
std::vector<std::string> missing_paths(const std::string& text, const Tree& tree,
                                       const fs::path& folder) {
  static const std::regex quoted(R"(`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*/?)`)");
  static const std::regex source(R"([A-Za-z0-9_-]+\.(h|hpp|cc|cu|capnp|sh|py))");
  std::vector<std::string> missing;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), quoted);
       at != std::sregex_iterator(); ++at) {
    const std::string named = (*at)[1];
    // `tls/` alone is the name of some folder, of data perhaps.
    const bool is_path = named.find('/') < named.size() - 1;
    if (is_path && !is_pattern(named) && !tree.has(named) && !tree.has(folder / named))
      missing.push_back(named);
    if (!is_path && std::regex_match(named, source) && !tree.names.contains(named))
      missing.push_back(named);
  }
  return missing;
}

class Docs : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("DLRUN_SOURCE_DIR");
    ASSERT_NE(source, nullptr) << "run by ctest, or with DLRUN_SOURCE_DIR set";
    root_ = source;
    tree_ = Tree::of(root_);
    for (const std::string& path : tree_.paths)
      if (path.ends_with(".md")) pages_[path] = read(root_ / path);
  }
  fs::path root_;
  Tree tree_;
  std::map<std::string, std::string> pages_;
};

TEST_F(Docs, EveryPathThatAPageNamesExists) {
  ASSERT_GT(pages_.size(), 25u);
  for (const auto& [page, text] : pages_) {
    ASSERT_FALSE(text.empty()) << page;
    EXPECT_THAT(missing_paths(text, tree_, fs::path(page).parent_path()), IsEmpty()) << page;
  }
}

TEST_F(Docs, AReadmeOfAFolderIsShort) {
  for (const auto& [page, text] : pages_)
    if (page.ends_with("/README.md")) {
      EXPECT_LE(text.size(), kReadmeBytesMax) << page;
    }
}

TEST_F(Docs, EveryPackageThatIsInstalledIsExplained) {
  const std::string script = read(root_ / "tools/install-deps.sh");
  const std::string table = pages_["docs/dependencies.md"];
  static const std::regex group(R"(\) echo ([^;]*);;)"), word(R"([a-z0-9][a-z0-9.+-]+)");
  std::set<std::string> explained, unexplained;
  for (std::sregex_iterator at(table.begin(), table.end(), word), end; at != end; ++at)
    explained.insert(at->str());
  std::size_t packages = 0;
  for (std::sregex_iterator at(script.begin(), script.end(), group), end; at != end; ++at) {
    const std::string names = (*at)[1];
    for (std::sregex_iterator name(names.begin(), names.end(), word); name != end; ++name) {
      ++packages;
      if (!explained.contains(name->str())) unexplained.insert(name->str());
    }
  }
  EXPECT_GT(packages, 30u);
  EXPECT_THAT(unexplained, IsEmpty());
}

// A folder in a folder (core, actor, cuda) may be told by its parent.
TEST_F(Docs, EveryFolderWithSourcesHasAReadmeOrItsParentDoes) {
  std::set<std::string> without;
  for (const std::string& path : tree_.paths) {
    const fs::path folder = fs::path(path).parent_path();
    if (!path.ends_with(".cc") || folder.string().starts_with("tests/")) continue;
    if (!pages_.contains(folder / "README.md") &&
        !pages_.contains(folder.parent_path() / "README.md"))
      without.insert(folder);
  }
  EXPECT_THAT(without, IsEmpty());
  for (const char* folder : {"tests", "tools", "packaging", "runtime/base", "runtime/wire",
                             "runtime/device", "runtime/jobspec"})
    EXPECT_TRUE(pages_.contains(fs::path(folder) / "README.md")) << folder;
}

TEST_F(Docs, EveryFolderAtTheRootHasAReadme) {
  std::set<std::string> without;
  std::size_t folders = 0;
  for (const std::string& path : tree_.paths) {
    const fs::path at(path);
    if (at.has_parent_path() || !fs::is_directory(root_ / at) || path.starts_with(".")) continue;
    ++folders;
    if (!pages_.contains(path + "/README.md")) without.insert(path);
  }
  EXPECT_GT(folders, 10u);
  EXPECT_THAT(without, IsEmpty());
}

TEST_F(Docs, TheTrainingLoopThatIsShownIsShort) {
  const std::string loop = read(root_ / "examples/ctr_lr/main.cc");
  EXPECT_GT(loop.size(), 0u);
  EXPECT_LT(std::count(loop.begin(), loop.end(), '\n'), 80);
}

TEST(DocsChecker, APathThatIsNotThereIsFound) {
  const Tree tree{{"ps", "ps/core", "ps/core/table.cc"}, {"table.cc"}};
  EXPECT_THAT(missing_paths("see `no/such_file.cc` and `/absolute` and `word`", tree, ""),
              ElementsAre("no/such_file.cc"));
  EXPECT_THAT(missing_paths("`ps/core/table.cc` `core/table.cc` `ps/core/`", tree, "ps"),
              IsEmpty());
  EXPECT_THAT(missing_paths("`core/table.cc`", tree, "io"), ElementsAre("core/table.cc"));
}

TEST(DocsChecker, ASourceThatNoFolderHasIsFound) {
  const Tree tree{{}, {"table.cc"}};
  EXPECT_THAT(missing_paths("`table.cc`, `gone.cc`, `data.json`", tree, ""),
              ElementsAre("gone.cc"));
}

TEST(DocsChecker, AnUpperCasePartIsAPattern) {
  EXPECT_THAT(missing_paths("`programs/NAME.cc` `P/bin/dlrun` `Pa/dlrun`", Tree{}, ""),
              ElementsAre("Pa/dlrun"));
}

}  // namespace
}  // namespace dlrun::house
