#pragma once
/// runtime/os/fd.h: the owner of a file descriptor, and what is done with bare ones.
/// Errors: those of the system, with `what` in front.
/// Threads: an Fd has a single owner; the functions are safe from any thread.

#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/result.h"

namespace dlrun::os {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

/// For descriptors in tables of their own: closes it when there is one, and leaves -1. errno is
/// kept.
void close_fd(int& fd);

/// All of `bytes`; an interrupted or partial write goes on.
Status write_all(int fd, std::string_view bytes, const std::string& what);

/// An eventfd, non-blocking and close-on-exec: one side sleeps on it in poll, the other rings.
/// Rings before the sleeper drains it count as one.
Result<Fd> make_eventfd();
void ring_eventfd(int fd);
void drain_eventfd(int fd);

}  // namespace dlrun::os
