#pragma once
/// runtime/cluster/actor/task_dir.h: the directory of a task on its node, which outlives the agent.
///   task                   PrepareTask (control.capnp)
///   start                  StartTask, once it was asked
///   ready                  TaskUpdate with the sockets
///   cleaned                the end was acknowledged: only logs still to be shipped keep the
///                          directory
///   work/                  the program's directory; the files of its framework lie in it
///   logs/, spec, exit, ... the shim's (runtime/shim/spec.h)
/// Errors: kResourceExhausted (disk full), kIo, kCorrupt.
/// Threads: plain functions.

#include <string>
#include <vector>

#include "runtime/cluster/core/agent_core.h"

namespace dlrun::cluster {

/// "j12.worker.0.g1"; a role's name has no '/' (spec_check).
std::string task_dir_name(const TaskId& task);

Status make_task_dir(const std::string& dir, const PrepareTask& task);
/// Into work/, readable by the task alone. kInvalidArgument for a name that is no plain file name.
Status write_task_files(const std::string& dir, const std::vector<TaskFile>& files);
std::string task_file_path(const std::string& dir, const TaskFile& file);
Status write_start(const std::string& dir, const StartTask& start);
Status write_ready(const std::string& dir, const TaskId& task, const TaskReadyInfo& ready);
Status mark_cleaned(const std::string& dir);
/// These two take as long as what the program left is large.
void remove_work(const std::string& dir);
void remove_task_dir(const std::string& dir);

struct FoundDir {
  std::string dir;
  FoundTask found;
  bool cleaned = false;
  bool has_shim = false;  ///< a spec lies in it: ShimClient::attach
};
/// Every task under `root`. A directory that cannot be read is named in `broken`, and left alone.
std::vector<FoundDir> scan_task_dirs(const std::string& root, std::vector<std::string>* broken);

}  // namespace dlrun::cluster
