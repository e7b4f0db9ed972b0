#pragma once
/// launcher/world.h: everything the launcher takes from outside, as a value: tests make their own,
/// launcher_main reads the real one.

#include <string>
#include <string_view>

#include "runtime/cluster/core/msg.h"

namespace dlrun::launcher {

/// docs/exit-codes.md. A job's own code (and 128 + signal, 121 to 124, 127, 130, 137) comes from
/// the cluster.
enum ExitCode : int {
  kOk = 0,
  kRefused = 1,        ///< the cluster said no: unknown job, job is over
  kUsage = 64,         ///< the command line is wrong
  kBadJob = 65,        ///< the job file or the job is wrong
  kUnreachable = 69,   ///< no cluster, or it does not answer
  kInternal = 70,      ///< a bug, or an answer that makes no sense
  kNotWritten = 74,    ///< stdout could not be written: disk full
  kNoPermission = 77,  ///< token refused, file not readable
  kTimedOut = 124,     ///< `wait --timeout` was over; also a job's time limit
};

struct World {
  std::string home;  ///< $DLRUN_HOME, or ~/.dlrun
  std::string cwd;
  std::string user;
  std::string self_exe;  ///< what to start daemons from
  cluster::EnvList environment;
  int out_fd = 1;
  int err_fd = 2;
  bool out_tty = false;
  bool err_tty = false;
  bool color = false;  ///< err_tty and no NO_COLOR
  int width = 80;
  /// One byte per signal: 'I' Ctrl-C, 'T' SIGTERM, 'H' the terminal went away; -1 = none.
  int interrupt_fd = -1;
  unsigned cores = 1;
  std::int64_t memory_bytes = 0;

  /// errno of the first write of out() that failed; EPIPE: the reader is gone. Others are told on
  /// err_fd then, and make an exit code of 0 kNotWritten.
  mutable int out_error = 0;

  /// Writes all of it, whatever EINTR and EAGAIN say; false when it cannot be written.
  bool out(std::string_view bytes) const;
  bool err(std::string_view bytes) const;
};

/// The launcher without the process around it. Never throws.
int run_cli(const std::vector<std::string>& args, const World& world);

}  // namespace dlrun::launcher
