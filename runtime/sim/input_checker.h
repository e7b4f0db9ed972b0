#pragma once
/// runtime/sim/input_checker.h: who has read what of a job's inputs.
///   a split is released once per generation, by one reader, unless that reader failed: whatever
///     else dies, feeders and agents included
///   a job that succeeds has released every split of every pass, but those of the commit that its
///     generation began from; of these it reads none
///   a commit covers every split that was released by those who stand at it, and none that nobody
///     released in this generation or before an earlier commit

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "io/core/msg.h"
#include "runtime/base/ids.h"
#include "runtime/sim/ps_checker.h"

namespace dlrun::sim {

class InputChecker {
 public:
  explicit InputChecker(std::function<void(std::string)> violated)
      : violated_(std::move(violated)) {}

  /// The file table of the generation: so many splits a pass.
  void on_splits(const PsJob& job, const io::InputSpec& input, std::uint64_t splits);
  bool opened(const PsJob& job, const std::string& input) {
    return jobs_[job].per_pass.contains(input);
  }
  void on_committed(const PsJob& job, const std::set<TaskId>& ranks, const io::InputSpec& input,
                    const io::LedgerState& state);
  void on_released(const TaskId& reader, const std::string& input, const io::Split& split);
  void on_reader_over(const TaskId& reader, bool well) {
    if (!well) jobs_[ps_job(reader)].failed.insert(reader);
  }
  void on_succeeded(const PsJob& job);

  std::uint64_t releases() const { return releases_; }
  std::uint64_t commits() const { return commits_; }

 private:
  struct Job {
    std::map<std::string, std::uint64_t> splits;         ///< of an input, all passes
    std::map<std::string, std::uint64_t> per_pass;       ///< of an input
    std::map<std::string, std::set<io::SplitKey>> base;  ///< committed before it began
    std::map<std::pair<std::string, io::SplitKey>, TaskId> released;
    std::set<TaskId> failed;
  };
  std::function<void(std::string)> violated_;
  std::map<PsJob, Job> jobs_;
  /// The last commit of an input.
  std::map<std::pair<JobId, std::string>, std::set<io::SplitKey>> committed_;
  std::uint64_t releases_ = 0, commits_ = 0;
};

}  // namespace dlrun::sim
