#pragma once
/// launcher/process.h: daemons that the launcher starts: spawn, recognise, end. Linux only (/proc).

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/os/file_lock.h"
#include "runtime/os/files.h"

namespace dlrun::launcher {

/// A process that cannot be mistaken for a later one with the same pid.
struct ProcessMark {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat
};

/// Not a zombie, and the one that was marked.
bool alive(const ProcessMark& mark);
Result<ProcessMark> mark_of(pid_t pid);

struct SpawnOptions {
  std::vector<std::string> argv;
  std::string log_path;  ///< stdout and stderr are appended; stdin is /dev/null
  bool own_session = false;
  int death_signal = 0;  ///< PR_SET_PDEATHSIG
};
/// kIo names what failed; a program that cannot be executed is found out here.
Result<ProcessMark> spawn(const SpawnOptions& options);

/// TERM, then KILL after `grace`; only while it is the marked process. True when it is gone. Reaps
/// it when it is a child.
bool end_process(const ProcessMark& mark, Duration grace);

Status make_folders(const std::string& path);  ///< mkdir -p, 0700
using os::read_file;
using os::write_file;
std::string tail_of(const std::string& path, std::size_t bytes);

using os::FileLock;

}  // namespace dlrun::launcher
