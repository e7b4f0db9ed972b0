#pragma once
/// launcher/process.h: daemons that the launcher starts: spawn, recognise, end. Linux only (/proc).

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

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

/// TERM, then KILL after `grace`; only while it is the marked process. True when it is gone. Reaps it when it is a child.
bool end_process(const ProcessMark& mark, Duration grace);

Status make_folders(const std::string& path);  ///< mkdir -p, 0700
/// Whole, by rename, 0600.
Status write_file(const std::string& path, std::string_view text);
Result<std::string> read_file(const std::string& path);
std::string tail_of(const std::string& path, std::size_t bytes);

/// flock on a file that is made when missing.
class FileLock {
 public:
  enum class Mode { kShared, kExclusive };
  static Result<FileLock> open(const std::string& path);
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept { return std::swap(fd_, other.fd_), *this; }
  ~FileLock();
  bool try_lock(Mode mode);
  bool lock_within(Mode mode, Duration limit);
  void lock(Mode mode);  ///< waits for ever
  void unlock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace dlrun::launcher
