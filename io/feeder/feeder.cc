#include "io/feeder/feeder.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "io/pipe/protocol.h"

namespace dlrun::io {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

Feeder::Feeder(FeederOptions options, Source& source, AgentLink& link)
    : options_(std::move(options)), source_(source), link_(link) {}

Status Feeder::start() {
  DLRUN_ASSIGN(stopped_, pipe::make_eventfd());
  DLRUN_ASSIGN(admitted_, pipe::make_eventfd());
  DLRUN_ASSIGN(listener_, pipe::listen_unix(options_.socket_path));
  pump_ = std::make_unique<LeasePump>(link_, options_.lease_timeout);
  thread_ = std::thread([this] { accept_loop(); });
  return {};
}

Feeder::~Feeder() { shutdown(); }

void Feeder::shutdown() {
  stop();
  if (thread_.joinable()) thread_.join();
  std::map<cluster::Token, Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  for (auto& [token, entry] : entries)
    if (entry.live) entry.live->stop();
  entries.clear();
  pump_.reset();
  if (listener_) ::unlink(options_.socket_path.c_str());
  listener_.reset();
}

void Feeder::stop() {
  if (stopped_) pipe::ring_eventfd(stopped_.get());
}

Status Feeder::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Feeder::log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

void Feeder::admit(const task::AdmitConsumer& admit) {
  {
    const std::lock_guard lock(mutex_);
    // told again by an agent that came back
    entries_.try_emplace(admit.token, Entry{admit, nullptr});
  }
  if (admitted_) pipe::ring_eventfd(admitted_.get());
}

void Feeder::drop(const TaskId& consumer) {
  bool lives = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (it->second.admit.consumer != consumer) {
        ++it;
        continue;
      }
      // The accepting thread joins it: this one belongs to the agent's link and must not wait.
      if (it->second.live && !it->second.live->finished()) {
        it->second.live->stop();
        it->second.admit.consumer = TaskId{};
        it->second.dropped = consumer;
        lives = true;
        ++it;
        continue;
      }
      it = entries_.erase(it);
    }
  }
  if (!lives) (void)link_.gone(consumer);
  if (admitted_) pipe::ring_eventfd(admitted_.get());
}

/// Consumers that are over are joined, in no time; the agent hears when the last of a task is.
void Feeder::forget_ended() {
  std::set<TaskId> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      Entry& entry = it->second;
      if (entry.live && entry.live->finished()) {
        entry.live.reset();
        if (entry.dropped) ended.insert(*entry.dropped);
      }
      it = !entry.live && entry.admit.consumer == TaskId{} ? entries_.erase(it) : std::next(it);
    }
    for (const auto& [token, entry] : entries_)
      if (entry.dropped) ended.erase(*entry.dropped);
  }
  for (const TaskId& consumer : ended) (void)link_.gone(consumer);
}

std::size_t Feeder::attached() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [](const auto& e) { return e.second.live && !e.second.live->finished(); }));
}

void Feeder::accept_loop() {
  std::vector<Pending> pending;
  for (;;) {
    const TimePoint now = pipe::now();
    TimePoint until = now + std::chrono::seconds(1);
    const bool accepts = pending.size() < kPendingMax && now >= accept_again_;
    if (now < accept_again_) until = std::min(until, accept_again_);
    std::vector<pipe::PollItem> items{{stopped_.get()}, {admitted_.get()}};
    items.push_back({accepts ? listener_.get() : -1});
    for (const Pending& p : pending) {
      items.push_back({p.socket.get()});
      until = std::min(until, p.deadline);
    }
    if (const auto polled = pipe::poll_until(items, until); !polled) {
      log(polled.error().to_string() + ": this feeder ends");
      {
        const std::lock_guard lock(mutex_);
        failure_ = tl::unexpected(polled.error());
      }
      return stop();
    }
    if (items[0].ready) return;
    if (items[1].ready) pipe::drain_eventfd(admitted_.get());
    for (std::size_t i = pending.size(); i > 0; --i) {
      if (!advance(pending[i - 1], items[2 + i].ready))
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    if (items[2].ready) accept_one(pending);

    forget_ended();
  }
}

void Feeder::accept_one(std::vector<Pending>& pending) {
  pipe::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;  // gone again
    // It stays in the queue and would wake the poll at once.
    if (accept_failures_.now())
      log("accept a consumer: " + std::string(std::strerror(errno)) +
          ": tried again until it works (" + std::to_string(accept_failures_.count()) +
          " times so far)");
    accept_again_ = pipe::now() + kAcceptPause;
    return;
  }
  pending.push_back({std::move(socket), pipe::now() + options_.admit_wait});
}

