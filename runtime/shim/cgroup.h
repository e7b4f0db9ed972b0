#pragma once
/// runtime/shim/cgroup.h: a control group of a task's own, where one can be made.
/// First choice: a child of our group in the v2 hierarchy (works without controllers: cgroup.kill,
/// clone into it).
/// Second: a child in v1's freezer or pids hierarchy. A memory limit comes from v2's memory
/// controller where it is delegated, else from v1's memory hierarchy. Nothing writable: no group,
/// "best effort".
/// Single-threaded; never throws; owns nothing but the directories it made.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace dlrun::shim {

/// Where groups can be made, read from /proc/self/mountinfo and /proc/self/cgroup; "" = nowhere.
struct CgroupHome {
  std::string v2;          ///< our group's directory in the v2 hierarchy
  std::string v1_tracker;  ///< in v1's freezer, else pids
  std::string v1_memory;
};
CgroupHome find_cgroup_home();
/// For tests: from the text of the two files.
CgroupHome parse_cgroup_home(const std::string& mountinfo, const std::string& self_cgroup);

struct TaskCgroups {
  std::string isolation = "best effort";  ///< "cgroup v2", "cgroup v1"
  std::string v2;                         ///< clone the program into it
  std::vector<std::string> join;  ///< v1: the program writes itself into cgroup.procs of these
  std::string memory;             ///< where the limit is; "" = no limit could be set
  bool memory_is_v2 = false;

  std::vector<std::string> all() const;
};
/// Never fails: what cannot be made is left out.
TaskCgroups make_task_cgroups(const CgroupHome& home, const std::string& name,
                              std::uint64_t memory_bytes);

std::uint64_t cgroup_oom_kills(const TaskCgroups& groups);
std::uint64_t cgroup_peak_bytes(const TaskCgroups& groups);  ///< 0 = not known

/// Every process in the group and the groups below it.
std::vector<pid_t> cgroup_pids(const std::string& group);
/// SIGKILL to all in it, by cgroup.kill where there is one, else one by one (frozen first where
/// that works).
void cgroup_kill(const std::string& group);
/// Removes the group and those below it. False when something is still in it.
bool cgroup_remove(const std::string& group);

}  // namespace dlrun::shim
