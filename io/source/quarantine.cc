#include "io/source/quarantine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dlrun::io {

Result<std::unique_ptr<Quarantine>> Quarantine::open(const std::string& path,
                                                     std::uint64_t bytes_max) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
  if (fd < 0) return fail_errno("open " + path);
  return std::unique_ptr<Quarantine>(new Quarantine(path, fd, bytes_max));
}

Quarantine::~Quarantine() { ::close(fd_); }

Status Quarantine::append(std::string_view line) {
  struct stat st {};
  if (::fstat(fd_, &st) != 0) return fail_errno("stat " + path_);
  if (static_cast<std::uint64_t>(st.st_size) + line.size() > bytes_max_)
    return fail(Errc::kResourceExhausted,
                path_ + ": the quarantine is full (" + std::to_string(bytes_max_) + " bytes)");
  ssize_t n = 0;
  do n = ::write(fd_, line.data(), line.size());
  while (n < 0 && errno == EINTR);
  if (n < 0) return fail_errno("write " + path_);
  if (static_cast<std::size_t>(n) != line.size())
    return fail(Errc::kResourceExhausted, path_ + ": a line of the quarantine was cut");
  return {};
}

}  // namespace dlrun::io
