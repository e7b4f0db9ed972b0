/// libdlrun in processes of its own, against real shards and a real feeder (LocalCluster instead of
/// daemons).

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/client/paths.h"
#include "tests/client/local_cluster.h"
#include "tests/client/worker_inputs.h"

namespace dlrun::test {
namespace {

std::string build_dir() { return std::getenv("DLRUN_BUILD_DIR"); }

/// "dense" and "sparse".
std::vector<io::InputSpec> both_inputs(const std::string& folder) {
  std::vector<io::InputSpec> all = inputs(folder);
  all.resize(2);
  return all;
}

class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/dlrun-client-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::system(("rm -rf " + folder_).c_str()); }

  std::unique_ptr<LocalCluster> cluster(std::uint32_t workers, std::uint32_t shards,
                                        std::vector<io::InputSpec> inputs) {
    auto made =
        LocalCluster::start({workers, shards, std::move(inputs), build_dir() + "/bin/client_host"});
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? std::move(*made) : nullptr;
  }
  void run_all(LocalCluster& cluster, std::uint32_t workers, const std::vector<std::string>& argv) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) ASSERT_TRUE(cluster.spawn(rank, argv));
    const auto codes = cluster.wait(std::chrono::seconds(100));
    ASSERT_TRUE(codes) << codes.error().to_string();
    for (const int code : *codes) EXPECT_EQ(code, 0);
  }

  std::string folder_;
};

/// The header of a .npy file (format 1.0), without spaces.
std::string npy_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0) return "not a npy file";
  const auto length =
      static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  std::string header = bytes.substr(10, length);
  std::erase(header, ' ');
  return header;
}

TEST_F(ClientTest, AProgramInC11UsesEveryCallOfTheAbi) {
  auto local = cluster(2, 2, both_inputs(folder_));
  ASSERT_TRUE(local);
  run_all(*local, 2, {build_dir() + "/bin/c_abi_worker", folder_});
  EXPECT_EQ(local->progress(0).fraction, 0.25);
  EXPECT_EQ(local->progress(1).text, "a quarter");
  EXPECT_NE(npy_header(folder_ + "/dense.npy").find("(5,3"), std::string::npos)
      << npy_header(folder_ + "/dense.npy");
  EXPECT_NE(npy_header(folder_ + "/sparse.keys.npy").find("(3,"), std::string::npos);
  EXPECT_NE(npy_header(folder_ + "/sparse.values.npy").find("(3,2"), std::string::npos);
}

TEST_F(ClientTest, AProgramInCppUsesTheWrapper) {
  auto local = cluster(1, 1, {both_inputs(folder_)[0]});
  ASSERT_TRUE(local);
  run_all(*local, 1, {build_dir() + "/bin/hpp_worker"});
  EXPECT_EQ(local->progress(0).fraction, 1.0);
}

TEST_F(ClientTest, TheLibraryExportsItsAbiAndNothingElse) {
  const std::string list = folder_ + "/symbols";
  ASSERT_EQ(std::system(("nm -D --defined-only --format=posix " + build_dir() +
                         "/lib/dlrun/libdlrun.so > " + list)
                            .c_str()),
            0);
  std::ifstream file(list);
  std::string name, rest;
  int functions = 0;
  while (file >> name && std::getline(file, rest)) {
    if (name.rfind("DLRUN_1", 0) == 0) continue;  // the version node
    EXPECT_EQ(name.rfind("dlrun_", 0), 0u) << name;
    ++functions;
  }
  EXPECT_GE(functions, 26);
}

TEST(ClientPaths, LieBesideTheExecutable) {
  const auto paths = client::client_paths("/opt/dlrun/bin/dlrun");
  EXPECT_EQ(paths.library, "/opt/dlrun/lib/dlrun/libdlrun.so");
  EXPECT_EQ(paths.python_dir, "/opt/dlrun/lib/dlrun/python");
  std::vector<std::pair<std::string, std::string>> env = {{"PYTHONPATH", "/mine:/yours"},
                                                          {"A", "b"}};
  client::add_client_env(paths, env);
  EXPECT_EQ(env[0].second, "/opt/dlrun/lib/dlrun/python:/mine:/yours");
  EXPECT_EQ(env.back(), (std::pair<std::string, std::string>("DLRUN_LIB", paths.library)));
}

TEST(ClientPaths, HoldInTheBuildTree) {
  const auto paths = client::client_paths(build_dir() + "/bin/dlrun");
  EXPECT_TRUE(std::ifstream(paths.library).good()) << paths.library;
  EXPECT_TRUE(std::ifstream(paths.python_dir + "/dlrun/__init__.py").good()) << paths.python_dir;
}

}  // namespace
}  // namespace dlrun::test
