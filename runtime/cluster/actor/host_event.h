#pragma once
/// runtime/cluster/actor/host_event.h: what an agent's host tells its core: shims, directories and
/// processes of the node.

#include <string>
#include <variant>
#include <vector>

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

struct TaskPrepared {
  TaskId task;
  Status status;
};
struct TaskStarted {
  TaskId task;
  std::int64_t pid = 0;
  std::string warning;
};
struct TaskExited {
  TaskId task;
  TaskEnd end;
};
struct TaskIsReady {
  TaskId task;
  TaskReadyInfo info;
};
struct TaskProgress {
  TaskId task;
  double fraction = 0;
  std::string text;
};
struct TaskAtBarrier {
  TaskId task;
  std::string name;
  std::uint64_t round = 0;
};
struct TaskFiles {
  TaskId consumer;
  std::string input;
  std::vector<io::FileEntry> files;
  std::uint64_t request = 0;
};
struct TaskLease {
  TaskId consumer;
  std::string input;
  std::uint32_t splits_max = 1;
  std::uint64_t request = 0;
  bool resync = false;
  std::vector<io::SplitKey> held;
  std::vector<io::SplitKey> done;
  std::vector<io::StepReport> steps;
};
struct TaskCommits {
  TaskId task;
  std::uint64_t id = 0;
  std::string tag;
  std::vector<io::InputCursor> inputs;
};
struct TaskPublishing {
  TaskId task;
  Epoch epoch;
  std::uint64_t progress = 0;  ///< files and folders that are done
};
struct TaskPublished {
  TaskId task;
  Epoch epoch;
  Status status;
};
using HostEvent =
    std::variant<TaskPrepared, TaskStarted, TaskExited, TaskIsReady, TaskProgress, TaskAtBarrier,
                 TaskFiles, TaskLease, TaskPublishing, TaskPublished, TaskCommits>;

}  // namespace dlrun::cluster
