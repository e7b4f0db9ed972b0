#pragma once
/// runtime/node/daemon.h: what both daemons need of the operating system: a data folder of their
/// own, signals, one line logs, their own path.

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/os/file_lock.h"

namespace dlrun::node {

inline constexpr int kDataVersion = 1;  ///< of the layout of a data folder

/// A data folder that this process alone uses, for the life of the object (flock on DATA/lock,
/// which holds the pid).
class DataFolder {
 public:
  /// Makes it (0700). `kind`: "coordinator" or "agent". kFailedPrecondition: another process uses
  /// it (its pid), it is of another kind, or of a newer version; kPermissionDenied, kIo,
  /// kResourceExhausted: it cannot be written.
  static Result<std::unique_ptr<DataFolder>> open(const std::string& path, const std::string& kind);
  const std::string& path() const { return path_; }  ///< absolute
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  DataFolder(std::string path, os::FileLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  os::FileLock lock_;
};

/// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts later; ignores SIGPIPE.
/// First thing in a main.
class Signals {
 public:
  Signals();
  /// Until a signal (its number) or `limit` is over (0).
  int wait(Duration limit) const;
};

/// "2026-01-31T12:00:00.123Z agent: text" on stderr, in one write. Thread safe.
void log_line(const std::string& who, const std::string& text);

/// For a part without which the process is of no use: says `why`, ends the process with exit code 1
/// and no farewell. What it keeps is as safe as at a kill.
[[noreturn]] void end_with(const std::string& who, const Error& why);

/// Absolute path of the running program, symbolic links resolved.
Result<std::string> self_path();
/// dlrun-shim beside `self`, or where an install puts it. kNotFound names the places.
Result<std::string> find_shim(const std::string& self);

/// malloc settings of a daemon that sits idle most of the time: few arenas, memory given back.
void keep_memory_small();

}  // namespace dlrun::node
