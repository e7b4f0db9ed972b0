#include "runtime/task/task_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/os/fd.h"
#include "runtime/wire/task_codec.h"

namespace dlrun::task {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

constexpr auto kBackoffMin = milliseconds(20);
constexpr auto kBackoffMax = milliseconds(1000);
constexpr auto kHandshakeMax = seconds(5);
constexpr auto kLinger = seconds(1);
constexpr std::size_t kBarrierNamesMax = 65536;

using os::close_fd;

template <class Answer>
Status status_of(const Answer& answer) {
  if (answer.error == Errc{}) return {};
  return fail(answer.error, answer.error_context);
}

}  // namespace

class TaskClient::Impl {
 public:
  explicit Impl(ClientOptions options) : options_(std::move(options)), owner_(::getpid()) {}

  Status begin() {
    sockaddr_un address{};
    if (options_.socket_path.empty() || options_.socket_path.size() >= sizeof address.sun_path) {
      return fail(Errc::kInvalidArgument,
                  "socket path '" + options_.socket_path + "' is empty or longer than 107 bytes");
    }
    DLRUN_ASSIGN(wake_, os::make_eventfd());
    // Unique among all clients of the task, so that answers find their call, and above those of
    // every earlier client: the job knows an old lease request by its number.
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return fail_errno("getrandom");
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now().time_since_epoch());
    next_request_ = (static_cast<std::uint64_t>(ms.count()) << 24) | ((random & 0xfff) << 12) | 1;
    const auto now = Steady::now();
    give_up_at_ = now + options_.connect_timeout;
    thread_ = std::thread([this] { run(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ == State::kOpen || state_ == State::kClosed; });
    if (state_ == State::kOpen) return {};
    return tl::unexpected(error_);
  }

