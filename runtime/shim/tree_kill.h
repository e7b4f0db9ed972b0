#pragma once
/// runtime/shim/tree_kill.h: all processes of a task, however they were forked, and their end.
/// Found by: the task's cgroups; descent from the shim (a subreaper, so orphans stay below it);
/// DLRUN_MARK in the environment. With a cgroup the mark is not looked at: a cgroup cannot be left
/// by an ordinary program.

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/shim/spec.h"

namespace dlrun::shim {

std::string cgroup_name(std::uint64_t mark);  ///< "dlrun-<16 hex digits>"
std::string mark_env(std::uint64_t mark);     ///< "DLRUN_MARK=<16 hex digits>"

/// Processes of the tree; `shim` = the subreaper that they descend from (0 = it is dead). Never
/// contains `shim`, the caller, pid 1. Zombies are left out.
std::vector<pid_t> tree_pids(const Tree& tree, pid_t shim);
/// `signal` to each process of the tree, repeated until a pass finds nobody new (at most 5 passes).
void tree_signal(const Tree& tree, pid_t shim, int signal);
/// SIGKILL to the whole tree, once over.
void tree_kill(const Tree& tree, pid_t shim);
bool tree_remove_cgroups(const Tree& tree);

std::string boot_id();

/// Kills the tree of a dead shim step by step, so that a thread with other work can do it.
class OrphanReaper {
 public:
  /// Takes the directory's lock. kFailedPrecondition when the shim lives, kNotFound when there is
  /// no spec.
  static Result<OrphanReaper> begin(const std::string& task_dir, TimePoint now, Duration give_up);
  /// One round. True when it is over: result() is set. Call again in about 20 ms otherwise.
  bool step(TimePoint now);
  const Exit& result() const { return result_; }

  OrphanReaper(OrphanReaper&& other) noexcept;
  OrphanReaper& operator=(OrphanReaper&&) = delete;
  ~OrphanReaper();

 private:
  OrphanReaper() = default;
  std::string dir_;
  int lock_fd_ = -1;
  Tree tree_;
  Exit result_;
  TimePoint give_up_at_{};
  Duration give_up_{};
  int empty_rounds_ = 0;
  bool recorded_ = false;  ///< the shim had written its exit
  bool done_ = false;
};

}  // namespace dlrun::shim
