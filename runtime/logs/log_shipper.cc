#include "runtime/logs/log_shipper.h"

#include <sys/inotify.h>
#include <unistd.h>
#include <zmq.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/base/seldom.h"
#include "runtime/logs/log_store.h"
#include "runtime/os/fd.h"
#include "runtime/shim/log_files.h"
#include "runtime/wire/logs_codec.h"

namespace dlrun::logs {
namespace {

using std::chrono::milliseconds;

/// a directory that is not there yet, or no inotify left: look anew
constexpr Duration kWatchRetry = milliseconds(100);
constexpr Duration kErrorPause = std::chrono::seconds(1);
constexpr Duration kPollPause = milliseconds(100);

}  // namespace

class LogShipper::Impl {
 public:
  explicit Impl(ShipperOptions options) : options_(std::move(options)) {}

  Status begin() {
    DLRUN_ASSIGN(options_.keys.public_key, curve_public(options_.keys.secret_key));
    DLRUN_ASSIGN(wake_fd_, os::make_eventfd());
    inotify_fd_ = os::Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!inotify_fd_) return fail_errno("log shipper: inotify");
    try {
      context_.emplace();
    } catch (const zmq::error_t& error) {
      return fail(Errc::kResourceExhausted, std::string("log shipper: ") + error.what());
    }
    thread_ = std::thread([this] { run(); });
    return {};
  }