  ~Impl() {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        quit_ = true;
        quit_by_ = Steady::now() + kLinger;
      }
      wake();
      thread_.join();
    }
    close_fd(fd_);
    wake_.reset();
  }

  bool forked() const { return ::getpid() != owner_; }
  void abandon_in_child() {
    close_fd(fd_);
    wake_.reset();
  }

  Welcome welcome() {
    const std::lock_guard lock(mutex_);
    return welcome_;
  }

  Status send(ToServer message) {
    DLRUN_TRY(usable());
    DLRUN_ASSIGN(auto bytes, wire::frame(wire::encode(message)));
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::kClosed) return tl::unexpected(error_);
      if (queued_bytes_ + bytes.size() > options_.queue_bytes_max) {
        return fail(Errc::kOverloaded, "the agent does not read what this process sends");
      }
      // Ready and progress are state: the latest is repeated at a reconnect, so they never wait in
      // the queue while lost.
      std::string* state = std::holds_alternative<Ready>(message)            ? &ready_
                           : std::holds_alternative<ReportProgress>(message) ? &progress_
                                                                             : nullptr;
      if (state != nullptr) *state = bytes;
      if (state == nullptr)
        push(std::move(bytes), true);
      else if (state_ == State::kOpen)
        push_state(std::move(bytes), state);
    }
    wake();
    return {};
  }

  Result<ToClient> receive(Duration timeout) {
    DLRUN_TRY(usable());
    std::unique_lock lock(mutex_);
    const bool ok = changed_.wait_for(lock, timeout,
                                      [&] { return !unread_.empty() || state_ == State::kClosed; });
    if (!unread_.empty()) {
      ToClient message = std::move(unread_.front());
      unread_.pop_front();
      return message;
    }
    if (!ok) return fail(Errc::kDeadlineExceeded, "no message from the agent");
    return tl::unexpected(error_);
  }

  Status barrier(const std::string& name, Duration timeout) {
    DLRUN_TRY(usable());
    EnterBarrier message{name, 0};
    {
      const std::lock_guard lock(mutex_);
      if (rounds_.size() >= kBarrierNamesMax && !rounds_.contains(name)) {
        return fail(Errc::kResourceExhausted,
                    "more than " + std::to_string(kBarrierNamesMax) + " names of barriers");
      }
      message.round = ++rounds_[name];
    }
    const auto passed =
        call(BarrierKey{name, message.round}, 0, message, true, timeout, "barrier '" + name + "'");
    if (!passed) return tl::unexpected(passed.error());
    return {};
  }

  template <class Answer, class Request>
  Result<Answer> ask(Request request, bool repeat, Duration timeout, const std::string& what) {
    DLRUN_TRY(usable());
    {
      const std::lock_guard lock(mutex_);
      request.request = next_request_++;
    }
    const std::uint64_t number = request.request;
    DLRUN_ASSIGN(ToClient answer, call({}, number, std::move(request), repeat, timeout, what));
    auto* typed = std::get_if<Answer>(&answer);
    if (typed == nullptr) return fail(Errc::kInternal, what + ": an answer of another kind");
    DLRUN_TRY(status_of(*typed));
    return std::move(*typed);
  }

  bool stop_requested() {
    const std::lock_guard lock(mutex_);
    return stop_requested_;
  }
  std::uint64_t dropped() {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  enum class State { kLost, kHandshake, kOpen, kClosed };
  struct BarrierKey {
    std::string name;
    std::uint64_t round = 0;
    friend auto operator<=>(const BarrierKey&, const BarrierKey&) = default;
  };
  struct Call {
    std::string bytes;  ///< framed
    bool repeat = false;
    std::uint64_t request = 0;
    BarrierKey barrier;
    std::optional<Result<ToClient>> answer;
  };
  struct Frame {
    std::string bytes;
    bool keep = false;                      ///< one-way: sent after a reconnect too
    const std::string* state_of = nullptr;  ///< ready_ or progress_, of which it says the latest
  };

  Status usable() const {
    if (forked())
      return fail(Errc::kFailedPrecondition,
                  "a dlrun client cannot be used after fork(): connect again");
    return {};
  }

  void wake() const { os::ring_eventfd(wake_.get()); }

  void push(std::string bytes, bool keep) {
    queued_bytes_ += bytes.size();
    out_.push_back({std::move(bytes), keep, nullptr});
  }

  /// What was queued of the same state and not begun to be sent is out of date: it is replaced in
  /// its place, so that a script that reports more often than the agent reads fills no queue.
  void push_state(std::string bytes, const std::string* state) {
    for (std::size_t i = head_sent_ > 0 ? 1 : 0; i < out_.size(); ++i) {
      if (out_[i].state_of != state) continue;
      queued_bytes_ = queued_bytes_ - out_[i].bytes.size() + bytes.size();
      out_[i].bytes = std::move(bytes);
      return;
    }
    push(std::move(bytes), false);
    out_.back().state_of = state;
  }

  Result<ToClient> call(BarrierKey barrier, std::uint64_t request, ToServer message, bool repeat,
                        Duration timeout, const std::string& what) {
    auto entry = std::make_shared<Call>();
    DLRUN_ASSIGN(entry->bytes, wire::frame(wire::encode(message)));
    entry->repeat = repeat;
    entry->request = request;
    entry->barrier = std::move(barrier);
    std::unique_lock lock(mutex_);
    if (state_ == State::kClosed) return tl::unexpected(error_);
    if (state_ != State::kOpen && !repeat)
      return fail(Errc::kUnavailable, what + ": the agent is away");
    if (calls_.size() >= options_.queue_messages_max)
      return fail(Errc::kOverloaded, what + ": too many calls at once");
    calls_.push_back(entry);
    if (state_ == State::kOpen) push(entry->bytes, false);
    wake();
    changed_.wait_for(lock, timeout, [&] { return entry->answer.has_value(); });
    std::erase(calls_, entry);
    if (!entry->answer)
      return fail(Errc::kDeadlineExceeded, what + ": no answer from the agent in time");
    return std::move(*entry->answer);
  }

  // ---- the thread

  void run() {
    auto backoff = kBackoffMin;
    Steady::time_point next_try = Steady::now();
    for (;;) {
      pollfd polled[2] = {{wake_.get(), POLLIN, 0}, {fd_, POLLIN, 0}};
      std::optional<Steady::time_point> until;
      {
        const std::lock_guard lock(mutex_);
        const auto now = Steady::now();
        if (state_ == State::kClosed) return;
        if (quit_ && (state_ != State::kOpen || out_.empty() || now >= quit_by_)) return;
        if (quit_) until = quit_by_;
        if (state_ == State::kLost) until = std::min(next_try, give_up_at_);
        if (state_ == State::kHandshake) until = std::min(handshake_by_, give_up_at_);
        const bool may_send =
            state_ == State::kOpen || (state_ == State::kHandshake && hello_only_);
        if (may_send && !out_.empty()) polled[1].events |= POLLOUT;
      }
      int timeout = -1;
      if (until)
        timeout = static_cast<int>(
            std::clamp<std::int64_t>((*until - Steady::now()) / milliseconds(1) + 1, 0, 60'000));
      ::poll(polled, 2, timeout);
      if (polled[0].revents != 0) os::drain_eventfd(wake_.get());
      const auto now = Steady::now();
      State state;
      {
        const std::lock_guard lock(mutex_);
        state = state_;
      }
      if (state == State::kLost) {
        if (now >= give_up_at_) {
          close_for_good(Error{Errc::kUnavailable, "the agent is not reachable at " +
                                                       options_.socket_path + ": " + last_error_});
        } else if (now >= next_try && !try_connect()) {
          next_try = now + backoff;
          backoff = std::min(backoff * 2, kBackoffMax);
        }
        continue;
      }
      if (state == State::kHandshake && now >= std::min(handshake_by_, give_up_at_)) {
        lost("no Welcome in time");
        next_try = now + backoff;
        continue;
      }
      bool ok = true;
      if ((polled[1].revents & POLLOUT) != 0) ok = flush();
      if (ok && (polled[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) ok = read_some();
      if (!ok) {
        bool was_open;
        {
          const std::lock_guard lock(mutex_);
          was_open = state_ == State::kOpen;
        }
        lost(last_error_);
        if (was_open) backoff = kBackoffMin;
        next_try = now + backoff;
        backoff = std::min(backoff * 2, kBackoffMax);
      }
    }
  }

  bool try_connect() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, options_.socket_path.c_str(), options_.socket_path.size() + 1);
    int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      last_error_ = std::strerror(errno);
      close_fd(fd);
      return false;
    }
    Hello hello;
    hello.kind = options_.kind;
    hello.token = options_.token;
    hello.pid = ::getpid();
    auto bytes = wire::frame(wire::encode(ToServer(hello)));
    const std::lock_guard lock(mutex_);
    fd_ = fd;
    in_.clear();
    head_sent_ = 0;
    out_.push_front({std::move(*bytes), false});
    queued_bytes_ += out_.front().bytes.size();
    hello_only_ = true;
    state_ = State::kHandshake;
    handshake_by_ = Steady::now() + kHandshakeMax;
    return true;
  }

  bool flush() {
    const std::lock_guard lock(mutex_);
    while (!out_.empty()) {
      // Hello is out; the rest after Welcome
      if (state_ == State::kHandshake && !hello_only_) return true;
      const std::string& bytes = out_.front().bytes;
      const ssize_t n = ::send(fd_, bytes.data() + head_sent_, bytes.size() - head_sent_,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return true;
      if (n < 0) {
        last_error_ = std::strerror(errno);
        if (errno != EPIPE || state_ != State::kHandshake) return false;
        // A Refused may be waiting to be read; the end comes after it.
      }
      if (n < 0) head_sent_ = bytes.size();
      if (n > 0) head_sent_ += static_cast<std::size_t>(n);
      if (head_sent_ < bytes.size()) continue;
      queued_bytes_ -= bytes.size();
      head_sent_ = 0;
      out_.pop_front();
      hello_only_ = false;
    }
    return true;
  }

  bool read_some() {
    char buffer[64 << 10];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) {
      last_error_ = n == 0 ? "the agent closed the connection" : std::strerror(errno);
      return false;
    }
    in_.append(buffer, static_cast<std::size_t>(n));
    std::size_t consumed = 0;
    std::string_view bytes;
    for (;;) {
      const auto more = wire::unframe(in_, consumed, bytes);
      if (!more) {
        last_error_ = more.error().context;
        return false;
      }
      if (!*more) break;
      auto message = wire::decode_to_client(bytes);
      if (!message && message.error().code == Errc::kUnsupported) continue;
      if (!message) {
        last_error_ = message.error().context;
        return false;
      }
      if (!on_message(std::move(*message))) return true;  // closed
    }
    in_.erase(0, consumed);
    return true;
  }

  bool on_message(ToClient message) {
    if (auto* refused = std::get_if<Refused>(&message)) {
      close_for_good(Error{refused->code, "the agent refused: " + refused->reason});
      return false;
    }
    std::unique_lock lock(mutex_);
    if (auto* welcome = std::get_if<Welcome>(&message)) {
      if (welcome->version == 0 || welcome->version > kProtocolVersion) {
        lock.unlock();
        close_for_good(Error{Errc::kUnsupported,
                             "the agent speaks version " + std::to_string(welcome->version)});
        return false;
      }
      welcome_ = std::move(*welcome);
      if (state_ == State::kHandshake) opened();
      return true;
    }
    if (std::holds_alternative<StopNow>(message)) stop_requested_ = true;
    if (answer_call(message)) return true;
    if (options_.on_message) {
      lock.unlock();
      options_.on_message(std::move(message));
      return true;
    }
    if (unread_.size() >= options_.queue_messages_max) {
      unread_.pop_front();
      ++dropped_;
    }
    unread_.push_back(std::move(message));
    changed_.notify_all();
    return true;
  }

  /// True when the message needs nobody else: it answers a call, or a call that is not waiting any
  /// more.
  bool answer_call(ToClient& message) {
    const auto* barrier = std::get_if<BarrierPassed>(&message);
    std::uint64_t request = 0;
    if (const auto* at = std::get_if<InputAt>(&message)) request = at->request;
    if (const auto* reply = std::get_if<FeederReply>(&message)) request = reply->request;
    if (const auto* committed = std::get_if<Committed>(&message)) request = committed->request;
    if (barrier == nullptr && request == 0) return false;
    for (const auto& call : calls_) {
      if (call->answer) continue;
      const bool mine =
          barrier != nullptr
              ? call->request == 0 && call->barrier == BarrierKey{barrier->name, barrier->round}
              : call->request == request;
      if (!mine) continue;
      call->answer = std::move(message);
      changed_.notify_all();
      return true;
    }
    // Sent raw by send(): then the caller wants it in receive().
    return barrier != nullptr || (request >= (1u << 20));
  }

  /// Welcome came: state first, then the calls that are waiting, then what waited in the queue.
  void opened() {
    state_ = State::kOpen;
    ever_open_ = true;
    std::deque<Frame> waiting;
    waiting.swap(out_);
    queued_bytes_ = 0;
    if (!ready_.empty()) push_state(ready_, &ready_);
    if (!progress_.empty()) push_state(progress_, &progress_);
    for (const auto& call : calls_) {
      if (!call->answer) push(call->bytes, false);
    }
    for (Frame& f : waiting) {
      if (f.keep) push(std::move(f.bytes), true);
    }
    changed_.notify_all();
  }

  void lost(const std::string& why) {
    const std::lock_guard lock(mutex_);
    const bool was_open = state_ == State::kOpen;
    if (state_ == State::kClosed) return;
    last_error_ = why;
    close_fd(fd_);
    state_ = State::kLost;
    head_sent_ = 0;
    std::erase_if(out_, [](const Frame& f) { return !f.keep; });
    queued_bytes_ = 0;
    for (const Frame& f : out_) queued_bytes_ += f.bytes.size();
    for (const auto& call : calls_) {
      if (!call->repeat && !call->answer) {
        call->answer = fail(Errc::kUnavailable, "the agent went away before it answered");
      }
    }
    if (was_open) give_up_at_ = Steady::now() + options_.reconnect_for;
    changed_.notify_all();
  }

  void close_for_good(Error error) {
    {
      const std::lock_guard lock(mutex_);
      close_fd(fd_);
      state_ = State::kClosed;
      error_ = error;
      for (const auto& call : calls_) {
        if (!call->answer) call->answer = tl::unexpected(error);
      }
      changed_.notify_all();
    }
    if (ever_open_ && options_.on_closed) options_.on_closed(std::move(error));
  }

  ClientOptions options_;
  const pid_t owner_;
  os::Fd wake_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kLost;
  Error error_;
  Welcome welcome_;
  std::deque<Frame> out_;
  std::size_t queued_bytes_ = 0;
  std::string ready_, progress_;  ///< framed
  std::vector<std::shared_ptr<Call>> calls_;
  std::deque<ToClient> unread_;
  std::map<std::string, std::uint64_t> rounds_;
  std::uint64_t next_request_ = 1;
  std::uint64_t dropped_ = 0;
  bool stop_requested_ = false;
  bool quit_ = false;
  Steady::time_point quit_by_{};
  Steady::time_point give_up_at_{};

  // Of the thread (fd_ is closed under the mutex).
  int fd_ = -1;
  std::size_t head_sent_ = 0;
  bool ever_open_ = false;
  bool hello_only_ = false;  ///< the front of out_ is the Hello
  std::string in_;
  std::string last_error_ = "not tried";
  Steady::time_point handshake_by_{};
};

TaskClient::TaskClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TaskClient::~TaskClient() {
  if (impl_ != nullptr && impl_->forked()) {
    impl_->abandon_in_child();
    (void)impl_
        // its thread and its locks are the parent's: there is nothing to destroy safely
        .release();
  }
}

Result<std::unique_ptr<TaskClient>> TaskClient::connect(ClientOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  DLRUN_TRY(impl->begin());
  return std::unique_ptr<TaskClient>(new TaskClient(std::move(impl)));
}

Welcome TaskClient::welcome() const { return impl_->welcome(); }
Status TaskClient::send(ToServer message) { return impl_->send(std::move(message)); }
Result<ToClient> TaskClient::receive(Duration timeout) { return impl_->receive(timeout); }
Status TaskClient::barrier(const std::string& name, Duration timeout) {
  return impl_->barrier(name, timeout);
}

Result<InputAt> TaskClient::open_input(const std::string& input, Duration timeout) {
  return impl_->ask<InputAt>(OpenInput{0, input}, true, timeout, "input '" + input + "'");
}

Result<std::uint64_t> TaskClient::commit(std::string tag, std::vector<io::InputCursor> inputs,
                                         Duration timeout) {
  DLRUN_ASSIGN(const auto committed,
               impl_->ask<Committed>(CommitInputs{0, std::move(tag), std::move(inputs)}, true,
                                     timeout, "commit"));
  return committed.number;
}

Result<io::InputStart> TaskClient::feeder_files(const TaskId& consumer, const std::string& input,
                                                std::vector<io::FileEntry> files,
                                                Duration timeout) {
  DLRUN_ASSIGN(auto reply,
               impl_->ask<FeederReply>(FeederFiles{0, consumer, input, std::move(files)}, true,
                                       timeout, "files of input '" + input + "'"));
  return std::move(reply.answer.start);
}

Result<io::LeaseAnswer> TaskClient::feeder_lease(FeederLease request, Duration timeout) {
  const std::string what = "lease of input '" + request.input + "'";
  DLRUN_ASSIGN(auto reply, impl_->ask<FeederReply>(std::move(request), false, timeout, what));
  return std::move(reply.answer);
}

bool TaskClient::stop_requested() const { return impl_->stop_requested(); }
std::uint64_t TaskClient::dropped() const { return impl_->dropped(); }

}  // namespace dlrun::task
