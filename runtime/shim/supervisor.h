#pragma once
/// runtime/shim/supervisor.h: the shim itself: one program, its tree, its two log streams, its exit
/// cause.
///
///   agent --spec--> [spec] ----> Supervisor ---- clone, exec ---> program ... its tree
///   agent <==shim.sock==> report, stop, kill        <-- pipes ---- stdout, stderr
///                         logs/<stream>.<offset> <---'
///                                                   <-- SIGCHLD -- (subreaper: all orphans)
///                        [exit] <---- when no child is left
///
/// States: Starting -1-> Running -2-> Stopping -3-> Ended; Running -3-> Ended
///   1: exec succeeded. 2: a stop, the time limit, or the program ended and left processes. 3: no
///   child is left (waitpid says ECHILD: the shim is a subreaper, so that means the whole tree), or
///   give_up_ms after KILL.
/// One thread, poll().
/// Memory: two buffers of 64 KiB and a few small strings.
/// Errors: of the file system never stop the task.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/os/signals.h"
#include "runtime/shim/cgroup.h"
#include "runtime/shim/log_files.h"
#include "runtime/shim/spec.h"

namespace dlrun::shim {

class Supervisor {
 public:
  /// The working directory is the task directory. `lock_fd` is the held lock; `agent_fd` a
  /// connected socket, or -1.
  Supervisor(int lock_fd, int agent_fd);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// From spec to exit record. Returns the process's exit code: 0, or 1 when not even a record
  /// could be written.
  int run();

 private:
  struct Output {
    int fd = -1;
    LogWriter* log = nullptr;
  };

  Status prepare();  ///< spec, signals, socket, logs
  Status start();    ///< cgroups, tree file, program
  void loop();
  void reap();  ///< waitpid until none is ready
  void begin_stop(EndCause cause, std::uint64_t grace_ms);
  void on_timers(std::int64_t now_ms);
  void kill_round(std::int64_t now_ms);
  std::int64_t next_deadline() const;
  bool pump(Output& output);  ///< one read; false at the end or when nothing is there
  void accept_peer();
  bool on_peer(int fd);  ///< false: it is gone
  void report_to(int fd);
  void report();
  Exit make_exit();
  int finish(Exit exit);

  Spec spec_;
  Tree tree_;
  TaskCgroups groups_;
  std::string task_dir_;
  int lock_fd_, listen_fd_ = -1;
  std::optional<os::SignalFd> signals_;  ///< once prepared
  std::vector<int> peers_;
  Output out_[2];
  std::unique_ptr<LogWriter> logs_[2];

  Phase phase_ = Phase::kStarting;
  pid_t pid_ = 0;
  bool main_ended_ = false, tree_empty_ = false, gave_up_ = false;
  int wait_status_ = 0;
  std::uint64_t max_rss_bytes_ = 0;
  EndCause stop_cause_ = EndCause::kNone;  ///< kNone: nobody asked
  std::int64_t time_limit_at_ = -1, kill_at_ = -1, next_kill_at_ = -1, give_up_at_ = -1;
  std::int64_t kill_pause_ms_ = 10;
  Exit exit_;
};

}  // namespace dlrun::shim
