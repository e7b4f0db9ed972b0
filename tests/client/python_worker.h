#pragma once
/// tests/client/python_worker.h: a test whose workers are Python scripts. The interpreter, with
/// numpy, is $DLRUN_PYTHON (test.sh sets it); without it the tests are skipped. Under a sanitizer
/// its runtime must be loaded first: LD_PRELOAD.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/client/paths.h"
#include "tests/client/local_cluster.h"

namespace dlrun::test {

class PythonWorker : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("DLRUN_PYTHON") == nullptr)
      GTEST_SKIP() << "DLRUN_PYTHON names no interpreter with numpy";
    python_ = std::getenv("DLRUN_PYTHON");
    char pattern[] = "/tmp/dlrun-python-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    if (!folder_.empty()) std::system(("rm -rf " + folder_).c_str());
  }

  /// Whether `interpreter` can do this.
  static bool runs(const std::string& interpreter, const std::string& statement) {
    return std::system((interpreter + " -c '" + statement + "' >/dev/null 2>&1").c_str()) == 0;
  }
  std::string script(const char* name) { return source_dir() + "/tests/client/python/" + name; }
  static std::string build_dir() { return std::getenv("DLRUN_BUILD_DIR"); }
  static std::string source_dir() { return std::getenv("DLRUN_SOURCE_DIR"); }

  /// What dlrun puts into a task's environment, and what a sanitizer needs.
  static std::vector<std::pair<std::string, std::string>> environment() {
    std::vector<std::pair<std::string, std::string>> env = {{"PYTHONDONTWRITEBYTECODE", "1"},
                                                            {"OMP_NUM_THREADS", "1"}};
    client::add_client_env(client::client_paths(build_dir() + "/bin/dlrun"), env);
    const std::string preload = DLRUN_TEST_PRELOAD;
    if (!preload.empty()) {
      env.emplace_back("LD_PRELOAD", preload);
      env.emplace_back("ASAN_OPTIONS", "detect_leaks=0");  // the interpreter's own
    }
    return env;
  }

  std::unique_ptr<LocalCluster> cluster(std::uint32_t workers, std::uint32_t shards,
                                        std::vector<io::InputSpec> inputs,
                                        std::string committed_tag = {},
                                        std::vector<io::LedgerState> committed = {}) {
    auto made =
        LocalCluster::start({workers, shards, std::move(inputs), build_dir() + "/bin/client_host",
                             std::move(committed_tag), std::move(committed)});
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? std::move(*made) : nullptr;
  }

  /// Runs the script in every worker; an argument "{rank}" is its rank. All must end with 0.
  /// Returns what they printed.
  std::string run(LocalCluster& cluster, std::uint32_t workers, std::vector<std::string> script,
                  std::vector<std::pair<std::string, std::string>> env = environment()) {
    script.insert(script.begin(), python_);
    const std::string out = folder_ + "/output";
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      std::vector<std::string> own = script;
      for (std::string& argument : own)
        if (argument == "{rank}") argument = std::to_string(rank);
      EXPECT_TRUE(cluster.spawn(rank, own, env, out));
    }
    const auto codes =
        cluster.wait(std::chrono::seconds(std::getenv("DLRUN_LONG") != nullptr ? 3000 : 250));
    std::ostringstream text;
    text << std::ifstream(out).rdbuf();
    if (!codes) {
      ADD_FAILURE() << codes.error().to_string() << "\n" << text.str();
    } else {
      for (const int code : *codes) EXPECT_EQ(code, 0) << text.str();
    }
    return text.str();
  }

  std::string python_;
  std::string folder_;
};

}  // namespace dlrun::test
