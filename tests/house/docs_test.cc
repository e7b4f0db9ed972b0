// Docs stay true: every file that a page names in backticks is there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace dlrun::house {
namespace {

namespace fs = std::filesystem;

/// Paths in backticks that `page` names and that neither the root nor the page's own folder has.
std::vector<std::string> missing_paths(const std::string& text, const fs::path& root,
                                       const fs::path& folder) {
  static const std::regex path(R"(`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+/?)`)");
  std::vector<std::string> missing;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), path); at != std::sregex_iterator();
       ++at) {
    const std::string named = (*at)[1];
    if (!fs::exists(root / named) && !fs::exists(folder / named)) missing.push_back(named);
  }
  return missing;
}

TEST(Docs, EveryPathThatAPageNamesExists) {
  const char* source = std::getenv("DLRUN_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run by ctest, or with DLRUN_SOURCE_DIR set";
  const fs::path root = source;
  int pages = 0;
  for (const char* page : {"README.md", "docs/architecture.md", "docs/dependencies.md",
                           "docs/adr/0001-record-decisions.md", "scheduler/README.md"}) {
    std::ifstream in(root / page);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    ASSERT_FALSE(text.empty()) << page;
    ++pages;
    EXPECT_THAT(missing_paths(text, root, (root / page).parent_path()), ::testing::IsEmpty())
        << page;
  }
  EXPECT_EQ(pages, 5);
}

TEST(Docs, APathThatIsNotThereIsFound) {
  EXPECT_THAT(missing_paths("see `no/such_file.cc` and `/absolute` and `word`", "/", "/"),
              ::testing::ElementsAre("no/such_file.cc"));
}

}  // namespace
}  // namespace dlrun::house
