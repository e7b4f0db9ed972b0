#pragma once
/// runtime/shim/shim_client.h: the agent's side of its shims. One epoll thread for all; no thread
/// per task. No CAF. A task is named by its directory (absolute path). Every task that was spawned
/// or attached gets exactly one kEnded event.
///
/// States (ShimPhase): Starting -1-> Running -2-> Stopping -3-> Ended; Starting, Running -3-> Ended
///   1: exec succeeded. 2: stop() or kill(), the time limit, or the program ended and left
///      processes behind.
///   3: the tree is empty and the cause is on disk; or the program could not be started
///      (kStartFailed, the detail names the program, the stage and the reason); or the shim itself
///      died: then the tree is killed here until it is empty, cause kShimLost. A tree that does not
///      empty within Spec::give_up_ms after KILL ends as kShimLost too, and the detail says so.
/// The agent's death touches neither shims nor tasks; attach() takes them up again.
/// Threads: methods from any thread, none blocks; `on_event` on the client's thread, one at a time;
/// it must not block.

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/cluster/core/msg.h"
#include "runtime/shim/spec.h"

namespace dlrun::shim {

struct ShimEvent {
  std::string task_dir;
  Phase phase = Phase::kStarting;
  std::int64_t pid = 0;   ///< of the program; 0 before kRunning
  std::string isolation;  ///< "cgroup v2", "cgroup v1", "best effort"
  cluster::TaskEnd end;   ///< when kEnded
  std::string warning;    ///< what the shim could not do as asked
};

class ShimClient {
 public:
  struct Options {
    std::string shim_program;  ///< path of dlrun-shim
    std::function<void(const ShimEvent&)> on_event;
  };
  static Result<std::unique_ptr<ShimClient>> start(Options options);
  ~ShimClient();  ///< lets go of the shims; they and their tasks run on

  /// Makes the directory's files and starts a shim; the outcome comes as events (kRunning, or
  /// kEnded with kStartFailed). kAlreadyExists when the directory is known here or holds a spec
  /// already; kInvalidArgument for a spec that cannot be run.
  Status spawn(const std::string& task_dir, Spec spec);
  /// Takes up the task of a directory that an earlier agent made: its present state comes as an
  /// event at once (kEnded if it ended meanwhile). kNotFound when there is no spec in it.
  Status attach(const std::string& task_dir);
  /// TERM to the whole tree, `grace`, KILL. Unknown or ended: kNotFound.
  Status stop(const std::string& task_dir, Duration grace, cluster::Cause cause);
  Status kill(const std::string& task_dir, cluster::Cause cause);

  /// True while a shim holds the directory's lock.
  static bool shim_alive(const std::string& task_dir);

 private:
  class Impl;
  explicit ShimClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::shim
