#include "runtime/os/fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace dlrun::os {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Fd::reset() { close_fd(fd_); }

void close_fd(int& fd) {
  const int kept = errno;
  if (fd >= 0) ::close(fd);
  fd = -1;
  errno = kept;
}

Status write_all(int fd, std::string_view bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(what);
    if (n == 0) return fail(Errc::kIo, what + ": nothing was taken");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<Fd> make_eventfd() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return fail_errno("eventfd");
  return fd;
}

void ring_eventfd(int fd) {
  const std::uint64_t one = 1;
  ssize_t n = 0;
  do {
    n = ::write(fd, &one, sizeof one);
  } while (n < 0 && errno == EINTR);  // EAGAIN: it is as awake as can be
}

void drain_eventfd(int fd) {
  std::uint64_t count = 0;
  ssize_t n = 0;
  do {
    n = ::read(fd, &count, sizeof count);
  } while (n < 0 && errno == EINTR);
}

}  // namespace dlrun::os
