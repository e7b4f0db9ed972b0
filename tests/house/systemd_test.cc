// The units in packaging/systemd, as systemd itself reads them. Nothing is started. Not run where
// systemd-analyze is missing.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace dlrun::house {
namespace {

namespace fs = std::filesystem;

class Units : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/systemd-analyze", X_OK) != 0)
      GTEST_SKIP() << "not run: this machine has no systemd-analyze";
    const char* source = std::getenv("DLRUN_SOURCE_DIR");
    ASSERT_NE(source, nullptr) << "run by ctest, or with DLRUN_SOURCE_DIR set";
    source_ = source;
    std::string pattern = "/tmp/dlrun-units-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override {
    std::error_code ec;
    if (!folder_.empty()) fs::remove_all(folder_, ec);
  }
  static std::string text_of(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  /// The unit with a program and a page that are there: systemd looks whether they are.
  std::string unit(const std::string& name) const {
    std::string text = text_of(source_ / "packaging/systemd" / name);
    const std::string program = "/opt/dlrun/bin/dlrun",
                      page = "/opt/dlrun/share/doc/dlrun/cluster.md";
    EXPECT_NE(text.find("ExecStart=" + program + " "), std::string::npos) << name;
    for (std::size_t at; (at = text.find(program)) != std::string::npos;)
      text.replace(at, program.size(), "/bin/true");
    if (const auto at = text.find(page); at != std::string::npos)
      text.replace(at, page.size(), (source_ / "docs/cluster.md").string());
    return text;
  }
  /// Exit code and what was said.
  std::pair<int, std::string> analyze(const std::string& name, const std::string& text,
                                      const std::string& how) const {
    const fs::path path = fs::path(folder_) / name;
    std::ofstream(path) << text;
    std::FILE* pipe =
        ::popen(("timeout 60 systemd-analyze " + how + " " + path.string() + " 2>&1").c_str(), "r");
    std::string said;
    char buffer[4096];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      said.append(buffer, n);
    const int status = ::pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, said};
  }

  fs::path source_;
  std::string folder_;
};

TEST_F(Units, SystemdHasNothingToSayAboutThem) {
  for (const char* name : {"dlrun-coordinator.service", "dlrun-agent.service"}) {
    const auto [code, said] = analyze(name, unit(name), "verify --man=no");
    EXPECT_EQ(code, 0) << name;
    EXPECT_EQ(said, "") << name;
  }
}

TEST_F(Units, AMistakeInOneIsFound) {
  std::string text = unit("dlrun-agent.service");
  text.replace(text.find("\nKillMode=process"), 17, "\nKilMode=process");
  const auto [code, said] = analyze("dlrun-agent.service", text, "verify --man=no");
  EXPECT_TRUE(code != 0 || !said.empty());
}

TEST_F(Units, TheCoordinatorIsShutInAndTheAgentGivesNoRights) {
  // The scale ends at 10 (wide open). Tasks of all kinds are the agent's children, so it stays more
  // open.
  EXPECT_EQ(analyze("dlrun-coordinator.service", unit("dlrun-coordinator.service"),
                    "security --offline=true --no-pager --threshold=25")
                .first,
            0);
  EXPECT_EQ(analyze("dlrun-agent.service", unit("dlrun-agent.service"),
                    "security --offline=true --no-pager --threshold=60")
                .first,
            0);
}

}  // namespace
}  // namespace dlrun::house
