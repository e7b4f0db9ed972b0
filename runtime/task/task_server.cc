#include "runtime/task/task_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "runtime/base/constant_time.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "runtime/base/seldom.h"
#include "runtime/os/event_loop.h"
#include "runtime/wire/task_codec.h"

namespace dlrun::task {
namespace {

using os::close_fd;

constexpr std::size_t kReadBytes = 64u << 10;
constexpr Duration kCloseLinger = std::chrono::seconds(1);
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

/// The request number of an answer; 0 = it answers none.
std::uint64_t request_of(const ToClient& m) {
  if (const auto* at = std::get_if<InputAt>(&m)) return at->request;
  if (const auto* reply = std::get_if<FeederReply>(&m)) return reply->request;
  if (const auto* committed = std::get_if<Committed>(&m)) return committed->request;
  return 0;
}
std::uint64_t request_of(const ToServer& m) {
  if (const auto* open = std::get_if<OpenInput>(&m)) return open->request;
  if (const auto* files = std::get_if<FeederFiles>(&m)) return files->request;
  if (const auto* lease = std::get_if<FeederLease>(&m)) return lease->request;
  if (const auto* commit = std::get_if<CommitInputs>(&m)) return commit->request;
  return 0;
}

}  // namespace

class TaskServer::Impl {
 public:
  Impl(ServerOptions options, ServerCallbacks callbacks)
      : options_(std::move(options)), callbacks_(std::move(callbacks)) {}

  Status begin() {
    struct stat st {};
    if (::stat(options_.socket_dir.c_str(), &st) != 0)
      return fail_errno("socket directory " + options_.socket_dir);
    return loop_.start({[this](std::uint64_t id, std::uint32_t events) { on_ready(id, events); },
                        [this](TimePoint now) { return on_time(now); }});
  }

  ~Impl() {
    loop_.stop();
    for (auto& [id, c] : connections_) close_fd(c.fd);
    for (auto& [id, l] : listeners_) close_fd(l.fd);
  }

  std::string path_of(const TaskId& task) const {
    char name[32];
    std::snprintf(name, sizeof name, "/t%016llx",
                  static_cast<unsigned long long>(mix64(fnv1a(to_string(task)))));
    return options_.socket_dir + name;
  }

  Result<std::string> open(const TaskId& task, const cluster::Token& token, Welcome welcome) {
    const std::string path = path_of(task);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string temporary = path + ".n";
    if (temporary.size() >= sizeof address.sun_path) {
      return fail(Errc::kInvalidArgument,
                  "socket path " + path + " is longer than 105 bytes: choose a shorter directory");
    }
    const std::lock_guard lock(mutex_);
    if (tasks_.contains(task)) return fail(Errc::kAlreadyExists, to_string(task) + " is open");
    std::memcpy(address.sun_path, temporary.c_str(), temporary.size() + 1);
    ::unlink(temporary.c_str());
    int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail_errno("socket");
    // Bound under another name and renamed: whoever connects to the path finds a listener.
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::chmod(temporary.c_str(), 0600) != 0 || ::listen(fd, 128) != 0 ||
        ::rename(temporary.c_str(), path.c_str()) != 0) {
      const int e = errno;
      close_fd(fd);
      return fail_errno("listen on " + path, e);
    }
    const std::uint64_t id = next_id_++;
    tasks_[task] = Entry{token, std::move(welcome), id, {}};
    loop_.post([this, id, fd, task, path] {
      listeners_[id] = Listener{fd, task, path};
      loop_.watch(fd, id, EPOLLIN);
    });
    return path;
  }

  void close(const TaskId& task) {
    const std::lock_guard lock(mutex_);
    const auto it = tasks_.find(task);
    if (it == tasks_.end()) return;
    loop_.post([this, id = it->second.listener, task] { do_close(id, task); });
    tasks_.erase(it);
  }

  void sweep() {
    const std::lock_guard lock(mutex_);
    std::unordered_set<std::string> open;
    for (const auto& [task, entry] : tasks_) open.insert(path_of(task));
    std::error_code ec;
    std::vector<std::string> left;
    for (std::filesystem::directory_iterator it(options_.socket_dir, ec), end; !ec && it != end;
         it.increment(ec)) {
      std::string name = it->path().filename().string();
      if (name.ends_with(".n")) name.resize(name.size() - 2);
      const bool ours = name.size() == 17 && name[0] == 't' &&
                        name.find_first_not_of("0123456789abcdef", 1) == std::string::npos;
      const std::string path = it->path().string();
      std::error_code no_type;
      if (ours && it->symlink_status(no_type).type() == std::filesystem::file_type::socket &&
          !open.contains(path))
        left.push_back(path);
    }
    for (const std::string& path : left) ::unlink(path.c_str());
  }

