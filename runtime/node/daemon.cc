#include "runtime/node/daemon.h"

#include <malloc.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/os/files.h"
#include "runtime/security/secret.h"

namespace dlrun::node {

Result<std::unique_ptr<DataFolder>> DataFolder::open(const std::string& given,
                                                     const std::string& kind) {
  std::error_code ec;
  const std::string path = std::filesystem::absolute(given, ec).lexically_normal().string();
  if (ec || given.empty()) return fail(Errc::kInvalidArgument, "not a folder: \"" + given + "\"");
  if (Status ok = security::make_private_folder(path); !ok) return fail_as("data folder", ok);
  const std::string lock_path = path + "/lock";
  auto lock = os::FileLock::hold(lock_path);
  if (!lock && lock.error().code == Errc::kFailedPrecondition)
    return fail(Errc::kFailedPrecondition, "the data folder is in use: " + lock.error().context +
                                               ": stop it, or choose another folder");
  if (!lock) return fail_as("the data folder " + path + " is not writable", lock);
  std::unique_ptr<DataFolder> out(new DataFolder(path, std::move(*lock)));

  const std::string version_path = path + "/version";
  const std::string mine = kind + " " + std::to_string(kDataVersion) + "\n";
  const Result<std::string> version = os::read_file(version_path, 256);
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

void end_with(const std::string& who, const Error& why) {
  log_line(who, why.to_string() + ": this process ends");
  ::_exit(1);
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
