#include "runtime/node/daemon.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/security/secret.h"

namespace dlrun::node {

Result<std::unique_ptr<DataFolder>> DataFolder::open(const std::string& given,
                                                     const std::string& kind) {
  std::error_code ec;
  const std::string path = std::filesystem::absolute(given, ec).lexically_normal().string();
  if (ec || given.empty()) return fail(Errc::kInvalidArgument, "not a folder: \"" + given + "\"");
  if (Status ok = security::make_private_folder(path); !ok) return fail_as("data folder", ok);
  const std::string lock_path = path + "/lock";
  const int fd = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return fail_errno("the data folder " + path + " is not writable: open " + lock_path);
  std::unique_ptr<DataFolder> out(new DataFolder(path, fd));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char pid[32] = {};
    const ssize_t n = ::pread(fd, pid, sizeof pid - 1, 0);
    const std::string holder = n > 0 ? std::string(pid, static_cast<std::size_t>(n)) : "?";
    return fail(Errc::kFailedPrecondition, "the data folder " + path +
                                               " is used by another process (pid " + holder +
                                               "): stop it, or choose another folder");
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return fail_errno("the data folder " + path + " is not writable: write " + lock_path);

  const std::string version_path = path + "/version";
  const std::string mine = kind + " " + std::to_string(kDataVersion) + "\n";
  const Result<std::string> version = security::read_file(version_path, 256);
  if (!version && version.error().code != Errc::kNotFound) return tl::unexpected(version.error());
  if (!version) DLRUN_TRY(security::write_private_file(version_path, mine));
  if (version && *version != mine) {
    const auto space = version->find(' ');
    if (space == std::string::npos || version->substr(0, space) != kind)
      return fail(Errc::kFailedPrecondition,
                  "the data folder " + path + " is not that of a " + kind);
    return fail(Errc::kFailedPrecondition,
                "the data folder " + path + " is of version " +
                    version->substr(space + 1, version->size() - space - 2) +
                    "; this dlrun knows " + std::to_string(kDataVersion) + " and leaves it alone");
  }
  return out;
}

DataFolder::~DataFolder() { ::close(lock_fd_); }

Signals::Signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

int Signals::wait(Duration limit) const {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
  timespec wait{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
  for (;;) {
    const int n = ::sigtimedwait(&set, nullptr, &wait);
    if (n > 0) return n;
    if (errno == EAGAIN) return 0;
  }
}

void log_line(const std::string& who, const std::string& text) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  char stamp[40];
  const std::size_t n = ::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(stamp + n, sizeof stamp - n, ".%03ldZ ", now.tv_nsec / 1'000'000);
  const std::string line = stamp + who + ": " + text + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

Result<std::string> self_path() {
  std::error_code ec;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ec);
  if (ec) return fail_errno("read /proc/self/exe", ec.value());
  return path.string();
}

Result<std::string> find_shim(const std::string& self) {
  const auto bin = std::filesystem::path(self).parent_path();
  for (const auto& candidate : {bin / "dlrun-shim", bin / "../libexec/dlrun/dlrun-shim"})
    if (::access(candidate.c_str(), X_OK) == 0) return candidate.lexically_normal().string();
  return fail(Errc::kNotFound,
              "dlrun-shim is neither in " + bin.string() + " nor in ../libexec/dlrun beside it");
}

void keep_memory_small() {
  ::mallopt(M_ARENA_MAX, 2);
  ::mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  ::mallopt(M_MMAP_THRESHOLD, 256 * 1024);
}

}  // namespace dlrun::node
