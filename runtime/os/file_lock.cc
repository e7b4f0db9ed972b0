#include "runtime/os/file_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

namespace dlrun::os {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(5);
constexpr Duration kLeftByTheDead = std::chrono::seconds(2);

bool is_dead(long pid) {
  return pid > 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

int operation_of(FileLock::Mode mode) {
  return mode == FileLock::Mode::kShared ? LOCK_SH : LOCK_EX;
}

}  // namespace

Result<FileLock> FileLock::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return fail_errno("open " + path);
  return FileLock(std::move(fd));
}

Result<FileLock> FileLock::hold(const std::string& path) {
  DLRUN_ASSIGN(FileLock lock, open(path));
  const int fd = lock.fd_.get();
  const auto until = std::chrono::steady_clock::now() + kLeftByTheDead;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno("lock " + path);
    char pid[32] = {};
    const ssize_t n = ::pread(fd, pid, sizeof pid - 1, 0);
    // One that was killed while it started a program leaves its lock with the fork until the exec.
    const bool dead = n > 0 && is_dead(std::strtol(pid, nullptr, 10));
    if (!dead || std::chrono::steady_clock::now() > until)
      return fail(Errc::kFailedPrecondition,
                  path + " is used by another process (pid " + (n > 0 ? pid : "?") + ")");
    std::this_thread::sleep_for(kPoll);
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return fail_errno("write " + path);
  return lock;
}

bool FileLock::try_lock(Mode mode) { return ::flock(fd_.get(), operation_of(mode) | LOCK_NB) == 0; }

bool FileLock::lock_within(Mode mode, Duration limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!try_lock(mode)) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

void FileLock::lock(Mode mode) {
  while (::flock(fd_.get(), operation_of(mode)) != 0 && errno == EINTR) {
  }
}

void FileLock::unlock() { ::flock(fd_.get(), LOCK_UN); }

}  // namespace dlrun::os