/// False when the connection is no longer pending.
bool Feeder::advance(Pending& pending, bool readable) {
  if (readable && pending.said_hello) return false;  // it closed, or talks out of turn
  if (readable) {
    pipe::Hello hello;
    std::vector<std::byte> message(sizeof hello + pipe::kProgressMax * sizeof(SplitProgress) +
                                   (pipe::kLanesMax + 1) * sizeof(LanePosition));
    const auto got = pipe::receive_message(pending.socket.get(), message, 0, pipe::now());
    if (!got || got->bytes < sizeof hello) return false;
    std::memcpy(&hello, message.data(), sizeof hello);
    if (hello.magic != pipe::kHelloMagic || hello.progress > pipe::kProgressMax ||
        got->bytes < sizeof hello + hello.progress * sizeof(SplitProgress))
      return false;
    const std::size_t lanes_at = sizeof hello + hello.progress * sizeof(SplitProgress);
    const std::size_t lanes_bytes = got->bytes - lanes_at;
    if (lanes_bytes % sizeof(LanePosition) != 0) return false;
    if (hello.version != pipe::kVersion) {
      PipeWriter::refuse(
          pending.socket.get(),
          {Errc::kUnsupported,
           "this feeder speaks version " + std::to_string(pipe::kVersion) + " of the input pipe"});
      return false;
    }
    pending.said_hello = true;
    pending.token = hello.token;
    pending.progress.resize(hello.progress);
    if (hello.progress > 0)
      std::memcpy(pending.progress.data(), message.data() + sizeof hello, lanes_at - sizeof hello);
    pending.lanes.resize(lanes_bytes / sizeof(LanePosition));
    if (lanes_bytes > 0) std::memcpy(pending.lanes.data(), message.data() + lanes_at, lanes_bytes);
  }
  if (pending.said_hello && try_attach(pending)) return false;
  if (pipe::now() < pending.deadline) return true;
  if (pending.said_hello)
    PipeWriter::refuse(pending.socket.get(),
                       {Errc::kPermissionDenied, "the feeder was not told of this token"});
  return false;
}

/// True when the hello was answered, or a consumer's thread will.
bool Feeder::try_attach(Pending& pending) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(pending.token);
  if (entry == entries_.end() || entry->second.admit.consumer == TaskId{}) return false;
  const auto refuse = [&pending](Errc code, std::string why) {
    PipeWriter::refuse(pending.socket.get(), {code, std::move(why)});
    return true;
  };
  if (entry->second.live && !entry->second.live->finished())
    return refuse(Errc::kAlreadyExists, "this token is attached already");
  const auto live = std::count_if(entries_.begin(), entries_.end(),
                                  [](const auto& e) { return e.second.live != nullptr; });
  if (static_cast<std::size_t>(live) >= options_.consumers_max)
    return refuse(
        Errc::kResourceExhausted,
        "this feeder serves " + std::to_string(options_.consumers_max) + " consumers already");
  entry->second.live = std::make_unique<Consumer>(
      entry->second.admit, std::move(pending.progress), std::move(pending.lanes),
      std::move(pending.socket), options_.limits, source_, link_, *pump_,
      [this] { pipe::ring_eventfd(admitted_.get()); });
  return true;
}

}  // namespace dlrun::io