  Status send(const TaskId& task, std::optional<PeerKind> only, const ToClient& message) {
    DLRUN_ASSIGN(auto bytes, wire::frame(wire::encode(message)));
    const std::uint64_t request = request_of(message);
    const std::lock_guard lock(mutex_);
    const auto it = tasks_.find(task);
    if (it == tasks_.end()) return fail(Errc::kNotFound, to_string(task) + " is not open");
    std::vector<std::uint64_t> to;
    bool full = false;
    for (auto& [id, peer] : it->second.peers) {
      if (only && peer.kind != *only) continue;
      if (request != 0 && peer.requests.erase(request) == 0) continue;
      if (peer.queued_bytes + bytes.size() > options_.out_bytes_max) {
        full = true;
        continue;
      }
      peer.queued_bytes += bytes.size();
      to.push_back(id);
    }
    if (to.empty()) {
      if (full) return fail(Errc::kOverloaded, to_string(task) + " does not read its messages");
      return fail(Errc::kUnavailable,
                  to_string(task) + ": no process is connected that waits for this");
    }
    loop_.post([this, to = std::move(to), bytes = std::move(bytes)] {
      for (const auto id : to) queue(id, bytes);
    });
    return {};
  }

 private:
  /// What other threads may know of a connection after its Hello.
  struct Peer {
    PeerKind kind{};
    std::size_t queued_bytes = 0;
    std::unordered_set<std::uint64_t> requests;  ///< unanswered
  };
  struct Entry {
    cluster::Token token{};
    Welcome welcome;
    std::uint64_t listener = 0;
    std::map<std::uint64_t, Peer> peers;
  };
  struct Listener {
    int fd = -1;
    TaskId task;
    std::string path;
  };
  struct Connection {
    int fd = -1;
    TaskId task;
    std::uint64_t listener = 0;
    bool open = false;  ///< Hello was right
    PeerKind kind{};
    TimePoint hello_by{};
    std::string in, out;
    std::size_t out_sent = 0;
    bool writing = false;
    bool closing = false;  ///< flush, then close
    TimePoint close_by{};
    std::string who;  ///< pid and uid
  };

  void log(const std::string& line) const {
    if (callbacks_.on_log) callbacks_.on_log(line);
  }

  void on_ready(std::uint64_t id, std::uint32_t events) {
    if (listeners_.contains(id)) {
      accept_all(id);
      return;
    }
    if ((events & EPOLLOUT) != 0) flush(id);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_some(id);
  }

  /// Closes what is over time; when to look again. Connections that wait for something are few.
  std::optional<TimePoint> on_time(TimePoint now) {
    std::optional<TimePoint> next;
    if (!paused_.empty() && now >= accept_again_) {
      for (const std::uint64_t id : std::exchange(paused_, {}))
        if (const auto it = listeners_.find(id); it != listeners_.end())
          loop_.change(it->second.fd, id, EPOLLIN);
    } else if (!paused_.empty()) {
      next = accept_again_;
    }
    std::vector<std::uint64_t> late;
    for (const std::uint64_t id : timed_) {
      const auto it = connections_.find(id);
      if (it == connections_.end()) continue;
      const TimePoint at = it->second.closing ? it->second.close_by : it->second.hello_by;
      if (at <= now) {
        late.push_back(id);
      } else if (!next || at < *next) {
        next = at;
      }
    }
    for (const std::uint64_t id : late) {
      if (!connections_[id].closing) log(connections_[id].who + ": no Hello in time");
      drop(id);
    }
    return next;
  }

  void accept_all(std::uint64_t listener_id) {
    const Listener& listener = listeners_[listener_id];
    for (;;) {
      int fd = ::accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (fd < 0 && errno == EAGAIN) return;
      if (fd < 0) return pause_accepting(listener_id, errno);
      ucred peer{};
      socklen_t size = sizeof peer;
      ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
      Connection c;
      c.who = to_string(listener.task) + ": process " + std::to_string(peer.pid) + " of uid " +
              std::to_string(peer.uid);
      std::size_t of_task = 0;
      for (const auto& [id, other] : connections_) of_task += other.listener == listener_id ? 1 : 0;
      if (of_task >= options_.connections_per_task_max ||
          connections_.size() >= options_.connections_max) {
        log(c.who + ": too many connections");
        close_fd(fd);
        continue;
      }
      std::uint64_t id;
      {
        const std::lock_guard lock(mutex_);
        id = next_id_++;
      }
      c.fd = fd;
      c.task = listener.task;
      c.listener = listener_id;
      c.hello_by = clock_.now() + options_.hello_timeout;
      connections_[id] = std::move(c);
      timed_.insert(id);
      loop_.watch(fd, id, EPOLLIN);
    }
  }

