#include "runtime/transport/zmq_transport.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "runtime/base/assert.h"
#include "runtime/os/fd.h"
#include "runtime/transport/packing.h"
#include "runtime/transport/shm_end.h"
#include "runtime/transport/spin.h"

namespace dlrun::transport {

struct ZmqTransport::Context {
  void* handle = zmq_ctx_new();
  Context() { DLRUN_ASSERT(handle != nullptr); }
  ~Context() {
    while (zmq_ctx_term(handle) != 0 && zmq_errno() == EINTR) {
    }
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

namespace {

constexpr std::size_t kFramesMax = 8;
// what zmq gives a peer that brings none of its own; the first byte is 0
constexpr std::size_t kRoutingIdBytes = 5;

tl::unexpected<Error> zmq_fail(std::string what) {
  const int error = zmq_errno();
  Errc code = Errc::kIo;
  switch (error) {
    case EADDRINUSE:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
      code = Errc::kResourceExhausted;
      break;
    case EINVAL:
    case EADDRNOTAVAIL:
    case ENODEV:
    case EPROTONOSUPPORT:
    case ENAMETOOLONG:
      code = Errc::kInvalidArgument;
      break;
    case EACCES:
    case EPERM:
      code = Errc::kPermissionDenied;
      break;
    case ENOENT:
      code = Errc::kNotFound;
      break;
    case EAGAIN:
    case EHOSTUNREACH:
    case ETERM:
      code = Errc::kUnavailable;
      break;
    default:
      break;
  }
  return fail(code, std::move(what) + ": " + zmq_strerror(error));
}

class Socket {
 public:
  Socket(void* context, int type) : handle_(zmq_socket(context, type)) {}
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Socket() {
    if (handle_ != nullptr) zmq_close(handle_);
  }
  void* get() const noexcept { return handle_; }
  bool set(int option, int value) noexcept {
    return zmq_setsockopt(handle_, option, &value, sizeof value) == 0;
  }
  bool set(int option, std::int64_t value) noexcept {
    return zmq_setsockopt(handle_, option, &value, sizeof value) == 0;
  }
  bool common_options(std::uint32_t queue_messages, std::uint64_t message_bytes) noexcept {
    const int queue = static_cast<int>(std::min<std::uint32_t>(queue_messages, 1u << 30));
    return set(ZMQ_SNDHWM, queue) && set(ZMQ_RCVHWM, queue) && set(ZMQ_IPV6, 1) &&
           set(ZMQ_TCP_KEEPALIVE, 1) &&
           set(ZMQ_MAXMSGSIZE, static_cast<std::int64_t>(message_bytes)) &&
           set(ZMQ_HEARTBEAT_IVL, 2000) && set(ZMQ_HEARTBEAT_TIMEOUT, 6000) &&
           set(ZMQ_HEARTBEAT_TTL, 6000);
  }

 private:
  void* handle_;
};

/// A received zmq_msg_t on the heap, as a frame.
struct HeldMessage {
  zmq_msg_t msg;
  HeldMessage() { zmq_msg_init(&msg); }
  ~HeldMessage() { zmq_msg_close(&msg); }
  HeldMessage(const HeldMessage&) = delete;
  HeldMessage& operator=(const HeldMessage&) = delete;
};

void release_owner(void*, void* hint) { delete static_cast<std::shared_ptr<const void>*>(hint); }

Status send_msg(void* socket, zmq_msg_t& msg, int flags, const std::string& what) {
  while (zmq_msg_send(&msg, socket, flags) < 0) {
    if (zmq_errno() == EINTR) continue;
    auto error = zmq_fail(what);
    zmq_msg_close(&msg);
    return error;
  }
  return {};
}

Status send_frame(void* socket, const Frame& frame, int flags, const std::string& what) {
  zmq_msg_t msg;
  // Small frames are cheaper to copy than to share.
  if (frame.size <= 512 || frame.owner == nullptr) {
    if (zmq_msg_init_size(&msg, frame.size) != 0) return zmq_fail(what);
    if (frame.size > 0) std::memcpy(zmq_msg_data(&msg), frame.data, frame.size);
  } else {
    auto* hint = new std::shared_ptr<const void>(frame.owner);
    if (zmq_msg_init_data(&msg, const_cast<std::byte*>(frame.data), frame.size, release_owner,
                          hint) != 0) {
      delete hint;
      return zmq_fail(what);
    }
  }
  return send_msg(socket, msg, flags, what);
}

/// Small ones of several frames as a pack of one.
Status send_message(void* socket, const Message& message, const std::string& what) {
  if (message.size() > 1 && fits_in_pack(message)) {
    zmq_msg_t msg;
    if (zmq_msg_init_size(&msg, kPackHeadBytes + packed_bytes(message)) != 0) return zmq_fail(what);
    write_packed(message, write_pack_head(static_cast<std::byte*>(zmq_msg_data(&msg))));
    return send_msg(socket, msg, ZMQ_DONTWAIT, what);
  }
  for (std::size_t i = 0; i < message.size(); ++i) {
    DLRUN_TRY(send_frame(socket, message[i],
                         ZMQ_DONTWAIT | (i + 1 < message.size() ? ZMQ_SNDMORE : 0), what));
  }
  return {};
}

/// All frames of the next message; empty when there is none. A message of too many frames is read
/// away and dropped.
Result<Message> receive_message(void* socket, std::size_t frames_max) {
  Message message;
  bool more = true;
  bool too_many = false;
  while (more) {
    auto held = std::make_shared<HeldMessage>();
    if (zmq_msg_recv(&held->msg, socket, ZMQ_DONTWAIT) < 0) {
      if (zmq_errno() == EINTR) continue;
      if (zmq_errno() == EAGAIN) return Message{};
      return zmq_fail("receive");
    }
    more = zmq_msg_more(&held->msg) != 0;
    if (message.size() == frames_max) {
      too_many = true;
      continue;
    }
    const auto* data = static_cast<const std::byte*>(zmq_msg_data(&held->msg));
    const std::size_t size = zmq_msg_size(&held->msg);
    message.push_back(Frame{std::move(held), data, size});
  }
  if (too_many) message.clear();
  return message;
}

long poll_ms(Duration timeout) {
  if (timeout < Duration::zero()) return -1;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  return static_cast<long>(std::min<std::int64_t>(ms, 3'600'000));
}

/// The part that both ends share: wait for any of the sockets, for a message in shared memory or
/// for wake(). Links in shared memory, if there are any, are spun upon.
class ZmqChannel : public Channel {
 public:
  explicit ZmqChannel(std::shared_ptr<void> context) : context_(std::move(context)) {}
  void wake() noexcept override { os::ring_eventfd(event_.get()); }
  bool good() const noexcept { return static_cast<bool>(event_); }

  std::byte* reserve(PeerId peer, const Frame& head, std::size_t bytes) final {
    ShmEnd* end = shm_of(peer);
    return end == nullptr ? nullptr : end->reserve(peer, head, bytes);
  }
  void commit(PeerId peer) final { shm_of(peer)->commit(peer); }

  Result<std::optional<Incoming>> receive(Duration timeout) final {
    // However much comes in: nothing is held back for long.
    if (++receives_ % kFlushEvery == 0) flush();
    if (!unpacked_.empty()) return std::optional<Incoming>(next_unpacked());
    ++looks_;  // apart from receives_, of which packs of 32 would leave always the same ones
    // Also without a link: a new peer must get in while the sockets are never empty.
    if (shm_ != nullptr && looks_ % kLookEvery == 0) shm_->look();
    const bool linked = shm_ != nullptr && !shm_->empty();
    // Looking at sockets in vain costs a system call: while there are links they get a turn in so
    // many, and one before sleep.
    const bool turn = !linked || looks_ % (sockets_busy_ ? 2 : kSocketsEvery) == 0;
    if (turn) {
      DLRUN_ASSIGN(auto message, from_sockets());
      sockets_busy_ = message.has_value();
      if (message) return message;
    }
    if (linked) {
      if (auto message = shm_->try_receive()) return std::optional<Incoming>(std::move(message));
      flush();
      if (timeout == Duration::zero()) return std::optional<Incoming>{};
      if (auto message = spin_.until(timeout, [&] { return shm_->try_receive(); }))
        return std::optional<Incoming>(std::move(message));
      if (!turn) {
        DLRUN_ASSIGN(auto message, from_sockets());
        sockets_busy_ = message.has_value();
        if (message) return message;
      }
    }
    flush();
    return sleep_and_receive(timeout);
  }

 protected:
  static constexpr std::uint32_t kLookEvery = 256;
  static constexpr std::uint32_t kSocketsEvery = 16;
  static constexpr std::uint32_t kFlushEvery = 32;

  virtual Result<std::optional<Incoming>> from_sockets() = 0;
  virtual void add_sockets(std::vector<zmq_pollitem_t>& items) = 0;
  /// Sends what was held back.
  virtual void flush() {}

  /// What a socket brought: the message itself, or those of a pack one after the other.
  std::optional<Incoming> arrived(PeerId peer, Message message) {
    if (message.size() != 1 || !is_pack(message[0])) return Incoming{peer, std::move(message)};
    messages_.clear();
    (void)unpack(message[0], kFramesMax, messages_);  // of a broken one, what came before that
    for (Message& each : messages_) unpacked_.push_back({peer, std::move(each)});
    if (unpacked_.empty()) return std::nullopt;
    return next_unpacked();
  }
  Incoming next_unpacked() {
    Incoming next = std::move(unpacked_.front());
    unpacked_.pop_front();
    return next;
  }
  void drop_unpacked(PeerId peer) {
    std::erase_if(unpacked_, [&](const Incoming& m) { return m.peer == peer; });
  }

  Result<ShmEnd*> shm(std::uint64_t message_bytes_max) {
    if (shm_ == nullptr) {
      DLRUN_ASSIGN(shm_, ShmEnd::make(message_bytes_max));
    }
    return shm_.get();
  }
  /// Whose peer this is; nullptr: a socket's.
  ShmEnd* shm_of(PeerId peer) const noexcept {
    return (peer & ShmEnd::kPeerBit) != 0 ? shm_.get() : nullptr;
  }

  std::shared_ptr<void> context_;
  os::Fd event_ = os::make_eventfd().value_or(os::Fd());

 private:
  Result<std::optional<Incoming>> sleep_and_receive(Duration timeout) {
    const auto start = std::chrono::steady_clock::now();
    if (shm_ == nullptr || shm_->arm()) {
      const Result<bool> ready = wait(timeout);
      if (shm_ != nullptr) shm_->disarm();
      if (!ready) return tl::unexpected(ready.error());
      if (!*ready) return std::optional<Incoming>{};
    } else {
      shm_->disarm();
    }
    if (shm_ != nullptr) {
      if (auto message = shm_->try_receive()) {
        spin_.slept(std::chrono::steady_clock::now() - start);
        return std::optional<Incoming>(std::move(message));
      }
    }
    return from_sockets();
  }

  /// true: some socket, or the shared memory, may have a message. Polls once.
  Result<bool> wait(Duration timeout) {
    items_.clear();
    items_.push_back({nullptr, event_.get(), ZMQ_POLLIN, 0});
    if (shm_ != nullptr) items_.push_back({nullptr, shm_->fd(), ZMQ_POLLIN, 0});
    add_sockets(items_);
    const int n = zmq_poll(items_.data(), static_cast<int>(items_.size()), poll_ms(timeout));
    if (n < 0 && zmq_errno() != EINTR) return zmq_fail("poll");
    const auto readable = [&](std::size_t i) {
      return n > 0 && (items_[i].revents & ZMQ_POLLIN) != 0;
    };
    const bool woken = readable(0);
    if (woken) os::drain_eventfd(event_.get());
    if (shm_ != nullptr && readable(1)) shm_->look();
    return n > (woken ? 1 : 0);
  }

  std::unique_ptr<ShmEnd> shm_;
  Spin spin_;
  std::uint32_t receives_ = 0;
  std::uint32_t looks_ = 0;  ///< of these, what a pack did not answer
  bool sockets_busy_ = false;
  std::vector<zmq_pollitem_t> items_;
  std::deque<Incoming> unpacked_;
  std::vector<Message> messages_;  ///< arrived()
};

class ZmqListener final : public ZmqChannel {
 public:
  ZmqListener(std::shared_ptr<void> context, void* handle, const ListenOptions& options)
      : ZmqChannel(std::move(context)), handle_(handle), options_(options) {}

  ~ZmqListener() override {
    flush();
    for (const std::string& path : paths_) ::unlink(path.c_str());  // zmq leaves the file
  }

  Status bind(const std::string& endpoint) {
    if (ShmEnd::is_endpoint(endpoint)) {
      DLRUN_ASSIGN(ShmEnd * end, shm(options_.message_bytes_max));
      DLRUN_ASSIGN(std::string real, end->bind(endpoint));
      endpoints_.push_back(std::move(real));
      return {};
    }
    if (endpoint.rfind("tcp://", 0) != 0 && endpoint.rfind("ipc://", 0) != 0) {
      return fail(Errc::kInvalidArgument, "bind " + endpoint + ": not tcp://, ipc:// or shm://");
    }
    if (!socket_) DLRUN_TRY(open_socket());
    if (zmq_bind(socket_->get(), endpoint.c_str()) != 0) return zmq_fail("bind " + endpoint);
    char bound[512];
    std::size_t size = sizeof bound;
    if (zmq_getsockopt(socket_->get(), ZMQ_LAST_ENDPOINT, bound, &size) != 0)
      return zmq_fail("bind " + endpoint);
    std::string real(bound);
    if (real.rfind("ipc://@", 0) == 0) {
      // An abstract name: no file, gone with its process, seen in this network namespace only.
    } else if (real.rfind("ipc://", 0) == 0) {
      paths_.push_back(real.substr(6));
      ::chmod(paths_.back().c_str(), 0600);
    } else {
      // zmq says ::ffff:127.0.0.1 for 127.0.0.1; a name of an interface or * it resolves.
      const std::string& advertise_host = options_.advertise_host;
      std::string host = endpoint.substr(6, endpoint.rfind(':') - 6);
      if (!advertise_host.empty()) host = advertise_host;
      const bool literal =
          !host.empty() && (host.front() == '[' || host.find_first_of(".:") != std::string::npos);
      if (literal || !advertise_host.empty()) {
        const bool v6 = host.find(':') != std::string::npos && host.front() != '[';
        real = "tcp://" + (v6 ? "[" + host + "]" : host) + real.substr(real.rfind(':'));
      }
    }
    endpoints_.push_back(std::move(real));
    return {};
  }

  Result<PeerId> connect(const std::string&) override {
    return fail(Errc::kFailedPrecondition, "a listening channel does not dial");
  }
  void disconnect(PeerId) override {}

  Status send(PeerId peer, const Message& message) override {
    if (ShmEnd* end = shm_of(peer)) return end->send(peer, message);
    if (!socket_) return fail(Errc::kUnavailable, "no such peer");
    flush(peer);  // what came first goes first
    DLRUN_TRY(send_address(peer));
    return send_message(socket_->get(), message, "send");
  }

  Status send_later(PeerId peer, const Message& message) override {
    if (shm_of(peer) != nullptr || !socket_ || !fits_in_pack(message)) return send(peer, message);
    Pack& pack = pack_of(peer);
    if (pack.bytes.empty()) {
      pack.bytes.resize(kPackHeadBytes);
      write_pack_head(pack.bytes.data());
    }
    const std::size_t at = pack.bytes.size();
    pack.bytes.resize(at + packed_bytes(message));
    write_packed(message, pack.bytes.data() + at);
    if (++pack.messages >= kPackMessagesMax || pack.bytes.size() >= kPackBytes) flush(pack);
    return {};
  }

  std::vector<std::string> endpoints() const override { return endpoints_; }

 private:
  Status open_socket() {
    Socket socket(handle_, ZMQ_ROUTER);
    if (socket.get() == nullptr ||
        !socket.common_options(options_.queue_messages_max, options_.message_bytes_max) ||
        !socket.set(ZMQ_LINGER, 1000) || !socket.set(ZMQ_ROUTER_MANDATORY, 1)) {
      return zmq_fail("listening socket");
    }
    socket_.emplace(std::move(socket));
    return {};
  }
  Result<std::optional<Incoming>> from_sockets() override {
    if (!socket_) return std::optional<Incoming>{};
    DLRUN_ASSIGN(Message message, receive_message(socket_->get(), kFramesMax + 1));
    if (message.size() < 2 || message[0].size != kRoutingIdBytes ||
        message[0].data[0] != std::byte{0}) {
      return std::optional<Incoming>{};
    }
    PeerId peer = 0;
    for (std::size_t i = 0; i < kRoutingIdBytes; ++i)
      peer |= std::to_integer<std::uint64_t>(message[0].data[i]) << (8 * i);
    message.erase(message.begin());
    return arrived(peer, std::move(message));
  }
  void add_sockets(std::vector<zmq_pollitem_t>& items) override {
    if (socket_) items.push_back({socket_->get(), 0, ZMQ_POLLIN, 0});
  }

  /// Held back for one peer.
  struct Pack {
    PeerId peer = 0;
    std::uint32_t messages = 0;
    std::vector<std::byte> bytes;
  };
  static constexpr std::size_t kPackBytes = 32u << 10;
  static constexpr std::size_t kPacksMax = 64;

  Pack& pack_of(PeerId peer) {
    for (std::size_t i = 0; i < packs_open_; ++i) {
      if (packs_[i].peer == peer) return packs_[i];
    }
    if (packs_open_ == kPacksMax) flush();
    if (packs_open_ == packs_.size()) packs_.emplace_back();
    Pack& pack = packs_[packs_open_++];
    pack.peer = peer;
    return pack;
  }
  void flush(Pack& pack) {
    if (pack.messages > 0 && send_address(pack.peer))
      (void)send_frame(socket_->get(), {nullptr, pack.bytes.data(), pack.bytes.size()},
                       ZMQ_DONTWAIT, "send");
    pack.messages = 0;
    pack.bytes.clear();
  }
  void flush(PeerId peer) {
    for (std::size_t i = 0; i < packs_open_; ++i) {
      if (packs_[i].peer == peer) flush(packs_[i]);
    }
  }
  void flush() override {
    for (std::size_t i = 0; i < packs_open_; ++i) flush(packs_[i]);
    packs_open_ = 0;
  }
  Status send_address(PeerId peer) {
    std::byte id[kRoutingIdBytes] = {};
    for (std::size_t i = 0; i < kRoutingIdBytes; ++i)
      id[i] = static_cast<std::byte>(peer >> (8 * i));
    return send_frame(socket_->get(), {nullptr, id, kRoutingIdBytes}, ZMQ_DONTWAIT | ZMQ_SNDMORE,
                      "send");
  }

  void* handle_;
  const ListenOptions options_;
  std::optional<Socket> socket_;  ///< none: shared memory alone
  std::vector<std::string> endpoints_;
  std::vector<std::string> paths_;  ///< socket files that are ours
  std::vector<Pack> packs_;         ///< the first packs_open_ are in use
  std::size_t packs_open_ = 0;
};

class ZmqDialer final : public ZmqChannel {
 public:
  ZmqDialer(std::shared_ptr<void> context, void* handle, const DialOptions& options)
      : ZmqChannel(std::move(context)), handle_(handle), options_(options) {}

  Result<PeerId> connect(const std::string& endpoint) override {
    if (ShmEnd::is_endpoint(endpoint)) {
      DLRUN_ASSIGN(ShmEnd * end, shm(options_.message_bytes_max));
      return end->connect(endpoint);
    }
    Socket socket(handle_, ZMQ_DEALER);
    if (socket.get() == nullptr ||
        !socket.common_options(options_.queue_messages_max, options_.message_bytes_max) ||
        !socket.set(ZMQ_LINGER, 0) || !socket.set(ZMQ_IMMEDIATE, 1) ||
        !socket.set(ZMQ_RECONNECT_IVL, 20) || !socket.set(ZMQ_RECONNECT_IVL_MAX, 1000)) {
      return zmq_fail("socket for " + endpoint);
    }
    if (zmq_connect(socket.get(), endpoint.c_str()) != 0) return zmq_fail("connect " + endpoint);
    const PeerId peer = ++last_;
    links_.emplace(peer, Link{std::move(socket), endpoint});
    return peer;
  }
  void disconnect(PeerId peer) override {
    if (ShmEnd* end = shm_of(peer)) return end->disconnect(peer);
    links_.erase(peer);
    drop_unpacked(peer);
  }

  Status send(PeerId peer, const Message& message) override {
    if (ShmEnd* end = shm_of(peer)) return end->send(peer, message);
    const auto link = links_.find(peer);
    if (link == links_.end()) return fail(Errc::kUnavailable, "no such link");
    return send_message(link->second.socket.get(), message, "send to " + link->second.endpoint);
  }

  std::vector<std::string> endpoints() const override { return {}; }

 private:
  Result<std::optional<Incoming>> from_sockets() override {
    // Starts after the link that was served last, so that none starves.
    auto it = links_.upper_bound(served_);
    for (std::size_t i = 0; i < links_.size(); ++i, ++it) {
      if (it == links_.end()) it = links_.begin();
      DLRUN_ASSIGN(Message message, receive_message(it->second.socket.get(), kFramesMax));
      if (message.empty()) continue;
      served_ = it->first;
      return arrived(it->first, std::move(message));
    }
    return std::optional<Incoming>{};
  }
  void add_sockets(std::vector<zmq_pollitem_t>& items) override {
    for (const auto& [peer, link] : links_) items.push_back({link.socket.get(), 0, ZMQ_POLLIN, 0});
  }

  struct Link {
    Socket socket;
    std::string endpoint;
  };
  void* handle_;
  DialOptions options_;
  std::map<PeerId, Link> links_;
  PeerId last_ = 0;
  PeerId served_ = 0;
};

}  // namespace

ZmqTransport::ZmqTransport() : context_(std::make_shared<Context>()) {}
ZmqTransport::~ZmqTransport() = default;

Result<std::unique_ptr<Channel>> ZmqTransport::listen(const ListenOptions& options) {
  if (options.bind.empty()) return fail(Errc::kInvalidArgument, "listen: nothing to bind");
  auto channel = std::make_unique<ZmqListener>(context_, context_->handle, options);
  if (!channel->good()) return fail(Errc::kResourceExhausted, "listen: no eventfd");
  for (const std::string& endpoint : options.bind) DLRUN_TRY(channel->bind(endpoint));
  return std::unique_ptr<Channel>(std::move(channel));
}

Result<std::unique_ptr<Channel>> ZmqTransport::dial(const DialOptions& options) {
  auto channel = std::make_unique<ZmqDialer>(context_, context_->handle, options);
  if (!channel->good()) return fail(Errc::kResourceExhausted, "dial: no eventfd");
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace dlrun::transport
