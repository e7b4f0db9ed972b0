#include "runtime/os/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/os/fd.h"

namespace dlrun::os {
namespace {

Result<Fd> open_to_read(const std::string& path, struct stat& st) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return fail_errno("open " + path);
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat " + path);
  return fd;
}

Result<std::string> read_all(int fd, const std::string& path, std::size_t bytes_max,
                             const struct stat& st) {
  std::string out;
  if (st.st_size > 0) out.reserve(std::min(static_cast<std::size_t>(st.st_size) + 1, bytes_max));
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + path);
    if (n == 0) return out;
    if (out.size() + static_cast<std::size_t>(n) > bytes_max)
      return fail(Errc::kInvalidArgument,
                  path + " is longer than " + std::to_string(bytes_max) + " bytes");
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

Status write_new(const std::string& path, std::string_view bytes, Durable durable) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno("create " + path);
  if (::fchmod(fd.get(), 0600) != 0) return fail_errno("chmod " + path);
  DLRUN_TRY(write_all(fd.get(), bytes, "write " + path));
  if (durable == Durable::kYes && ::fsync(fd.get()) != 0) return fail_errno("fsync " + path);
  return {};
}

Status sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("open folder " + folder);
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return fail_errno("fsync folder " + folder);
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  struct stat st {};
  DLRUN_ASSIGN(const Fd fd, open_to_read(path, st));
  return read_all(fd.get(), path, bytes_max, st);
}

Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max) {
  struct stat st {};
  DLRUN_ASSIGN(const Fd fd, open_to_read(path, st));
  if ((st.st_mode & 077) != 0)
    return fail(Errc::kPermissionDenied, path + " can be read or written by others: chmod 600 it");
  return read_all(fd.get(), path, bytes_max, st);
}

Result<std::string> read_tail(const std::string& path, std::size_t bytes_max) {
  struct stat st {};
  DLRUN_ASSIGN(const Fd fd, open_to_read(path, st));
  const auto size = static_cast<std::size_t>(std::max<off_t>(st.st_size, 0));
  std::string out(std::min(size, bytes_max), '\0');
  std::size_t got = 0;
  while (got < out.size()) {
    const ssize_t n = ::pread(fd.get(), out.data() + got, out.size() - got,
                              static_cast<off_t>(size - out.size() + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + path);
    if (n == 0) break;  // it was cut meanwhile
    got += static_cast<std::size_t>(n);
  }
  out.resize(got);
  return out;
}

Status write_file(const std::string& path, std::string_view bytes, Durable durable) {
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  if (Status written = write_new(temporary, bytes, durable); !written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(temporary.c_str());
    return fail_errno("rename to " + path, error_number);
  }
  return durable == Durable::kYes ? sync_folder_of(path) : Status{};
}

}  // namespace dlrun::os
