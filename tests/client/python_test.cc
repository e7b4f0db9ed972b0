/// The Python package in real interpreters, against real shards and a real feeder.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
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

TEST_F(PythonTest, TheTrackerOfTheOlderDmlcProtocolBringsWorkersOfAnyNumberTogether) {
  const std::string script = source_dir() + "/tests/client/python/rabit_tracker.py";
  EXPECT_EQ(std::system(
                ("timeout 60 " + python_ + " " + script + " " + source_dir() + "/python").c_str()),
            0);
}

TEST_F(PythonTest, AWorkerRunsInTheOldestAndTheNewestOtherInterpreterThatIsHere) {
  const char* others = std::getenv("DLRUN_OTHER_PYTHONS");  // test.sh: with numpy, between ':'
  std::istringstream list(others != nullptr ? others : "");
  int ran = 0;
  for (std::string interpreter; std::getline(list, interpreter, ':'); ++ran) {
    SCOPED_TRACE(interpreter);
    python_ = interpreter;
    const std::string folder = folder_ + "/" + std::to_string(ran);
    std::filesystem::create_directory(folder);
    const auto local = cluster(2, 2, inputs(folder));
    ASSERT_TRUE(local);
    run(*local, 2, {source_dir() + "/tests/client/python/worker.py", folder});
  }
  if (ran == 0) GTEST_SKIP() << "no other CPython from 3.9 on here: DLRUN_OTHER_PYTHONS is empty";
}

TEST_F(PythonTest, ATermHandlerRunsWhileACallWaits) {
  const auto local = cluster(2, 1, {});
  ASSERT_TRUE(local);
  run(*local, 2, {source_dir() + "/tests/client/python/term.py"});
}

TEST_F(PythonTest, NamedColumnsOfATypedInputAreNumpyViews) {
  std::ofstream csv(folder_ + "/rows.csv"), lines(folder_ + "/rows.jsonl");
  csv << "id,price,name\n";
  for (int row = 0; row < 500; ++row) {
    csv << row << "," << (row % 3 == 0 ? "" : "0.5") << ",\"n \"\"" << row << "\"\"\"\n";
    lines << "{\"id\": " << row << ", \"x\": [" << row << ", 0.5], \"tags\": ["
          << (row % 2 == 0 ? "\"a\", \"\u00e9\"" : "") << "]}\n";
  }
  csv.close();
  lines.close();
  using io::FieldType;
  io::InputSpec table;
  table.name = "csv";
  table.uris = {folder_ + "/rows.csv"};
  table.format = io::Format::kTable;
  table.header = true;
  table.batch_rows = 64;
  table.split_bytes = 1000;
  table.columns = {{.name = "id", .type = FieldType::kInt64},
                   {.name = "price", .type = FieldType::kFloat32, .may_miss = true},
                   {.name = "name", .type = FieldType::kText}};
  io::InputSpec json = table;
  json.name = "json";
  json.uris = {folder_ + "/rows.jsonl"};
  json.format = io::Format::kJsonLines;
  json.columns = {{.name = "id", .type = FieldType::kInt64},
                  {.name = "x", .type = FieldType::kFloat64, .width = 2},
                  {.name = "tags", .type = FieldType::kText, .width = 0}};
  const auto local = cluster(1, 0, {table, json});
  ASSERT_TRUE(local);
  run(*local, 1, {source_dir() + "/tests/client/python/typed_input.py"});
}

/// Workers that write down what they took, by step; a generation ends after a commit, the next goes
/// on with another number of workers.
TEST_F(PythonTest, WhatWasCommittedIsNotGivenAgainAndTheOrderGoesOn) {
  std::ofstream csv(folder_ + "/rows.csv");
  for (int row = 0; row < 2000; ++row) csv << row << "," << row % 7 << "\n";
  csv.close();
  for (const io::Mode mode : {io::Mode::kDynamic, io::Mode::kDeterministic}) {
    io::InputSpec input;
    input.name = "train";
    input.uris = {folder_ + "/rows.csv"};
    input.format = io::Format::kCsv;
    input.batch_rows = 16;
    input.split_bytes = 400;
    input.mode = mode;
    input.lanes = 4;
    const std::string script = source_dir() + "/tests/client/python/commit.py";
    const auto run_part = [&](std::uint32_t workers, const std::string& folder,
                              const std::string& steps, std::string tag,
                              std::vector<io::LedgerState> from) {
      std::filesystem::create_directory(folder);
      const auto local = cluster(workers, 0, {input}, std::move(tag), std::move(from));
      EXPECT_TRUE(local);
      run(*local, workers, {script, folder, steps});
      return local->committed();
    };
    const std::string name = folder_ + "/" + std::to_string(static_cast<int>(mode));
    (void)run_part(1, name + "-whole", "100000", "", {});
    const auto [tag, states] = run_part(2, name + "-first", "11", "", {});
    EXPECT_EQ(tag, "after 11");
    ASSERT_EQ(states.size(), 1u);
    (void)run_part(4, name + "-rest", "100000", tag, states);
    const std::string check = source_dir() + "/tests/client/python/commit_check.py";
    EXPECT_EQ(std::system((python_ + " " + check + " " + name + " " +
                           (mode == io::Mode::kDeterministic ? "ordered" : "any"))
                              .c_str()),
              0);
  }
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
