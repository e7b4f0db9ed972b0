#include "runtime/cluster/actor/outputs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/cluster/core/job_record.h"
#include "tests/security/temp_folder.h"

namespace dlrun::cluster {
namespace {

namespace fs = std::filesystem;
using security::TempFolder;

TaskId task_of(std::uint32_t generation) {
  return {JobId(12), "worker", 0, Generation(generation)};
}

struct OutputsTest : testing::Test {
  TempFolder temp;
  OutputSpec model{"model", temp / "deep/model", "worker"};
  void write(std::uint32_t generation, const std::string& text) {
    std::ofstream(staging_path(model, task_of(generation)) + "/weights") << text;
  }
  std::string read() const {
    std::ifstream file(model.path + "/weights");
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(OutputsTest, AnOutputAppearsWholeAndOnlyWithTheCommitWhichMayComeTwice) {
  ASSERT_TRUE(make_output_dirs(task_of(1), {model}).has_value());
  write(1, "w");
  EXPECT_FALSE(fs::exists(model.path));
  const CommitOutputs commit{task_of(1), Epoch{1, 4}, {model}};
  ASSERT_TRUE(publish_outputs(commit).has_value());
  EXPECT_EQ(read(), "w");
  EXPECT_TRUE(fs::exists(model.path + "/_SUCCESS"));
  EXPECT_FALSE(fs::exists(staging_path(model, task_of(1))));
  EXPECT_TRUE(publish_outputs(commit).has_value()) << "a repeat";
  CommitOutputs other = commit;
  other.epoch = Epoch{1, 5};
  EXPECT_EQ(publish_outputs(other).error().code, Errc::kNotFound) << "not its own";
}

TEST_F(OutputsTest, ManyFilesAppearTogetherToo) {
  ASSERT_TRUE(make_output_dirs(task_of(1), {model}).has_value());
  const fs::path staged = staging_path(model, task_of(1));
  fs::create_directories(staged / "deep");
  for (int i = 0; i < 300; ++i) std::ofstream(staged / "deep" / std::to_string(i)) << i;
  int steps = 0;
  ASSERT_TRUE(publish_outputs({task_of(1), Epoch{1, 4}, {model}}, [&] { ++steps; }).has_value());
  EXPECT_EQ(steps, 300 + 2 + 1) << "each file, _SUCCESS and folder, and the rename";
  EXPECT_EQ(std::distance(fs::directory_iterator(model.path + "/deep"), {}), 300);
  EXPECT_TRUE(fs::exists(model.path + "/_SUCCESS"));
}

TEST_F(OutputsTest, APathThatIsTakenIsRefusedBeforeAnythingRunsAndNeverReplaced) {
  fs::create_directories(model.path);
  EXPECT_TRUE(make_output_dirs(task_of(1), {model}).has_value()) << "an empty folder is no loss";
  write(1, "new");
  std::ofstream(model.path + "/weights") << "old";
  EXPECT_EQ(make_output_dirs(task_of(1), {model}).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(publish_outputs({task_of(1), Epoch{1, 1}, {model}}).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(read(), "old");
}

TEST_F(OutputsTest, OfTwoOutputsNoneAppearsWhenThePathOfTheSecondWasTakenMeanwhile) {
  const OutputSpec report{"report", temp / "report", "worker"};
  const CommitOutputs commit{task_of(1), Epoch{1, 4}, {model, report}};
  ASSERT_TRUE(make_output_dirs(task_of(1), commit.outputs).has_value());
  write(1, "w");
  std::ofstream(report.path) << "another's";
  const Status refused = publish_outputs(commit);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kAlreadyExists);
  EXPECT_FALSE(fs::exists(model.path));
  EXPECT_TRUE(fs::exists(staging_path(model, task_of(1)) + "/weights"));
  fs::remove(report.path);
  EXPECT_TRUE(publish_outputs(commit).has_value());
  EXPECT_EQ(read(), "w");
}

TEST_F(OutputsTest, WhatTookItsPlaceBeforeTheAgentWasKilledIsTakenBackWhenTheRestCannotFollow) {
  const OutputSpec report{"report", temp / "report", "worker"};
  ASSERT_TRUE(make_output_dirs(task_of(1), {model, report}).has_value());
  write(1, "w");
  ASSERT_TRUE(publish_outputs({task_of(1), Epoch{1, 4}, {model}}).has_value());  // half of it
  std::ofstream(report.path) << "another's";
  EXPECT_FALSE(publish_outputs({task_of(1), Epoch{1, 4}, {model, report}}).has_value());
  EXPECT_FALSE(fs::exists(model.path));
  EXPECT_TRUE(fs::exists(staging_path(model, task_of(1)) + "/weights"));
  EXPECT_FALSE(fs::exists(staging_path(model, task_of(1)) + "/_SUCCESS"));
}

TEST_F(OutputsTest, WhenTheSecondRenameFailsTheFirstIsTakenBack) {
  fs::create_directories(temp / "deep");
  fs::create_directory_symlink(temp / "deep", temp / "door");
  const OutputSpec same{"same", temp / "door/model", "worker"};  // one folder by two names
  const CommitOutputs commit{task_of(1), Epoch{1, 4}, {model, same}};
  ASSERT_TRUE(make_output_dirs(task_of(1), commit.outputs).has_value());
  write(1, "w");
  const Status refused = publish_outputs(commit);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().context.find("output same"), std::string::npos);
  EXPECT_EQ(refused.error().context.find("stays"), std::string::npos) << refused.error().context;
  EXPECT_FALSE(fs::exists(model.path));
  EXPECT_TRUE(fs::exists(staging_path(model, task_of(1)) + "/weights"));
}

TEST_F(OutputsTest, ANewGenerationStartsEmptyAndRemovesWhatTheLastOneLeft) {
  ASSERT_TRUE(make_output_dirs(task_of(1), {model}).has_value());
  write(1, "half");
  ASSERT_TRUE(make_output_dirs(task_of(2), {model}).has_value());
  EXPECT_TRUE(fs::exists(staging_path(model, task_of(1)))) << "no start waits for its removal";
  remove_earlier_outputs(task_of(2), {model});
  EXPECT_FALSE(fs::exists(staging_path(model, task_of(1))));
  EXPECT_TRUE(fs::is_empty(staging_path(model, task_of(2))));
}

TEST(OutputVariable, HoldsLettersAndDigitsOnly) {
  EXPECT_EQ(output_variable({"model-a.1", "/x", "worker"}), "DLRUN_OUTPUT_MODEL_A_1");
}

}  // namespace
}  // namespace dlrun::cluster