  /// Out of descriptors or memory: who connects stays in the queue, where it would wake us at once.
  void pause_accepting(std::uint64_t id, int error_number) {
    const Listener& listener = listeners_[id];
    if (accept_failures_.now())
      log(to_string(listener.task) + ": accept a process: " + std::strerror(error_number) +
          ": tried again until it works (" + std::to_string(accept_failures_.count()) +
          " times so far)");
    loop_.change(listener.fd, id, 0);
    if (paused_.empty()) accept_again_ = clock_.now() + kAcceptPause;
    paused_.insert(id);
  }

  Connection* find(std::uint64_t id) {
    const auto it = connections_.find(id);
    return it == connections_.end() ? nullptr : &it->second;
  }

  void read_some(std::uint64_t id) {
    Connection* c = find(id);
    if (c == nullptr) return;
    static thread_local char buffer[kReadBytes];
    const ssize_t n = ::recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      drop(id);
      return;
    }
    if (c->closing) return;
    c->in.append(buffer, static_cast<std::size_t>(n));
    std::size_t consumed = 0;
    std::string_view message;
    for (;;) {
      const auto more = wire::unframe(c->in, consumed, message);
      if (!more) {
        refuse(id, more.error());
        return;
      }
      if (!*more) break;
      if (!on_frame(id, message)) return;
      c = find(id);
      if (c == nullptr || c->closing) return;
    }
    c->in.erase(0, consumed);
    if (!c->open && c->in.size() > 4096)
      refuse(id, Error{Errc::kInvalidArgument, "the first message is no Hello"});
  }

  /// False: the connection is over.
  bool on_frame(std::uint64_t id, std::string_view bytes) {
    Connection& c = *find(id);
    auto message = wire::decode_to_server(bytes);
    if (!message && message.error().code == Errc::kUnsupported && c.open) {
      log(c.who + ": skipped: " + message.error().context);
      return true;
    }
    if (!message) {
      refuse(id, message.error());
      return false;
    }
    const Hello* hello = std::get_if<Hello>(&*message);
    if (!c.open) {
      if (hello == nullptr) {
        refuse(id, Error{Errc::kInvalidArgument, "the first message is no Hello"});
        return false;
      }
      return on_hello(id, *hello);
    }
    if (hello != nullptr) {
      refuse(id, Error{Errc::kInvalidArgument, "a second Hello"});
      return false;
    }
    const std::uint64_t request = request_of(*message);
    if (request != 0) {
      bool full = false;
      {
        const std::lock_guard lock(mutex_);
        const auto task = tasks_.find(c.task);
        if (task != tasks_.end()) {
          Peer& peer = task->second.peers[id];
          full = peer.requests.size() >= options_.requests_max;
          if (!full) peer.requests.insert(request);
        }
      }
      if (full) {
        refuse(id, Error{Errc::kOverloaded, "too many unanswered requests"});
        return false;
      }
    }
    if (callbacks_.on_message) callbacks_.on_message(c.task, c.kind, std::move(*message));
    return true;
  }

  bool on_hello(std::uint64_t id, const Hello& hello) {
    Connection& c = *find(id);
    Welcome welcome;
    {
      const std::lock_guard lock(mutex_);
      const auto task = tasks_.find(c.task);
      if (task != tasks_.end() && equal_constant_time(task->second.token, hello.token) &&
          hello.version > 0) {
        welcome = task->second.welcome;
        task->second.peers[id].kind = hello.kind;
        c.open = true;
      }
    }
    if (!c.open) {
      refuse(id, hello.version == 0 ? Error{Errc::kUnsupported, "protocol version 0"}
                                    : Error{Errc::kPermissionDenied, "wrong token"});
      return false;
    }
    timed_.erase(id);
    c.kind = hello.kind;
    welcome.version = std::min(hello.version, kProtocolVersion);
    auto bytes = wire::frame(wire::encode(ToClient(std::move(welcome))));
    if (!bytes) {
      refuse(id, bytes.error());
      return false;
    }
    {
      const std::lock_guard lock(mutex_);
      const auto task = tasks_.find(c.task);
      if (task != tasks_.end()) task->second.peers[id].queued_bytes += bytes->size();
    }
    queue(id, *bytes);
    Connection* still = find(id);
    if (still != nullptr && callbacks_.on_message)
      callbacks_.on_message(still->task, hello.kind, hello);
    return find(id) != nullptr;
  }

  void refuse(std::uint64_t id, const Error& error) {
    Connection& c = *find(id);
    log(c.who + ": refused: " + error.to_string());
    auto bytes = wire::frame(wire::encode(ToClient(Refused{error.code, error.context})));
    begin_close(id);
    if (bytes) queue(id, *bytes);
  }

  void begin_close(std::uint64_t id) {
    Connection& c = *find(id);
    c.closing = true;
    c.close_by = clock_.now() + kCloseLinger;
    timed_.insert(id);
  }

  void queue(std::uint64_t id, const std::string& bytes) {
    Connection* c = find(id);
    if (c == nullptr) return;
    c->out += bytes;
    flush(id);
  }

  void flush(std::uint64_t id) {
    Connection* c = find(id);
    if (c == nullptr) return;
    std::size_t sent = 0;
    while (c->out_sent < c->out.size()) {
      const ssize_t n = ::send(c->fd, c->out.data() + c->out_sent, c->out.size() - c->out_sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) {
        drop(id);
        return;
      }
      c->out_sent += static_cast<std::size_t>(n);
      sent += static_cast<std::size_t>(n);
    }
    if (sent > 0) {
      const std::lock_guard lock(mutex_);
      const auto task = tasks_.find(c->task);
      if (task != tasks_.end()) {
        const auto peer = task->second.peers.find(id);
        if (peer != task->second.peers.end())
          peer->second.queued_bytes -= std::min(sent, peer->second.queued_bytes);
      }
    }
    const bool all = c->out_sent == c->out.size();
    if (all || c->out_sent > (1u << 20)) {
      c->out.erase(0, c->out_sent);
      c->out_sent = 0;
    }
    if (all && c->closing) {
      // The peer may still be writing: closing now could turn what we sent into a reset. Wait for
      // its end or close_by.
      ::shutdown(c->fd, SHUT_WR);
    }
    if (all == c->writing) {
      c->writing = !all;
      loop_.change(c->fd, id, EPOLLIN | (c->writing ? EPOLLOUT : 0u));
    }
  }

  void drop(std::uint64_t id) {
    const auto it = connections_.find(id);
    if (it == connections_.end()) return;
    Connection c = std::move(it->second);
    connections_.erase(it);
    timed_.erase(id);
    close_fd(c.fd);
    if (!c.open) return;
    std::size_t left = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto task = tasks_.find(c.task);
      if (task != tasks_.end() && task->second.listener == c.listener) {
        task->second.peers.erase(id);
        for (const auto& [other, peer] : task->second.peers) left += peer.kind == c.kind ? 1 : 0;
      }
    }
    if (callbacks_.on_gone) callbacks_.on_gone(c.task, c.kind, left);
  }

  void do_close(std::uint64_t listener_id, const TaskId& task) {
    const auto it = listeners_.find(listener_id);
    if (it == listeners_.end()) return;
    bool reopened;
    {
      const std::lock_guard lock(mutex_);
      reopened = tasks_.contains(task);
    }
    if (!reopened) ::unlink(it->second.path.c_str());
    close_fd(it->second.fd);
    listeners_.erase(it);
    std::vector<std::uint64_t> ids;
    for (const auto& [id, c] : connections_) {
      if (c.listener == listener_id) ids.push_back(id);
    }
    for (const std::uint64_t id : ids) {
      begin_close(id);
      flush(id);
    }
  }

  ServerOptions options_;
  ServerCallbacks callbacks_;
  SystemClock clock_;
  os::EventLoop loop_;

  std::mutex mutex_;  // tasks_, next_id_. Never held while a callback runs.
  std::unordered_map<TaskId, Entry> tasks_;
  std::uint64_t next_id_ = 1;

  // Of the thread.
  std::map<std::uint64_t, Listener> listeners_;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::unordered_set<std::uint64_t> timed_;   ///< connections before Hello or closing
  std::unordered_set<std::uint64_t> paused_;  ///< listeners, until accept_again_
  TimePoint accept_again_{};
  Seldom accept_failures_;
};

TaskServer::TaskServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TaskServer::~TaskServer() = default;

Result<std::unique_ptr<TaskServer>> TaskServer::start(ServerOptions options,
                                                      ServerCallbacks callbacks) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(callbacks));
  DLRUN_TRY(impl->begin());
  return std::unique_ptr<TaskServer>(new TaskServer(std::move(impl)));
}

std::string TaskServer::socket_path(const TaskId& task) const { return impl_->path_of(task); }
void TaskServer::sweep() { impl_->sweep(); }
Result<std::string> TaskServer::open(const TaskId& task, const cluster::Token& token,
                                     Welcome welcome) {
  return impl_->open(task, token, std::move(welcome));
}
void TaskServer::close(const TaskId& task) { impl_->close(task); }
Status TaskServer::send(const TaskId& task, ToClient message) {
  return impl_->send(task, std::nullopt, message);
}
Status TaskServer::send(const TaskId& task, PeerKind only, ToClient message) {
  return impl_->send(task, only, message);
}

}  // namespace dlrun::task
