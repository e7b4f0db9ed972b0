/// The examples as their README runs them, on LocalCluster. Full size with $DLRUN_LONG.

#include <iostream>

#include "tests/client/python_worker.h"

namespace dlrun::test {
namespace {

double number_after(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + word.size(), nullptr);
}

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char piece[4096];
  for (std::size_t n; (n = std::fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, n);
  return ::pclose(pipe) == 0 ? text : "failed: " + text;
}

class Examples : public PythonWorker {};

TEST_F(Examples, DigitsReachATestAccuracyOf093AndLeaveAModel) {
  const std::string digits = source_dir() + "/examples/digits";
  ASSERT_EQ(output_of(python_ + " " + digits + "/prepare.py " + folder_).rfind("failed", 0),
            std::string::npos);
  io::InputSpec train;
  train.name = "train";
  train.uris = {folder_ + "/train.csv"};
  train.format = io::Format::kCsv;
  train.batch_rows = 32;
  train.passes = 30;
  train.split_bytes = 8 << 10;
  const auto local = cluster(2, 2, {train});
  ASSERT_TRUE(local);
  const std::string text = run(*local, 2, {digits + "/train.py", folder_});
  EXPECT_GE(number_after(text, "test accuracy "), 0.93) << text;
  EXPECT_TRUE(std::ifstream(folder_ + "/model.npy").good());
  EXPECT_DOUBLE_EQ(local->progress(0).fraction, 1.0);
  EXPECT_GE(local->progress(0).reports, 1u);  // one a pass, of which only the latest need arrive
  EXPECT_LE(local->progress(0).reports, 30u);
  std::cout << text;
}

/// 0.98 of what the planted weights have over a coin. The small one: 100,000 rows of 1,000 ids;
/// DLRUN_LONG: 1,000,000 of 10,000.
TEST_F(Examples, TheClickLoopReaches098OfThePlantedAuc) {
  const bool whole = std::getenv("DLRUN_LONG") != nullptr;
  const std::string size = whole ? "" : " --rows 100000 --test-rows 50000 --ids 1000";
  const double best =
      number_after(output_of(build_dir() + "/bin/ctr_gen " + folder_ + size), "best_auc ");
  ASSERT_GT(best, 0.75);
  io::InputSpec train;
  train.name = "train";
  train.uris = {folder_ + "/train.libsvm"};
  train.batch_rows = 512;
  train.passes = 3;
  train.split_bytes = 256 << 10;
  io::InputSpec test = train;
  test.name = "test";
  test.uris = {folder_ + "/test.libsvm"};
  test.passes = 1;
  const auto local = cluster(2, 2, {train, test});
  ASSERT_TRUE(local);
  const std::string out = folder_ + "/loop";
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(local->spawn(rank, {build_dir() + "/bin/ctr_lr", folder_ + "/model.npy"}, {}, out));
  }
  const auto codes = local->wait(std::chrono::seconds(whole ? 3000 : 300));
  std::ostringstream text;
  text << std::ifstream(out).rdbuf();
  ASSERT_TRUE(codes) << codes.error().to_string() << text.str();
  EXPECT_EQ(*codes, std::vector<int>({0, 0})) << text.str();
  const double got = number_after(text.str(), "test auc ");
  EXPECT_GE(got, 0.5 + 0.98 * (best - 0.5)) << text.str();
  std::cout << "best " << best << ", wanted " << 0.5 + 0.98 * (best - 0.5) << ", " << text.str();
}

}  // namespace
}  // namespace dlrun::test
