#include "io/pipe/segment.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "runtime/base/assert.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace dlrun::io::pipe {

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}
void Mapping::reset() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}
Result<Mapping> Mapping::map(int fd, std::size_t bytes, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) return fail_errno("map " + std::to_string(bytes) + " bytes");
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(at);
  mapping.size_ = bytes;
  return mapping;
}

namespace {
/// What the kernel could give now without harm. A memfd has no size limit of its own: allocating
/// more than there is would end in the OOM killer, not in ENOSPC.
std::uint64_t memory_available() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("MemAvailable:"))
      return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  }
  return ~std::uint64_t{0};
}
}  // namespace

Result<Segment> make_segment(const std::string& name, std::size_t bytes,
                             bool read_only_for_others) {
  const std::string what = name + " (" + std::to_string(bytes) + " bytes of shared memory)";
  const std::uint64_t available = memory_available();
  if (bytes > available - available / 8)
    return fail(Errc::kResourceExhausted, "allocate " + what + ": the machine has " +
                                              std::to_string(available) + " bytes available");
  Segment segment;
  segment.fd = Fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd) return fail_errno("make " + what);
  int code = 0;
  do {
    code = ::fallocate(segment.fd.get(), 0, 0, static_cast<off_t>(bytes));
  } while (code != 0 && errno == EINTR);
  if (code != 0) {
    const Errc kind = errno == EFBIG || errno == ENOSPC || errno == ENOMEM || errno == EINVAL
                          ? Errc::kResourceExhausted
                          : Errc::kIo;
    return fail(kind, "allocate " + what + ": " + std::strerror(errno));
  }
  auto mapping = Mapping::map(segment.fd.get(), bytes, true);
  if (!mapping) return fail_as(what, mapping);
  segment.mapping = std::move(*mapping);
  int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (read_only_for_others) seals |= F_SEAL_FUTURE_WRITE;
  if (::fcntl(segment.fd.get(), F_ADD_SEALS, seals | F_SEAL_SEAL) != 0)
    return fail_errno("seal " + what);
  return segment;
}

Result<Mapping> map_received(int fd, const std::string& name, std::size_t bytes, bool read_only) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno("stat the " + name + " segment");
  if (static_cast<std::uint64_t>(st.st_size) != bytes)
    return fail(Errc::kCorrupt, "the " + name + " segment has " + std::to_string(st.st_size) +
                                    " bytes, not " + std::to_string(bytes));
  const int seals = ::fcntl(fd, F_GET_SEALS);
  const int needed = F_SEAL_SHRINK | F_SEAL_GROW | (read_only ? F_SEAL_FUTURE_WRITE : 0);
  if (seals < 0 || (seals & needed) != needed)
    return fail(Errc::kCorrupt, "the " + name + " segment is not sealed");
  return Mapping::map(fd, bytes, !read_only);
}

namespace {

/// An address of any path: a long one is reached through the descriptor of its directory, which
/// must stay open meanwhile.
struct UnixAddress {
  sockaddr_un address{};
  Fd directory;
};

Result<UnixAddress> unix_address(const std::string& path) {
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  std::string usable = path;
  if (path.empty() || path.find('\0') != std::string::npos)
    return fail(Errc::kInvalidArgument, "not a socket path");
  if (path.size() >= sizeof result.address.sun_path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return fail(Errc::kInvalidArgument, path + ": name too long");
    result.directory =
        Fd(::open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!result.directory) return fail_errno(path);
    usable = "/proc/self/fd/" + std::to_string(result.directory.get()) + path.substr(slash);
    if (usable.size() >= sizeof result.address.sun_path)
      return fail(Errc::kInvalidArgument, path + ": name too long");
  }
  std::memcpy(result.address.sun_path, usable.data(), usable.size());
  return result;
}

}  // namespace

Result<Fd> listen_unix(const std::string& path) {
  DLRUN_ASSIGN(UnixAddress at, unix_address(path));
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("socket");
  struct stat st {};
  if (::lstat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode)) ::unlink(path.c_str());
  const auto* address = reinterpret_cast<const sockaddr*>(&at.address);
  if (::fchmod(socket.get(), 0600) != 0) return fail_errno("chmod of " + path);
  if (::bind(socket.get(), address, sizeof at.address) != 0) return fail_errno("bind " + path);
  if (::chmod(at.address.sun_path, 0600) != 0) return fail_errno("chmod of " + path);
  if (::listen(socket.get(), 64) != 0) return fail_errno("listen on " + path);
  return socket;
}

Result<Fd> connect_unix(const std::string& path) {
  DLRUN_ASSIGN(UnixAddress at, unix_address(path));
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("socket");
  int code = 0;
  do {
    code =
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at.address), sizeof at.address);
  } while (code != 0 && errno == EINTR);
  if (code == 0) return socket;
  if (errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN)
    return fail(Errc::kUnavailable, "no feeder listens at " + path + ": " + std::strerror(errno));
  return fail_errno("connect to " + path);
}

Status send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * 8)> control{};
  DLRUN_ASSERT(fds.size() <= 8);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(head), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t n = 0;
  do {
    n = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
    return fail(Errc::kUnavailable, "the peer of the input pipe is gone");
  if (n < 0) return fail_errno("send over the input pipe's socket");
  return {};
}

Result<Received> receive_message(int socket, std::span<std::byte> bytes, std::size_t fds_max,
                                 TimePoint deadline) {
  PollItem item{socket, false};
  for (;;) {
    DLRUN_ASSIGN(const bool ready, poll_until({&item, 1}, deadline));
    if (!ready) return fail(Errc::kDeadlineExceeded, "no answer over the input pipe's socket");
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * 16)> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0 && errno == ECONNRESET) return Received{};
    if (n < 0) return fail_errno("receive from the input pipe's socket");
    Received received;
    received.bytes = static_cast<std::size_t>(n);
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
        received.fds.emplace_back(fd);
      }
    }
    if (received.fds.size() > fds_max || (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0)
      return fail(Errc::kCorrupt, "an oversized message over the input pipe's socket");
    return received;
  }
}

Result<bool> poll_until(std::span<PollItem> items, TimePoint deadline) {
  std::array<pollfd, kPollItemsMax> fds;
  DLRUN_ASSERT(items.size() <= fds.size());
  for (;;) {
    for (std::size_t i = 0; i < items.size(); ++i) fds[i] = {items[i].fd, POLLIN, 0};
    const Duration left = std::max(deadline - now(), Duration{0});
    const timespec wait{static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000)};
    const int n = ::ppoll(fds.data(), items.size(), &wait, nullptr);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("poll");
    for (std::size_t i = 0; i < items.size(); ++i) items[i].ready = fds[i].revents != 0;
    return n > 0;
  }
}

TimePoint now() { return SystemClock().now(); }

}  // namespace dlrun::io::pipe
