/// The Python package in real interpreters, against real shards and a real feeder.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/client/python_worker.h"

namespace dlrun::test {
namespace {

std::vector<io::InputSpec> inputs(const std::string& folder) {
  std::ofstream dense(folder + "/dense.csv"), sparse(folder + "/sparse.libsvm");
  for (int row = 0; row < 1000; ++row) {
    dense << row << "," << 2 * row << "," << -row << "\n";
    sparse << row << " 7:" << row << " " << 1000000 + row << ":1\n";
  }
  io::InputSpec csv;
  csv.name = "dense";
  csv.uris = {folder + "/dense.csv"};
  csv.format = io::Format::kCsv;
  csv.batch_rows = 64;
  csv.passes = 2;
  csv.split_bytes = 512;
  io::InputSpec svm = csv;
  svm.name = "sparse";
  svm.uris = {folder + "/sparse.libsvm"};
  svm.format = io::Format::kLibsvm;
  io::InputSpec again = csv;
  again.name = "again";
  again.batch_rows = 8;
  return {csv, svm, again};
}

class PythonTest : public PythonWorker {};

TEST_F(PythonTest, AWorkerUsesEveryCallOfThePackage) {
  const auto local = cluster(2, 2, inputs(folder_));
  ASSERT_TRUE(local);
  run(*local, 2, {source_dir() + "/tests/client/python/worker.py", folder_});
  EXPECT_DOUBLE_EQ(local->progress(0).fraction, 0.35);
  EXPECT_EQ(local->progress(1).text, "größer");
}

TEST_F(PythonTest, ThePackageAsksForNothingButPython39AndNumpy) {
  const std::string script = source_dir() + "/tests/client/python/portable.py";
  EXPECT_EQ(std::system((python_ + " " + script + " " + source_dir() + "/python/dlrun").c_str()),
            0);
}

TEST_F(PythonTest, ATermHandlerRunsWhileACallWaits) {
  const auto local = cluster(2, 1, {});
  ASSERT_TRUE(local);
  run(*local, 2, {source_dir() + "/tests/client/python/term.py"});
}

TEST_F(PythonTest, AMalformedLineIsNamedInTheError) {
  std::ofstream(folder_ + "/bad.libsvm") << "1 3:1\n0 4:1\n1 5:x\n";
  io::InputSpec bad;
  bad.name = "bad";
  bad.uris = {folder_ + "/bad.libsvm"};
  const auto local = cluster(1, 0, {bad});
  ASSERT_TRUE(local);
  run(*local, 1, {source_dir() + "/tests/client/python/bad_data.py"});
}

}  // namespace
}  // namespace dlrun::test
