#pragma once
/// runtime/sim/input_checker.h: who has read what of a job's inputs.
///   a split is released once per generation, by one reader, unless that reader failed: whatever
///     else dies, feeders and agents included
///   a job that succeeds has released every split of every pass

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

  void on_splits(const PsJob& job, const std::string& input, std::uint64_t splits) {
    jobs_[job].splits[input] = splits;
  }
  void on_released(const TaskId& reader, const std::string& input, const io::Split& split);
  void on_reader_over(const TaskId& reader, bool well) {
    if (!well) jobs_[ps_job(reader)].failed.insert(reader);
  }
  void on_succeeded(const PsJob& job);

  std::uint64_t releases() const { return releases_; }

 private:
  struct Job {
    std::map<std::string, std::uint64_t> splits;  ///< of an input, all passes
    std::map<std::pair<std::string, io::SplitKey>, TaskId> released;
    std::set<TaskId> failed;
  };
  std::function<void(std::string)> violated_;
  std::map<PsJob, Job> jobs_;
  std::uint64_t releases_ = 0;
};

}  // namespace dlrun::sim
