#pragma once
/// tests/transport/shm_helper.h: what tests of links in shared memory are made of.

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/os/fd.h"
#include "runtime/transport/zmq_transport.h"

namespace dlrun::transport {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline int descriptors() {
  int n = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++n;
  ::closedir(folder);
  return n;
}

/// Mappings and descriptors of our memory files that a process has.
inline int memory_files(const std::string& process = "self") {
  int n = 0;
  std::ifstream maps("/proc/" + process + "/maps");
  for (std::string line; std::getline(maps, line);) n += line.find("dlrun-") != std::string::npos;
  for (const auto& file : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    std::error_code gone;
    n += std::filesystem::read_symlink(file, gone).string().find("memfd:dlrun-") !=
         std::string::npos;
  }
  return n;
}

inline Frame bytes_of(std::size_t n, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(n);
  SplitMix64 rng(seed);
  for (std::size_t i = 0; i < n; i += 1 + i / 64)
    bytes[i] = static_cast<std::uint8_t>(rng.next() | 1);
  return Frame::take(std::move(bytes));
}

inline bool same(const Frame& a, const Frame& b) {
  return a.size == b.size && (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
}

/// A memory file of `bytes`, sealed when `seals` says so.
inline os::Fd memory_file(std::size_t bytes, int seals) {
  os::Fd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}
inline constexpr std::size_t kSmallestFile = 4096 + 2 * (64 << 10);

inline std::optional<Incoming> next(Channel& channel) {
  for (int i = 0; i < 400; ++i) {
    auto got = channel.receive(milliseconds(50));
    if (got && *got) return std::move(**got);
  }
  return std::nullopt;
}

inline Status send_soon(Channel& channel, PeerId peer, const Message& message) {
  Status sent = channel.send(peer, message);
  for (int i = 0; i < 1000 && !sent && sent.error().code == Errc::kUnavailable; ++i) {
    (void)channel.receive(milliseconds(10));
    sent = channel.send(peer, message);
  }
  return sent;
}

/// A listener that somebody serves until the end of the test: it sends back what it gets.
class Echo {
 public:
  explicit Echo(std::vector<std::string> bind)
      : channel_(transport_.listen({.bind = bind}).value()) {
    thread_ = std::thread([this] {
      while (!stop_) {
        auto got = channel_->receive(seconds(10));
        if (got && *got) (void)channel_->send((*got)->peer, (*got)->message);
      }
    });
  }
  ~Echo() {
    stop_ = true;
    channel_->wake();
    thread_.join();
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  std::vector<std::string> endpoints() const { return channel_->endpoints(); }

 private:
  ZmqTransport transport_;
  std::unique_ptr<Channel> channel_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

inline void expect_echo(Channel& client, PeerId link, const Frame& frame) {
  const Status sent = send_soon(client, link, {frame});
  ASSERT_TRUE(sent) << sent.error().to_string();
  const auto got = next(client);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->peer, link);
  EXPECT_TRUE(same(got->message.at(0), frame));
}

inline std::pair<sockaddr_un, socklen_t> address_of(const std::string& endpoint) {
  const std::string name = endpoint.substr(std::strlen("shm://"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  address.sun_path[0] = '\0';
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())};
}

/// Speaks at a listener's socket as no client of ours would.
class Stranger {
 public:
  explicit Stranger(const std::string& endpoint)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto [address, size] = address_of(endpoint);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    const timeval patience{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  void say(const std::string& bytes, const std::vector<int>& files = {}) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    std::vector<char> control(CMSG_SPACE(files.size() * sizeof(int)) + alignof(cmsghdr));
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!files.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
      std::memcpy(CMSG_DATA(c), files.data(), files.size() * sizeof(int));
    }
    (void)::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  }
  /// The next byte, 0 when the listener hung up, -1 when nothing came.
  int hears() {
    char byte = 0;
    const ssize_t got = ::recv(socket_.get(), &byte, 1, 0);
    if (got < 0) return errno == EAGAIN ? -1 : 0;
    return got == 0 ? 0 : byte;
  }

 private:
  os::Fd socket_;
};

inline std::string hello(std::uint32_t version, std::uint32_t ring_bytes) {
  std::string bytes = "dlrunshm";
  bytes.append(reinterpret_cast<const char*>(&version), 4);
  bytes.append(reinterpret_cast<const char*>(&ring_bytes), 4);
  return bytes;
}

/// Forks a child that runs `work` until it is killed.
template <class Work>
pid_t fork_child(Work work) {
  const pid_t child = ::fork();
  if (child < 0) std::abort();  // kill(-1) would end every process
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(1);
  }
  return child;
}

}  // namespace dlrun::transport
