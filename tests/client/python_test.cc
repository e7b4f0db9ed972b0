/// The Python package in real interpreters, against real shards and a real feeder.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/client/python_worker.h"
#include "tests/client/worker_inputs.h"

namespace dlrun::test {
namespace {

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

TEST_F(PythonTest, ATaskOfMpiRunsCommandsForWhoShowsTheJobsSecretAndForNobodyElse) {
  const std::string script = source_dir() + "/tests/client/python/mpi_slot.py";
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
    const auto tables = cluster(2, 2, {});
    ASSERT_TRUE(tables);
    run(*tables, 2, {script("pending.py"), folder});
    const auto batches = cluster(1, 0, all_inputs(folder));
    ASSERT_TRUE(batches);
    run(*batches, 1, {script("exports.py")});
  }
  if (ran == 0) GTEST_SKIP() << "no other CPython from 3.9 on here: DLRUN_OTHER_PYTHONS is empty";
}

TEST_F(PythonTest, ATermHandlerRunsWhileACallWaits) {
  const auto local = cluster(2, 1, {});
  ASSERT_TRUE(local);
  run(*local, 2, {source_dir() + "/tests/client/python/term.py"});
}

TEST_F(PythonTest, NamedColumnsOfATypedInputAreNumpyViews) {
  const auto local = cluster(1, 0, typed_inputs(folder_));
  ASSERT_TRUE(local);
  run(*local, 1, {source_dir() + "/tests/client/python/typed_input.py"});
}

TEST_F(PythonTest, EveryOptionOfATableReachesTheShards) {
  const auto local = cluster(2, 2, {});
  ASSERT_TRUE(local);
  run(*local, 2, {script("tables.py"), folder_});
}

TEST_F(PythonTest, PullsAndPushesUnderWaySeeWhatWasThereAndHoldUpNobody) {
  const auto local = cluster(2, 2, {});
  ASSERT_TRUE(local);
  run(*local, 2, {script("pending.py"), folder_});
}

TEST_F(PythonTest, ABatchIsForOtherLibrariesAsItLies) {
  const auto local = cluster(1, 0, all_inputs(folder_));
  ASSERT_TRUE(local);
  const bool arrow = runs(python_, "import pyarrow");
  run(*local, 1, {script("exports.py"), arrow ? "arrow" : "-"});
  if (!arrow) GTEST_SKIP() << python_ << " has no pyarrow: to_arrow() was NOT tested, the rest was";
}

TEST_F(PythonTest, LibrariesMayBeLoadedBeforeAndAfterDlrun) {
  std::vector<std::string> argv = {script("imports.py"), "{rank}"};
  std::string missing;
  for (const char* module : {"sklearn.linear_model", "zmq", "pyarrow"}) {
    if (runs(python_, std::string("import ") + module)) {
      argv.push_back(module);
    } else {
      missing += std::string(" ") + module;
    }
  }
  const auto local = cluster(2, 1, inputs(folder_));
  ASSERT_TRUE(local);
  run(*local, 2, argv);
  if (!missing.empty()) GTEST_SKIP() << python_ << " has no" << missing << ": NOT tested";
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
