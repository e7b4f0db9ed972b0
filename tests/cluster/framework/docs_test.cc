// The page of frameworks and the REST schema name each of them, and each end rule.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/cluster/core/end_rules.h"
#include "runtime/cluster/core/framework/adapter.h"

namespace dlrun::cluster::framework {
namespace {

std::string read(const std::string& path) {
  const char* root = std::getenv("DLRUN_SOURCE_DIR");
  std::ifstream in(std::string(root != nullptr ? root : ".") + "/" + path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(FrameworkDocs, EveryAdapterAndEveryEndRuleStandsInThePageAndInTheSchema) {
  const std::string page = read("docs/frameworks.md"), schema = read("web/openapi.json");
  ASSERT_FALSE(page.empty()) << "run by ctest, or with DLRUN_SOURCE_DIR set";
  ASSERT_FALSE(schema.empty());
  for (const Adapter& adapter : adapters()) {
    const std::string name(adapter.name);
    EXPECT_NE(page.find("| `" + name + "` |"), std::string::npos) << name;
    EXPECT_NE(schema.find('"' + name + '"'), std::string::npos) << name;
    for (const RoleRow& row : adapter.roles)
      EXPECT_NE(page.find(row.role), std::string::npos) << name << ' ' << row.role;
  }
  for (const EndRow& row : kEndRows) {
    const std::string word(row.word);
    const std::size_t line = page.find("| `" + word + "` |");
    ASSERT_NE(line, std::string::npos) << word;
    EXPECT_NE(schema.find('"' + word + '"'), std::string::npos) << word;
    const std::string linger =
        "| " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(row.linger).count()) +
        "s |";
    EXPECT_NE(page.substr(line, page.find('\n', line) - line).find(linger), std::string::npos)
        << word << " lingers another time";
  }
}

}  // namespace
}  // namespace dlrun::cluster::framework
