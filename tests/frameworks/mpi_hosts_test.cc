// Open MPI across hosts (tests/node/rack.h): its daemon on the other host is started by dlrun, and
// there is no ssh.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/node/rack.h"

namespace dlrun::node {
namespace {

using nlohmann::json;
using std::chrono::seconds;

class MpiHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("DLRUN_DATA_DIR") == nullptr) GTEST_SKIP() << "DLRUN_DATA_DIR names no data";
    if (const std::string missing = Rack::why_not(); !missing.empty())
      GTEST_SKIP() << "not run: several hosts cannot be made here: " << missing;
    std::string pattern = "/tmp/dlrun-fw-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    rack_ = std::make_unique<Rack>(folder_);
    rack_->add_host("head");
    const std::string address = rack_->v4("head");
    daemons_.push_back(rack_->start("head",
                                    {dlrun_binary(), "coordinator", "--data", folder_ + "/c",
                                     "--listen", address, "--rest", address + ":0"},
                                    folder_ + "/coordinator.log"));
    ASSERT_TRUE(within([&] { return log_has("next machine: "); })) << daemons_[0]->log();
    for (const char* name : {"n0", "n1"}) {
      rack_->add_host(name);
      std::vector<std::string> argv = join_line();
      argv.insert(argv.end(), {"--cpus", "2", "--tasks-as-root"});
      daemons_.push_back(rack_->start(name, argv, folder_ + "/" + name + ".log",
                                      {"DLRUN_HOME=" + folder_ + "/" + name, kPath}));
    }
    const json cluster = json::parse(std::ifstream(folder_ + "/c/cluster.json"));
    rack_->add_host("desk");
    const auto [code, text] = dlrun({"connect", cluster.at("rest"), "--token-file",
                                     cluster.at("token_file"), "--ca-file", cluster.at("ca_file")});
    ASSERT_EQ(code, 0) << text;
    ASSERT_TRUE(within([&] {
      const json nodes = json::parse(dlrun({"nodes", "--json"}).second, nullptr, false);
      int up = 0;
      if (nodes.is_object())
        for (const json& node : nodes.at("nodes")) up += node.value("state", "") == "up";
      return up == 2;
    }));
  }
  void TearDown() override {
    if (folder_.empty()) return;
    for (auto it = daemons_.rbegin(); it != daemons_.rend(); ++it) {
      if (HasFailure()) std::fprintf(stderr, "%s", (*it)->log().c_str());
      Rack::signal(**it, SIGTERM);
      (*it)->wait(seconds(10));
    }
    daemons_.clear();
    rack_.reset();
    std::error_code ec;
    std::filesystem::remove_all(folder_, ec);
  }

  template <class F>
  static bool within(F done) {
    for (const auto until = std::chrono::steady_clock::now() + seconds(30); !done();) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return true;
  }
  bool log_has(const std::string& words) {
    return daemons_[0]->log().find(words) != std::string::npos;
  }
  std::vector<std::string> join_line() {
    const std::string log = daemons_[0]->log(), mark = "next machine: ";
    const auto at = log.find(mark) + mark.size();
    std::istringstream words(log.substr(at, log.find('\n', at) - at));
    std::vector<std::string> argv;
    for (std::string word; words >> word;) argv.push_back(word);
    argv.at(0) = dlrun_binary();
    return argv;
  }
  std::pair<int, std::string> dlrun(std::vector<std::string> args) {
    args.insert(args.begin(), dlrun_binary());
    return rack_->run("desk", args, seconds(120), {"DLRUN_HOME=" + folder_ + "/desk", kPath});
  }

  static constexpr const char* kPath = "PATH=/usr/bin:/bin:/usr/sbin:/sbin";
  std::string folder_;
  std::unique_ptr<Rack> rack_;
  std::vector<std::unique_ptr<Process>> daemons_;  ///< the coordinator first
};

TEST_F(MpiHosts, AProgramInCTrainsOnTwoHostsWhoseDaemonsDlrunStarts) {
  if (HasFailure()) return;
  const std::string program = folder_ + "/iris",
                    source = std::string(std::getenv("DLRUN_SOURCE_DIR")) + "/examples/mpi/iris.c",
                    data = std::string(std::getenv("DLRUN_DATA_DIR")) + "/iris";
  const auto [made, errors] = rack_->run(
      "desk", {"/usr/bin/mpicc", "-O2", source, "-o", program, "-lm"}, seconds(60), {kPath});
  ASSERT_EQ(made, 0) << errors;
  const auto [code, text] = dlrun({"run", "--as", "mpi", "-n", "4", "--", program, data});
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("test accuracy"), std::string::npos) << text;
  EXPECT_NE(text.find("over 4 ranks"), std::string::npos) << text;
  for (const int rank : {0, 1, 2, 3}) {
    // A rank runs as the task of its slot, on that task's host.
    const std::string n = std::to_string(rank);
    EXPECT_NE(text.find("rank " + n + " of 4 is task"), std::string::npos) << text;
    EXPECT_NE(text.find("worker/" + n), std::string::npos) << text;
  }
  for (const char* node : {"on node n0", "on node n1"})
    EXPECT_NE(text.find(node), std::string::npos) << text;
}

TEST_F(MpiHosts, ARankThatIsKilledOnTheOtherHostEndsTheJobByItsName) {
  if (HasFailure()) return;
  const auto before = std::chrono::steady_clock::now();
  const auto [code, text] = dlrun({"run", "--as", "mpi", "-n", "4", "--", "sh", "-c",
                                   "test $OMPI_COMM_WORLD_RANK = 3 && kill -9 $$; exec sleep 100"});
  EXPECT_EQ(code, 137) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(60));
  const auto [shown, view] = dlrun({"show", "j1", "--json"});
  EXPECT_NE(json::parse(view, nullptr, false).value("reason", "").find("worker/3"),
            std::string::npos)
      << view;
}

}  // namespace
}  // namespace dlrun::node
