#include "runtime/cluster/actor/last_resorts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/security/temp_folder.h"

namespace dlrun::cluster {
namespace {

using security::TempFolder;

/// A program `name` in `dir` that prints `text` and its arguments.
void program(const std::string& dir, const std::string& name, const std::string& text) {
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/" + name) << "#!/bin/sh\necho " << text << " \"$@\"\n";
  ASSERT_EQ(::chmod((dir + "/" + name).c_str(), 0755), 0);
}

std::string output_of(const std::string& path, const std::string& command, const TempFolder& temp) {
  const std::string file = temp / "out";
  EXPECT_EQ(std::system(("PATH='" + path + "' " + command + " >'" + file + "' 2>&1").c_str()), 0);
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(LastResorts, PythonIsPython3WithItsArgumentsWhereTheMachineHasNone) {
  const TempFolder temp;
  const std::string dir = temp / "last";
  ASSERT_TRUE(make_last_resorts(dir));
  ASSERT_TRUE(make_last_resorts(dir)) << "again";
  program(temp / "bin", "python3", "three");
  const std::string path = path_with_last_resorts(temp / "bin", dir);
  EXPECT_EQ(output_of(path, "python 'a b' c", temp), "three a b c\n");
}

TEST(LastResorts, APythonOfTheJobGoesBefore) {
  const TempFolder temp;
  const std::string dir = temp / "last";
  ASSERT_TRUE(make_last_resorts(dir));
  program(temp / "venv", "python", "mine");
  EXPECT_EQ(output_of(path_with_last_resorts(temp / "venv", dir), "python", temp), "mine\n");
}

TEST(LastResorts, TheWorkingDirectoryIsNoPartOfThePath) {
  EXPECT_EQ(path_with_last_resorts("", "/last"), "/last");
  EXPECT_EQ(path_with_last_resorts("/bin:/x", "/last"), "/bin:/x:/last");
}

}  // namespace
}  // namespace dlrun::cluster
