#pragma once
/// runtime/os/signals.h: signals that are read from a descriptor instead of interrupting.
/// Errors: kIo, kResourceExhausted of the system.
/// Threads: opened before any other thread is made, as those inherit what is blocked; read by one.

#include <csignal>
#include <initializer_list>
#include <optional>

#include "runtime/os/fd.h"

namespace dlrun::os {

class SignalFd {
 public:
  /// Blocks `signals` in this thread and in all that it starts, for good: what is not read when the
  /// process ends is forgotten with it. `how`: SIG_BLOCK, or SIG_SETMASK to block nothing else.
  static Result<SignalFd> open(std::initializer_list<int> signals, int how = SIG_BLOCK);
  int get() const { return fd_.get(); }  ///< readable: next() has one
  /// The number of one that has come; nullopt = none.
  std::optional<int> next();

 private:
  explicit SignalFd(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace dlrun::os
