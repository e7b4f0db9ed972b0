#include "runtime/transport/shm_end.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>

namespace dlrun::transport {
namespace {

constexpr PeerId kListenerId = 0;
constexpr PeerId kTimerId = 1;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr Duration kWelcomeWithin = std::chrono::seconds(1);
constexpr std::size_t kNameBytesMax = 100;
constexpr std::size_t kFilesAtATime = 16;
constexpr char kWelcome = 'w';
constexpr char kBell = 'b';
constexpr char kFile = 'f';  ///< comes with a descriptor

struct Hello {
  char magic[8] = {'d', 'l', 'r', 'u', 'n', 's', 'h', 'm'};
  std::uint32_t version = 1;
  std::uint32_t ring_bytes = 0;
};

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Result<Address> address_of(const std::string& endpoint) {
  const std::string name = endpoint.substr(std::strlen("shm://"));
  if (name.size() < 2 || name.size() > kNameBytesMax || name[0] != '@')
    return fail(Errc::kInvalidArgument, endpoint + ": not shm://@name");
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path, name.data(), name.size());
  address.name.sun_path[0] = '\0';
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return address;
}

Result<os::Fd> unix_socket(const std::string& endpoint) {
  os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(endpoint);
  return fd;
}

void send_byte(int socket, char byte) {
  // A full socket holds bells enough.
  [[maybe_unused]] const auto n = ::send(socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// `bytes` and a descriptor, whole or not at all. kOverloaded: the socket is full.
Status send_file(int socket, const void* bytes, std::size_t size, int file) {
  iovec part{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(c), &file, sizeof file);
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(size)) return {};
  if (sent < 0 && (errno == EAGAIN || errno == ETOOMANYREFS))
    return fail(Errc::kOverloaded, "the peer does not take files now");
  return fail(Errc::kUnavailable, "the peer has gone");
}

/// Reads what is there; descriptors are appended to `files`. Returns as ::recv does.
ssize_t receive(int socket, void* bytes, std::size_t size, std::deque<os::Fd>& files) {
  iovec part{bytes, size};
  alignas(cmsghdr) char control[CMSG_SPACE(kFilesAtATime * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return got;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(c) + i * sizeof(int), sizeof file);
      files.emplace_back(file);
    }
  }
  return got;
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

std::string random_endpoint() {
  std::random_device random;
  std::string endpoint = "shm://@dlrun-shm";
  for (int i = 0; i < 4; ++i) endpoint += "-" + std::to_string(random());
  return endpoint;
}

}  // namespace

ShmEnd::ShmEnd(os::Fd epoll, std::uint64_t message_bytes_max)
    : epoll_(std::move(epoll)), owner_(::getpid()), message_bytes_max_(message_bytes_max) {}

Result<std::unique_ptr<ShmEnd>> ShmEnd::make(std::uint64_t message_bytes_max) {
  os::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("shared-memory transport");
  return std::unique_ptr<ShmEnd>(new ShmEnd(std::move(epoll), message_bytes_max));
}

ShmEnd::~ShmEnd() {
  for (auto& [id, peer] : peers_) close(peer);
  if (listener_ && ::getpid() == owner_) ::shutdown(listener_.get(), SHUT_RDWR);
}

Status ShmEnd::watch(int fd, PeerId id) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno("shared-memory transport");
  return {};
}

// ---- links come and go

Result<std::string> ShmEnd::bind(const std::string& endpoint) {
  const std::string real = endpoint == "shm://*" ? random_endpoint() : endpoint;
  DLRUN_ASSIGN(const Address address, address_of(real));
  if (listener_) return fail(Errc::kInvalidArgument, "bind " + real + ": one name is enough");
  DLRUN_ASSIGN(os::Fd fd, unix_socket("bind " + real));
  if (::bind(fd.get(), address.get(), address.size) != 0 || ::listen(fd.get(), 128) != 0) {
    if (errno == EADDRINUSE) return fail(Errc::kResourceExhausted, "bind " + real + ": taken");
    return fail_errno("bind " + real);
  }
  os::Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) return fail_errno("bind " + real);
  DLRUN_TRY(watch(timer.get(), kTimerId));
  DLRUN_TRY(watch(fd.get(), kListenerId));
  timer_ = std::move(timer);
  listener_ = std::move(fd);
  return real;
}

Result<PeerId> ShmEnd::connect(const std::string& endpoint) {
  DLRUN_TRY(address_of(endpoint));
  const PeerId id = ++last_;
  Peer& peer = peers_[id];
  peer.endpoint = endpoint;
  if (Status up = dial(id, peer); !up && up.error().code != Errc::kUnavailable) {
    peers_.erase(id);
    return tl::unexpected(up.error());
  }
  return id;
}

