#pragma once
/// runtime/cluster/actor/latest_progress.h: between the thread that hears processes and the one
/// that works: of each task's progress only the latest waits, however often a script reports.
/// Bounds: one report per task with an open socket.
/// Threads: any.

#include <mutex>
#include <unordered_map>
#include <utility>

#include "runtime/task/msg.h"

namespace dlrun::cluster {

class LatestProgress {
 public:
  /// True: none of this task was waiting: tell the worker. False: it is told already.
  bool put(const TaskId& task, task::ReportProgress report) {
    const std::lock_guard lock(mutex_);
    return waiting_.insert_or_assign(task, std::move(report)).second;
  }
  /// The latest, once for each put() that was true.
  task::ReportProgress take(const TaskId& task) {
    const std::lock_guard lock(mutex_);
    const auto node = waiting_.extract(task);
    return node ? std::move(node.mapped()) : task::ReportProgress{};
  }

 private:
  std::mutex mutex_;
  std::unordered_map<TaskId, task::ReportProgress> waiting_;
};

}  // namespace dlrun::cluster
