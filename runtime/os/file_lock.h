#pragma once
/// runtime/os/file_lock.h: flock on a file that is made (0600) when missing. The kernel lets go of
/// it when its holder dies, kill -9 included.
/// Threads: single owner.

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/os/fd.h"

namespace dlrun::os {

class FileLock {
 public:
  enum class Mode { kShared, kExclusive };
  /// Not locked yet.
  static Result<FileLock> open(const std::string& path);
  /// Locked exclusively, our pid written into it. kFailedPrecondition: held by another; the context
  /// is "PATH is used by another process (pid N)". When process N is dead, its last forks are
  /// waited for, at most 2 s.
  static Result<FileLock> hold(const std::string& path);

  bool try_lock(Mode mode);
  bool lock_within(Mode mode, Duration limit);  ///< looks again every 5 ms
  void lock(Mode mode);                         ///< waits for ever
  void unlock();

 private:
  explicit FileLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace dlrun::os
