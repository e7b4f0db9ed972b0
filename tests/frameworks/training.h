#pragma once
/// tests/frameworks/training.h: a real framework trains a real model across three agents of a
/// cluster that `dlrun up` starts, by the job file of its folder in examples/, as a newcomer runs
/// it. Its interpreter: $DLRUN_FRAMEWORKS/NAME/bin (tools/frameworks.sh makes it), or Debian's. One
/// that could not be had is a failure with the reason. Data: $DLRUN_DATA_DIR; without it the tests
/// are skipped and say so.
/// Threads: single owner.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/time.h"

namespace dlrun::frameworks {

/// How `dlrun run` ended.
struct Ran {
  int code = -1;
  std::string text;    ///< stdout and stderr
  double seconds = 0;  ///< from submit to the end
  nlohmann::json job;  ///< `dlrun show --json`
  std::set<std::string> nodes(const std::string& role) const;
  /// The number behind `words`; -1 when they are not there.
  double number_after(const std::string& words) const;
};

class Training : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// PATH begins with the environment of this framework; "" = Debian's own interpreter. A failure
  /// when it is not there.
  void use(const std::string& framework);
  /// `dlrun run` with these words, in `folder` of examples/; DATA is `data` of $DLRUN_DATA_DIR.
  Ran run(const std::string& folder, std::vector<std::string> words, const std::string& data,
          std::map<std::string, std::string> env = {});
  /// The same while EPOCHS and STEPS have no end: waits until `sign` holds, kills the program of
  /// `task` ("server/0") with SIGKILL, and returns how the job ended; seconds: from the kill.
  Ran run_and_kill(const std::string& folder, std::vector<std::string> words,
                   const std::string& data, const std::string& task,
                   const std::function<bool(const std::string& output)>& sign,
                   std::map<std::string, std::string> env = {});
  /// Ended well, with its workers on as many agents as there are workers.
  void expect_across(const Ran& ran, std::size_t workers = 2);
  /// A program and its arguments, to the end.
  std::pair<int, std::string> call(std::vector<std::string> argv, Duration limit,
                                   const std::map<std::string, std::string>& env = {},
                                   const std::string& cwd = "/");

  std::string folder_, path_;

 private:
  std::vector<std::string> words_of(std::vector<std::string> argv,
                                    const std::map<std::string, std::string>& env,
                                    const std::string& cwd) const;
  std::string next_log() { return folder_ + "/call-" + std::to_string(++runs_) + ".txt"; }
  nlohmann::json last_job();
  int runs_ = 0;
  bool up_ = false;
};

}  // namespace dlrun::frameworks