Status ShmEnd::dial(PeerId id, Peer& peer) {
  peer.tried = clock_.now();
  const Address address = address_of(peer.endpoint).value();
  DLRUN_ASSIGN(os::Fd socket, unix_socket("connect " + peer.endpoint));
  if (::connect(socket.get(), address.get(), address.size) != 0 || !same_user(socket.get()))
    return fail(Errc::kUnavailable, "nobody of this user listens at " + peer.endpoint);
  DLRUN_ASSIGN(auto link, ShmLink::create(ShmLink::kRingBytesDefault, message_bytes_max_));
  Hello hello;
  hello.ring_bytes = ShmLink::kRingBytesDefault;
  DLRUN_TRY(send_file(socket.get(), &hello, sizeof hello, link->file()));
  link->close_file();
  DLRUN_TRY(watch(socket.get(), id));
  peer.socket = std::move(socket);
  peer.link = std::move(link);
  peer.state = State::kGreeting;
  return {};
}

void ShmEnd::accept_all() {
  for (;;) {
    os::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Nobody waits for a descriptor with his eyes open: the listener stays readable.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
        accepts_ = false;
        wake_in(kAcceptPause);
      }
      return;
    }
    const PeerId id = last_ + 1;
    if (peers_.size() >= kLinksMax || !same_user(socket.get()) || !watch(socket.get(), id))
      continue;
    last_ = id;
    Peer& peer = peers_[id];
    peer.socket = std::move(socket);
    peer.state = State::kGreeting;
    peer.tried = clock_.now();
    if (!welcome(peer)) {  // its hello is often there already
      drop(peers_.find(id));
    } else if (peer.state == State::kGreeting && !timer_runs_) {
      wake_in(kHelloWithin);
    }
  }
}

void ShmEnd::wake_in(Duration time) {
  itimerspec when{};
  when.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  when.it_value.tv_nsec = (time % std::chrono::seconds(1)).count();
  timer_runs_ = ::timerfd_settime(timer_.get(), 0, &when, nullptr) == 0;
}

/// Who connected and said nothing holds a descriptor and a place among kLinksMax.
void ShmEnd::on_timer() {
  std::uint64_t times;
  (void)!::read(timer_.get(), &times, sizeof times);
  timer_runs_ = false;
  if (!accepts_) accepts_ = watch(listener_.get(), kListenerId).has_value();
  if (!accepts_) wake_in(kAcceptPause);
  const TimePoint now = clock_.now();
  std::optional<Duration> next;
  for (auto it = peers_.begin(); it != peers_.end();) {
    const Peer& peer = it->second;
    const bool greeted = peer.state == State::kGreeting && peer.endpoint.empty();
    const Duration left = peer.tried + kHelloWithin - now;
    if (greeted && left > Duration::zero()) next = std::min(next.value_or(left), left);
    it = greeted && left <= Duration::zero() ? drop(it) : std::next(it);
  }
  if (next && !timer_runs_) wake_in(*next);
}

/// Reads the hello of one that was accepted. false: not one of ours.
bool ShmEnd::welcome(Peer& peer) {
  Hello hello;
  const Hello expected;
  const ssize_t got = receive(peer.socket.get(), &hello, sizeof hello, peer.files);
  if (got < 0 && errno == EAGAIN) return true;
  if (got != static_cast<ssize_t>(sizeof hello) || peer.files.size() != 1 ||
      std::memcmp(hello.magic, expected.magic, sizeof hello.magic) != 0 ||
      hello.version != expected.version)
    return false;
  auto link = ShmLink::attach(std::move(peer.files.front()), hello.ring_bytes, message_bytes_max_);
  peer.files.clear();
  if (!link) return false;
  peer.link = std::move(*link);
  peer.state = State::kUp;
  send_byte(peer.socket.get(), kWelcome);
  return true;
}

void ShmEnd::close(Peer& peer) const {
  // Closing alone would not do: a child that was forked meanwhile holds socket and epoll too, and
  // what is done to them here is done to its parent's.
  if (peer.socket && ::getpid() == owner_) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);
    ::shutdown(peer.socket.get(), SHUT_RDWR);
  }
  peer.socket.reset();
  peer.files.clear();
  peer.link.reset();
  peer.state = State::kIdle;
}

ShmEnd::Peers::iterator ShmEnd::drop(Peers::iterator it) {
  close(it->second);
  return it->second.endpoint.empty() ? peers_.erase(it) : std::next(it);
}

void ShmEnd::disconnect(PeerId peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return;
  close(it->second);
  peers_.erase(it);
}