  ~Impl() {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        quit_ = true;
      }
      wake();
      thread_.join();
    }
  }

  void post(std::function<void()> call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    wake();
  }

  void connect(const std::string& endpoint, const std::string& server_key) {
    if (socket_ && endpoint == endpoint_ && server_key == server_key_) return;
    endpoint_ = endpoint;
    server_key_ = server_key;
    reopen();
  }

  /// Without a socket when that fails: it is tried again as after a silence.
  void reopen() {
    socket_.close();
    last_heard_ = clock_.now();
    try {
      zmq::socket_t fresh(*context_, zmq::socket_type::dealer);
      fresh.set(zmq::sockopt::linger, 0);
      fresh.set(zmq::sockopt::ipv6, true);
      fresh.set(zmq::sockopt::immediate, true);  // nothing queues for a peer that is not there
      fresh.set(zmq::sockopt::sndhwm, 64);
      fresh.set(zmq::sockopt::rcvhwm, 1024);
      fresh.set(zmq::sockopt::maxmsgsize, std::int64_t{1 << 20});
      fresh.set(zmq::sockopt::reconnect_ivl, 50);
      fresh.set(zmq::sockopt::reconnect_ivl_max, 1000);
      fresh.set(zmq::sockopt::heartbeat_ivl, 10'000);
      fresh.set(zmq::sockopt::heartbeat_timeout, 20'000);
      fresh.set(zmq::sockopt::curve_serverkey, server_key_);
      fresh.set(zmq::sockopt::curve_publickey, options_.keys.public_key);
      fresh.set(zmq::sockopt::curve_secretkey, options_.keys.secret_key);
      fresh.connect(endpoint_);
      socket_ = std::move(fresh);
    } catch (const zmq::error_t&) {
      return;
    }
    for (auto& [id, s] : streams_) reset(s, TimePoint{});
  }

  void add(const TaskId& task, const std::string& dir, const ShipPass& pass) {
    if (tasks_.contains(task)) return;
    Task& t = tasks_[task];
    t.dir = dir;
    watch(task, t);
    for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
      StreamState& s = streams_[{task, stream}];
      s.dir = dir;
      s.pass = pass;
    }
  }

  void finish(const TaskId& task, Duration give_up, std::function<void(bool)> done) {
    const auto it = tasks_.find(task);
    if (it == tasks_.end()) {
      if (done) done(false);
      return;
    }
    it->second.finishing = true;
    it->second.give_up_at = clock_.now() + give_up;
    it->second.done = std::move(done);
    for (const Stream stream : {Stream::kStdout, Stream::kStderr})
      streams_[{task, stream}].dirty = true;
  }

  void remove(const TaskId& task) {
    const auto it = tasks_.find(task);
    if (it == tasks_.end()) return;
    if (it->second.watch >= 0) {
      ::inotify_rm_watch(inotify_fd_.get(), it->second.watch);
      watches_.erase(it->second.watch);
    }
    tasks_.erase(it);
    for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
      const auto s = streams_.find({task, stream});
      if (s == streams_.end()) continue;
      reset(s->second, TimePoint{});
      streams_.erase(s);
    }
  }

 private:
  struct Sent {
    std::uint64_t request = 0;
    std::uint64_t end = 0;
    std::size_t bytes = 0;
    TimePoint at{};
  };
  /// Unknown -> Asked -> Known -> (Finishing) -> Finished; any error or a lost answer: back to
  /// Unknown.
  enum class State { kUnknown, kAsked, kKnown, kFinishing, kFinished };
  struct StreamState {
    std::string dir;
    ShipPass pass;
    State state = State::kUnknown;
    TimePoint not_before{};     ///< of the next question
    std::uint64_t request = 0;  ///< of the question or the finish
    TimePoint asked_at{};
    std::uint64_t next = 0;  ///< offset to send
    std::deque<Sent> sent;   ///< not acknowledged
    bool dirty = true;       ///< there may be bytes beyond `next`
  };
  struct Task {
    std::string dir;
    int watch = -1;
    TimePoint watch_at{};
    bool finishing = false;
    TimePoint give_up_at{};
    std::function<void(bool)> done;
  };

  void wake() const { os::ring_eventfd(wake_fd_.get()); }

  void watch(const TaskId& task, Task& t) {
    t.watch =
        ::inotify_add_watch(inotify_fd_.get(), t.dir.c_str(), IN_MODIFY | IN_CREATE | IN_ONLYDIR);
    if (t.watch >= 0) {
      watches_[t.watch] = task;
    } else {
      t.watch_at = clock_.now() + kWatchRetry;
    }
  }

  void reset(StreamState& s, TimePoint not_before) {
    for (const Sent& sent : s.sent) in_flight_ -= sent.bytes;
    s.sent.clear();
    if (s.state == State::kFinished) return;
    s.state = State::kUnknown;
    s.not_before = not_before;
    s.dirty = true;
  }

  void run() {
    for (;;) {
      std::deque<std::function<void()>> calls;
      {
        const std::lock_guard lock(mutex_);
        if (quit_) return;
        calls.swap(calls_);
      }
      for (auto& call : calls) call();
      blocked_ = false;
      const TimePoint now = clock_.now();
      std::optional<TimePoint> next = on_timers(now);
      if (socket_) pump(now, next);
      report_done();
      int timeout = -1;
      if (next)
        timeout = static_cast<int>(
            std::clamp<std::int64_t>((*next - clock_.now()) / milliseconds(1) + 1, 0, 60'000));
      zmq_pollitem_t items[3] = {
          {nullptr, wake_fd_.get(), ZMQ_POLLIN, 0},
          {nullptr, inotify_fd_.get(), ZMQ_POLLIN, 0},
          {socket_.handle(), 0, static_cast<short>(ZMQ_POLLIN | (blocked_ ? ZMQ_POLLOUT : 0)), 0}};
      if (zmq_poll(items, socket_ ? 3 : 2, timeout) < 0 && zmq_errno() != EINTR) {
        if (poll_failures_.now() && options_.log)
          options_.log(std::string("log shipper: poll: ") + zmq_strerror(zmq_errno()) +
                       ": tried again until it works");
        std::this_thread::sleep_for(kPollPause);
      }
      if (items[0].revents != 0) os::drain_eventfd(wake_fd_.get());
      if (items[1].revents != 0) on_inotify();
      if (socket_) {
        while (on_answer()) {
        }
      }
    }
  }

  static void consider(std::optional<TimePoint>& next, TimePoint at) {
    if (!next || at < *next) next = at;
  }

  std::optional<TimePoint> on_timers(TimePoint now) {
    std::optional<TimePoint> next;
    bool wanting = false;
    for (auto& [task, t] : tasks_) {
      if (t.finishing) consider(next, t.give_up_at);
      if (t.watch >= 0) continue;
      if (t.watch_at <= now) {
        watch(task, t);
        for (const Stream stream : {Stream::kStdout, Stream::kStderr})
          streams_[{task, stream}].dirty = true;
      }
      if (t.watch < 0) consider(next, t.watch_at);
    }
    for (auto& [id, s] : streams_) {
      wanting = wanting || s.state == State::kUnknown || s.state == State::kAsked ||
                s.state == State::kFinishing || !s.sent.empty();
      const bool waits = s.state == State::kAsked || s.state == State::kFinishing;
      if (!waits && s.sent.empty()) continue;
      const TimePoint late = (waits ? s.asked_at : s.sent.front().at) + options_.answer_timeout;
      if (late <= now) {
        reset(s, now);
      } else {
        consider(next, late);
      }
    }
    // ZeroMQ gives a connection up for good when its handshake was refused, as it is while a
    // restarted coordinator does not know us yet: a socket that hears nothing is replaced.
    if (!wanting) {
      last_heard_ = now;
    } else if (socket_ || !endpoint_.empty()) {
      if (last_heard_ + 2 * options_.answer_timeout <= now) reopen();
      consider(next, last_heard_ + 2 * options_.answer_timeout);
    }
    return next;
  }

  /// Sends what may be sent, one chunk per stream and round.
  void pump(TimePoint now, std::optional<TimePoint>& next) {
    bool any = true;
    while (any && !blocked_) {
      any = false;
      for (auto& [id, s] : streams_) {
        if (blocked_) break;
        if (s.state == State::kUnknown) {
          if (s.not_before > now) {
            consider(next, s.not_before);
          } else {
            ask(id, s, now);
          }
        } else if (s.state == State::kKnown && s.dirty) {
          // at its end: look again, it may be finishing
          any = send_chunk(id, s, now, next) || !s.dirty || any;
        } else if (s.state == State::kKnown && s.sent.empty() && tasks_[id.task].finishing) {
          question(id, s, wire::LogKind::kFinish, State::kFinishing, now);
        }
      }
    }
  }

  wire::LogHeader header_of(const StreamId& id, const StreamState& s, wire::LogKind kind) {
    wire::LogHeader h;
    h.kind = kind;
    h.request = next_request_++;
    h.task = id.task;
    h.stream = static_cast<std::uint8_t>(id.stream);
    h.epoch = s.pass.epoch;
    h.proof = s.pass.proof;
    return h;
  }

  void ask(const StreamId& id, StreamState& s, TimePoint now) {
    question(id, s, wire::LogKind::kAsk, State::kAsked, now);
  }

  void question(const StreamId& id, StreamState& s, wire::LogKind kind, State state,
                TimePoint now) {
    const wire::LogHeader h = header_of(id, s, kind);
    const std::string bytes = wire::encode(h);
    if (!send(bytes, zmq::send_flags::dontwait)) {
      blocked_ = true;
      return;
    }
    s.state = state;
    s.request = h.request;
    s.asked_at = now;
  }

  /// False: there is no room, or no connection.
  bool send(const std::string& frame, zmq::send_flags flags) {
    try {
      return socket_.send(zmq::buffer(frame), flags).has_value();
    } catch (const zmq::error_t&) {
      return false;
    }
  }

  /// True when a chunk went out.
  bool send_chunk(const StreamId& id, StreamState& s, TimePoint now,
                  std::optional<TimePoint>& next) {
    if (in_flight_ >= options_.in_flight_bytes) return false;
    if (send_at_ > now) {
      consider(next, send_at_);
      return false;
    }
    const auto read =
        shim::read_log(s.dir, std::string(to_string(id.stream)), s.next, options_.chunk_bytes);
    if (!read && read.error().code != Errc::kNotFound) {
      s.dirty = false;
      reset(s, now + kErrorPause);
      return false;
    }
    if (!read || read->bytes.empty()) {
      s.dirty = false;
      return false;
    }
    // Small pieces wait for the answer to the last one: a chatty task makes few messages.
    if (!s.sent.empty() && read->bytes.size() < options_.chunk_bytes / 4) return false;
    wire::LogHeader h = header_of(id, s, wire::LogKind::kAppend);
    h.offset = read->offset;
    h.gap = read->offset != s.next;
    const std::string head = wire::encode(h);
    if (!send(head, zmq::send_flags::dontwait | zmq::send_flags::sndmore)) {
      blocked_ = true;
      return false;
    }
    // the rest of a started message is taken
    (void)send(read->bytes, zmq::send_flags::dontwait);
    s.next = read->offset + read->bytes.size();
    s.sent.push_back({h.request, s.next, read->bytes.size(), now});
    in_flight_ += read->bytes.size();
    if (options_.bytes_per_second_max > 0) {
      send_at_ = now + std::chrono::nanoseconds(read->bytes.size() * 1'000'000'000ull /
                                                options_.bytes_per_second_max);
    }
    return true;
  }

  /// False when there is none.
  bool on_answer() {
    zmq::message_t message;
    try {
      if (!socket_.recv(message, zmq::recv_flags::dontwait)) return false;
    } catch (const zmq::error_t&) {
      return false;
    }
    const auto h = wire::decode_log_header(message.to_string_view());
    if (!h) return true;
    last_heard_ = clock_.now();
    const auto it = streams_.find({h->task, static_cast<Stream>(h->stream)});
    if (it == streams_.end()) return true;
    StreamState& s = it->second;
    switch (h->kind) {
      case wire::LogKind::kAskAnswer:
        if (s.state != State::kAsked || h->request != s.request) return true;
        if (h->error != Errc{}) {
          reset(s, clock_.now() + kErrorPause);
          return true;
        }
        s.state = State::kKnown;
        s.next = h->offset;
        s.dirty = true;
        return true;
      case wire::LogKind::kAppendAnswer:
        if (s.sent.empty() || h->request != s.sent.front().request) return true;
        if (h->error != Errc{} || h->offset != s.sent.front().end) {
          reset(s, h->error != Errc{} ? clock_.now() + kErrorPause : TimePoint{});
          return true;
        }
        in_flight_ -= s.sent.front().bytes;
        s.sent.pop_front();
        return true;
      case wire::LogKind::kFinishAnswer:
        if (s.state != State::kFinishing || h->request != s.request) return true;
        if (h->error != Errc{}) {
          reset(s, clock_.now() + kErrorPause);
        } else {
          s.state = State::kFinished;
        }
        return true;
      default:
        return true;
    }
  }

  void on_inotify() {
    alignas(inotify_event) char buffer[16 << 10];
    for (;;) {
      const ssize_t n = ::read(inotify_fd_.get(), buffer, sizeof buffer);
      if (n <= 0) return;
      for (ssize_t at = 0; at < n;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
        at += static_cast<ssize_t>(sizeof *event) + event->len;
        if ((event->mask & IN_Q_OVERFLOW) != 0) {
          for (auto& [id, s] : streams_) s.dirty = true;
          continue;
        }
        const auto task = watches_.find(event->wd);
        if (task == watches_.end()) continue;
        const Stream stream = event->len > 0 && std::strncmp(event->name, "stderr", 6) == 0
                                  ? Stream::kStderr
                                  : Stream::kStdout;
        const auto s = streams_.find({task->second, stream});
        if (s != streams_.end()) s->second.dirty = true;
      }
    }
  }

  void report_done() {
    const TimePoint now = clock_.now();
    std::vector<std::pair<std::function<void(bool)>, bool>> ended;
    std::vector<TaskId> gone;
    for (auto& [task, t] : tasks_) {
      if (!t.finishing) continue;
      const bool all = streams_[{task, Stream::kStdout}].state == State::kFinished &&
                       streams_[{task, Stream::kStderr}].state == State::kFinished;
      if (!all && t.give_up_at > now) continue;
      ended.emplace_back(std::move(t.done), all);
      gone.push_back(task);
    }
    for (const TaskId& task : gone) remove(task);
    for (auto& [done, ok] : ended) {
      if (done) done(ok);
    }
  }

  ShipperOptions options_;
  SystemClock clock_;
  Seldom poll_failures_;
  std::optional<zmq::context_t> context_;
  os::Fd wake_fd_, inotify_fd_;
  std::thread thread_;

  std::mutex mutex_;  // calls_, quit_
  std::deque<std::function<void()>> calls_;
  bool quit_ = false;

  // Of the thread.
  zmq::socket_t socket_;  ///< empty: not connected
  std::string endpoint_, server_key_;
  TimePoint last_heard_{};
  std::map<TaskId, Task> tasks_;
  std::map<StreamId, StreamState> streams_;
  std::map<int, TaskId> watches_;
  std::size_t in_flight_ = 0;
  std::uint64_t next_request_ = 1;
  TimePoint send_at_{};
  bool blocked_ = false;  ///< the socket takes nothing now
};

LogShipper::LogShipper(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogShipper::~LogShipper() = default;

Result<std::unique_ptr<LogShipper>> LogShipper::start(ShipperOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  DLRUN_TRY(impl->begin());
  return std::unique_ptr<LogShipper>(new LogShipper(std::move(impl)));
}

void LogShipper::connect(const std::string& endpoint, const std::string& server_public_key) {
  impl_->post([this, endpoint, server_public_key] { impl_->connect(endpoint, server_public_key); });
}
void LogShipper::add(const TaskId& task, const std::string& logs_dir, ShipPass pass) {
  impl_->post([this, task, logs_dir, pass = std::move(pass)] { impl_->add(task, logs_dir, pass); });
}
void LogShipper::finish(const TaskId& task, Duration give_up, std::function<void(bool)> done) {
  impl_->post([this, task, give_up, done = std::move(done)]() mutable {
    impl_->finish(task, give_up, std::move(done));
  });
}
void LogShipper::remove(const TaskId& task) {
  impl_->post([this, task] { impl_->remove(task); });
}

}  // namespace dlrun::logs
