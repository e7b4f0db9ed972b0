#include "runtime/transport/loopback_transport.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

namespace dlrun::transport {
namespace {

/// Where messages for one channel queue up.
class Inbox {
 public:
  explicit Inbox(std::size_t messages_max) : messages_max_(messages_max) {}

  Status put(PeerId from, const Message& message) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= messages_max_)
        return fail(Errc::kOverloaded, "the peer's queue is full");
      queue_.push_back({from, owned(message)});
    }
    changed_.notify_one();
    return {};
  }

  std::optional<Incoming> take(Duration timeout) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !queue_.empty() || woken_; };
    if (timeout < Duration::zero()) {
      changed_.wait(lock, ready);
    } else if (timeout > Duration::zero()) {
      changed_.wait_for(lock, timeout, ready);
    }
    if (queue_.empty()) {
      woken_ = false;
      return std::nullopt;
    }
    Incoming next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }

  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  void drop(PeerId from) {
    const std::lock_guard lock(mutex_);
    std::erase_if(queue_, [&](const Incoming& m) { return m.peer == from; });
  }

 private:
  const std::size_t messages_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Incoming> queue_;
  bool woken_ = false;
};

}  // namespace

struct LoopbackTransport::Hub {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Inbox>> listeners;
  std::unordered_map<PeerId, std::weak_ptr<Inbox>> dialers;  ///< by link
  PeerId last_link = 0;
  std::uint64_t last_name = 0;

  std::shared_ptr<Inbox> listener(const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto it = listeners.find(name);
    return it == listeners.end() ? nullptr : it->second.lock();
  }
  std::shared_ptr<Inbox> dialer(PeerId link) {
    const std::lock_guard lock(mutex);
    const auto it = dialers.find(link);
    return it == dialers.end() ? nullptr : it->second.lock();
  }
};

namespace {

template <class Hub>
class LoopbackListener final : public Channel {
 public:
  LoopbackListener(std::shared_ptr<Hub> hub, std::shared_ptr<Inbox> inbox,
                   std::vector<std::string> names)
      : hub_(std::move(hub)), inbox_(std::move(inbox)), names_(std::move(names)) {}
  ~LoopbackListener() override {
    const std::lock_guard lock(hub_->mutex);
    for (const std::string& name : names_) hub_->listeners.erase(name);
  }
  Result<PeerId> connect(const std::string&) override {
    return fail(Errc::kFailedPrecondition, "a listening channel does not dial");
  }
  void disconnect(PeerId) override {}
  Status send(PeerId peer, const Message& message) override {
    const auto inbox = hub_->dialer(peer);
    if (inbox == nullptr) return fail(Errc::kUnavailable, "the peer has gone");
    return inbox->put(peer, message);
  }
  Result<std::optional<Incoming>> receive(Duration timeout) override {
    return inbox_->take(timeout);
  }
  void wake() noexcept override { inbox_->wake(); }
  std::vector<std::string> endpoints() const override { return names_; }

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Inbox> inbox_;
  std::vector<std::string> names_;
};

template <class Hub>
class LoopbackDialer final : public Channel {
 public:
  LoopbackDialer(std::shared_ptr<Hub> hub, std::shared_ptr<Inbox> inbox)
      : hub_(std::move(hub)), inbox_(std::move(inbox)) {}
  ~LoopbackDialer() override {
    const std::lock_guard lock(hub_->mutex);
    for (const auto& [link, name] : links_) hub_->dialers.erase(link);
  }
  Result<PeerId> connect(const std::string& endpoint) override {
    if (endpoint.rfind("loop://", 0) != 0)
      return fail(Errc::kInvalidArgument, "connect " + endpoint + ": not loop://");
    const std::lock_guard lock(hub_->mutex);
    const PeerId link = ++hub_->last_link;
    hub_->dialers[link] = inbox_;
    links_[link] = endpoint;
    return link;
  }
  void disconnect(PeerId peer) override {
    if (links_.erase(peer) == 0) return;
    {
      const std::lock_guard lock(hub_->mutex);
      hub_->dialers.erase(peer);
    }
    inbox_->drop(peer);
  }
  Status send(PeerId peer, const Message& message) override {
    const auto link = links_.find(peer);
    if (link == links_.end()) return fail(Errc::kUnavailable, "no such link");
    const auto inbox = hub_->listener(link->second);
    if (inbox == nullptr) return fail(Errc::kUnavailable, "nobody listens at " + link->second);
    return inbox->put(peer, message);
  }
  Result<std::optional<Incoming>> receive(Duration timeout) override {
    return inbox_->take(timeout);
  }
  void wake() noexcept override { inbox_->wake(); }
  std::vector<std::string> endpoints() const override { return {}; }

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Inbox> inbox_;
  std::map<PeerId, std::string> links_;
};

}  // namespace

LoopbackTransport::LoopbackTransport() : hub_(std::make_shared<Hub>()) {}
LoopbackTransport::~LoopbackTransport() = default;

Result<std::unique_ptr<Channel>> LoopbackTransport::listen(const ListenOptions& options) {
  auto inbox = std::make_shared<Inbox>(options.queue_messages_max);
  std::vector<std::string> names;
  const std::lock_guard lock(hub_->mutex);
  for (const std::string& endpoint : options.bind) {
    if (endpoint.rfind("loop://", 0) != 0)
      return fail(Errc::kInvalidArgument, "bind " + endpoint + ": not loop://");
    std::string name =
        endpoint == "loop://*" ? "loop://#" + std::to_string(++hub_->last_name) : endpoint;
    const auto taken = hub_->listeners.find(name);
    if (taken != hub_->listeners.end() && !taken->second.expired()) {
      return fail(Errc::kResourceExhausted, "bind " + name + ": taken");
    }
    names.push_back(std::move(name));
  }
  if (names.empty()) return fail(Errc::kInvalidArgument, "listen: nothing to bind");
  for (const std::string& name : names) hub_->listeners[name] = inbox;
  return std::unique_ptr<Channel>(
      std::make_unique<LoopbackListener<Hub>>(hub_, std::move(inbox), std::move(names)));
}

Result<std::unique_ptr<Channel>> LoopbackTransport::dial(const DialOptions& options) {
  return std::unique_ptr<Channel>(std::make_unique<LoopbackDialer<Hub>>(
      hub_, std::make_shared<Inbox>(options.queue_messages_max)));
}

}  // namespace dlrun::transport