// ---- messages

Status ShmEnd::send(PeerId id, const Message& message) {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return fail(Errc::kUnavailable, "the peer has gone");
  Peer& peer = it->second;
  if (peer.state == State::kIdle && clock_.now() - peer.tried >= peer.pause) {
    // Whatever keeps the link down (no descriptors, no memory): the caller may take a socket.
    if (const Status up = dial(id, peer); !up) return fail(Errc::kUnavailable, up.error().context);
  }
  if (peer.state == State::kGreeting) read_socket(peer);
  if (peer.state == State::kGone) return fail(Errc::kUnavailable, "the peer has gone");
  const bool hoped_for = peer.state == State::kGreeting && peer.hopeful && peer.link != nullptr &&
                         clock_.now() - peer.tried < kWelcomeWithin;
  if (peer.state != State::kUp && !hoped_for)
    return fail(Errc::kUnavailable, "no link to " + peer.endpoint + " yet");
  Status put = peer.link->put(
      message, [&](int file) { return send_file(peer.socket.get(), &kFile, sizeof kFile, file); });
  if (!put && put.error().code == Errc::kCorrupt) {
    drop(it);
    return fail(Errc::kUnavailable, put.error().context);
  }
  DLRUN_TRY(put);
  if (peer.link->bell_wanted()) send_byte(peer.socket.get(), kBell);
  return {};
}

std::byte* ShmEnd::reserve(PeerId id, const Frame& head, std::size_t bytes) {
  const auto it = peers_.find(id);
  if (it == peers_.end() || it->second.state != State::kUp) return nullptr;
  return it->second.link->reserve(head, bytes);
}

void ShmEnd::commit(PeerId id) {
  Peer& peer = peers_.at(id);
  peer.link->commit();
  if (peer.link->bell_wanted()) send_byte(peer.socket.get(), kBell);
}

std::optional<Incoming> ShmEnd::try_receive() {
  auto it = peers_.upper_bound(served_);
  for (std::size_t left = peers_.size(); left > 0; --left) {
    if (it == peers_.end()) it = peers_.begin();
    Peer& peer = it->second;
    // Before its welcome nobody has the right to send: what the ring may hold waits for look().
    if (peer.link == nullptr || peer.state == State::kGreeting) {
      ++it;
      continue;
    }
    auto message = peer.link->take([&] {
      if (peer.files.empty()) read_socket(peer);
      if (peer.files.empty()) return os::Fd();
      os::Fd file = std::move(peer.files.front());
      peer.files.pop_front();
      return file;
    });
    if (message && *message) {
      served_ = it->first;
      return Incoming{it->first, std::move(**message)};
    }
    peer.link->reap();
    it = !message || peer.state == State::kGone ? drop(it) : std::next(it);
  }
  return std::nullopt;
}

/// Of a link that is up, or that waits to be welcomed.
void ShmEnd::read_socket(Peer& peer) {
  std::array<char, 256> bytes;
  for (;;) {
    const ssize_t got = receive(peer.socket.get(), bytes.data(), bytes.size(), peer.files);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0 || peer.files.size() > 2 * ShmLink::kBigMax) break;
    peer.state = State::kUp;  // if it was not: it has been welcomed
    peer.hopeful = true;
    peer.pause = kRedial;
  }
  if (peer.state == State::kGreeting) {
    peer.hopeful = false;
    peer.pause = std::min(2 * peer.pause, kRedialMax);
    return close(peer);
  }
  // The socket would wake us again and again. The ring is read to its end, then the peer goes.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);
  peer.state = State::kGone;
}

void ShmEnd::look() {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const PeerId id = events[i].data.u64;
    if (id == kListenerId) {
      accept_all();
      continue;
    }
    if (id == kTimerId) {
      on_timer();
      continue;
    }
    const auto it = peers_.find(id);
    if (it == peers_.end() || !it->second.socket || it->second.state == State::kGone) continue;
    Peer& peer = it->second;
    if (peer.state == State::kGreeting && peer.endpoint.empty()) {
      if (!welcome(peer)) drop(it);
    } else {
      read_socket(peer);
    }
  }
}

bool ShmEnd::arm() noexcept {
  bool sleep = true;
  for (auto& [id, peer] : peers_) {
    if (peer.state == State::kGone) {
      sleep = false;
    } else if (peer.link != nullptr && peer.state != State::kGreeting) {
      sleep = peer.link->arm() && sleep;
    }
  }
  return sleep;
}

void ShmEnd::disarm() noexcept {
  for (auto& [id, peer] : peers_) {
    if (peer.link != nullptr) peer.link->disarm();
  }
}

}  // namespace dlrun::transport
