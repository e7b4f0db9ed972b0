#pragma once
/// runtime/shim/exec_child.h: starts the program with all its conditions, and says exactly what
/// failed when it could not.

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/shim/spec.h"

namespace dlrun::shim {

struct ChildSetup {
  const Spec* spec = nullptr;
  std::string cwd;
  std::vector<std::string> env;   ///< complete
  std::string cgroup_v2;          ///< "" = none
  std::vector<std::string> join;  ///< v1 groups
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;
};

/// The program runs (exec succeeded) in its own session.
/// Errors: kNotFound, kPermissionDenied, kInvalidArgument, ... with a sentence for a person:
/// unknown program, not executable, no such directory, interpreter missing, ...
/// kUnsupported: the kernel refuses to clone into this cgroup; try without.
/// Precondition: one thread; every descriptor close-on-exec.
Result<pid_t> start_child(const ChildSetup& setup);

}  // namespace dlrun::shim
