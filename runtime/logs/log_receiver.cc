#include "runtime/logs/log_receiver.h"

#include <unistd.h>
#include <zmq.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/os/fd.h"
#include "runtime/wire/logs_codec.h"

namespace dlrun::logs {
namespace {

constexpr std::int64_t kFrameBytesMax = 1 << 20;
constexpr int kMessagesQueuedMax = 64;  // of one agent, before they are read

tl::unexpected<Error> fail_zmq(const std::string& what, const zmq::error_t& error) {
  return fail(error.num() == EADDRINUSE ? Errc::kAlreadyExists : Errc::kIo,
              what + ": " + error.what());
}

/// All frames of one message; empty when there is none. `user`: whom the authenticator took the
/// sender for.
std::vector<std::string> receive(zmq::socket_t& socket, std::string* user = nullptr) {
  std::vector<std::string> frames;
  zmq::message_t message;
  do {
    try {
      if (!socket.recv(message, zmq::recv_flags::dontwait)) return {};
    } catch (const zmq::error_t&) {
      return {};
    }
    // Not message.gets(): it throws where there is none.
    if (const char* id = user == nullptr ? nullptr : zmq_msg_gets(message.handle(), "User-Id");
        id != nullptr)
      *user = id;
    if (frames.size() < 8) frames.push_back(message.to_string());
  } while (message.more());
  return frames;
}

/// What has no room is dropped: the peer asks again.
void send(zmq::socket_t& socket, const std::vector<std::string_view>& frames) {
  try {
    for (std::size_t i = 0; i < frames.size(); ++i)
      (void)socket.send(zmq::buffer(frames[i]),
                        i + 1 < frames.size() ? zmq::send_flags::dontwait | zmq::send_flags::sndmore
                                              : zmq::send_flags::dontwait);
  } catch (const zmq::error_t&) {
  }
}

}  // namespace

class LogReceiver::Impl {
 public:
  Impl(ReceiverOptions options, LogStore& store) : options_(std::move(options)), store_(store) {}

  Status begin() {
    if (!options_.may_ship) return fail(Errc::kInvalidArgument, "log receiver: no may_ship");
    DLRUN_ASSIGN(options_.keys.public_key, curve_public(options_.keys.secret_key));
    DLRUN_ASSIGN(wake_fd_, os::make_eventfd());
    std::string step = "log receiver";
    try {
      context_.emplace();
      zap_ = zmq::socket_t(*context_, zmq::socket_type::rep);
      router_ = zmq::socket_t(*context_, zmq::socket_type::router);
      zap_.set(zmq::sockopt::linger, 0);
      step = "log receiver's authenticator";
      // Before the router: a handshake without this handler would let anybody in.
      zap_.bind("inproc://zeromq.zap.01");
      router_.set(zmq::sockopt::linger, 0);
      router_.set(zmq::sockopt::ipv6, true);
      router_.set(zmq::sockopt::curve_server, true);
      router_.set(zmq::sockopt::rcvhwm, kMessagesQueuedMax);
      router_.set(zmq::sockopt::maxmsgsize, kFrameBytesMax);
      router_.set(zmq::sockopt::handshake_ivl, 5000);
      router_.set(zmq::sockopt::router_handover, true);
      router_.set(zmq::sockopt::curve_secretkey, options_.keys.secret_key);
      router_.set(zmq::sockopt::zap_domain, "dlrun-logs");
      step = "log receiver on " + options_.bind;
      router_.bind(options_.bind);
      endpoint_ = router_.get(zmq::sockopt::last_endpoint);
    } catch (const zmq::error_t& error) {
      return fail_zmq(step, error);
    }
    thread_ = std::thread([this] { run(); });
    return {};
  }

  ~Impl() {
    quit_ = true;
    if (thread_.joinable()) {
      os::ring_eventfd(wake_fd_.get());
      thread_.join();
    }
  }

  void allow(const std::string& key, const NodeId* node) {
    std::uint8_t raw[32];
    if (key.size() != 40 || zmq_z85_decode(raw, key.c_str()) == nullptr) return;
    const std::lock_guard lock(mutex_);
    if (node != nullptr) {
      allowed_[key] = *node;
    } else {
      allowed_.erase(key);
    }
  }

  void forbid(const NodeId& node) {
    const std::lock_guard lock(mutex_);
    std::erase_if(allowed_, [&](const auto& entry) { return entry.second == node; });
  }

  std::string endpoint_;
  ReceiverOptions options_;
  std::atomic<std::uint64_t> refused_{0};

 private:
  void run() {
    while (!quit_) {
      zmq_pollitem_t items[3] = {{nullptr, wake_fd_.get(), ZMQ_POLLIN, 0},
                                 {zap_.handle(), 0, ZMQ_POLLIN, 0},
                                 {router_.handle(), 0, ZMQ_POLLIN, 0}};
      if (zmq_poll(items, 3, -1) < 0 && zmq_errno() != EINTR) {
        const Status failed = fail_zmq("log receiver: poll", zmq::error_t());
        if (options_.on_failure) options_.on_failure(failed.error());
        return;
      }
      if (items[1].revents != 0) authenticate();
      if (items[2].revents != 0) {
        for (int i = 0; i < 16 && take(); ++i) {
        }
      }
    }
  }

  /// RFC 27/ZAP: version, request id, domain, address, identity, mechanism, client key.
  void authenticate() {
    const auto request = receive(zap_);
    if (request.empty()) return;
    char key[41] = "";
    bool ok = false;
    if (request.size() == 7 && request[0] == "1.0" && request[5] == "CURVE" &&
        request[6].size() == 32 &&
        zmq_z85_encode(key, reinterpret_cast<const std::uint8_t*>(request[6].data()), 32) !=
            nullptr) {
      const std::lock_guard lock(mutex_);
      ok = allowed_.contains(key);
    }
    if (!ok) ++refused_;
    send(zap_, {"1.0", request.size() > 1 ? std::string_view(request[1]) : "", ok ? "200" : "400",
                ok ? "OK" : "not registered", ok ? std::string_view(key) : "", ""});
  }

  /// nullopt: its key counts no more.
  std::optional<NodeId> node_of(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = allowed_.find(key);
    return it == allowed_.end() ? std::nullopt : std::optional(it->second);
  }

  bool take() {
    std::string key;
    const auto frames = receive(router_, &key);
    if (frames.empty()) return false;
    const std::optional<NodeId> node = node_of(key);
    auto header = frames.size() < 2 ? Result<wire::LogHeader>(fail(Errc::kCorrupt, "no header"))
                                    : wire::decode_log_header(frames[1]);
    if (!node || !header || (header->kind == wire::LogKind::kAppend) != (frames.size() == 3)) {
      ++refused_;
      return true;
    }
    const StreamId id{header->task, static_cast<Stream>(header->stream)};
    Result<std::uint64_t> end = 0;
    wire::LogHeader answer = *header;
    answer.proof.clear();
    const bool own = options_.may_ship(*node, header->task, header->epoch, header->proof);
    if (!own) {
      ++refused_;
      end = fail(Errc::kPermissionDenied,
                 to_string(header->task) + " does not run on " + node->value);
    }
    switch (header->kind) {
      case wire::LogKind::kAsk:
        answer.kind = wire::LogKind::kAskAnswer;
        if (own) end = store_.end_of(id);
        break;
      case wire::LogKind::kAppend:
        answer.kind = wire::LogKind::kAppendAnswer;
        if (own) end = store_.append(id, header->offset, frames[2], header->gap);
        break;
      case wire::LogKind::kFinish: {
        answer.kind = wire::LogKind::kFinishAnswer;
        if (!own) break;
        const auto finished = store_.finish(id);
        end =
            finished ? store_.end_of(id) : Result<std::uint64_t>(tl::unexpected(finished.error()));
        break;
      }
      default:
        ++refused_;
        return true;
    }
    answer.offset = end.value_or(0);
    if (!end) {
      answer.error = end.error().code;
      answer.error_context = end.error().context;
    }
    const std::string bytes = wire::encode(answer);
    send(router_, {frames[0], bytes});
    return true;
  }

  LogStore& store_;
  std::optional<zmq::context_t> context_;
  zmq::socket_t zap_, router_;
  os::Fd wake_fd_;
  std::atomic<bool> quit_{false};
  std::mutex mutex_;
  std::map<std::string, NodeId> allowed_;  ///< by key
  std::thread thread_;
};

LogReceiver::LogReceiver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogReceiver::~LogReceiver() = default;

Result<std::unique_ptr<LogReceiver>> LogReceiver::start(ReceiverOptions options, LogStore& store) {
  auto impl = std::make_unique<Impl>(std::move(options), store);
  DLRUN_TRY(impl->begin());
  return std::unique_ptr<LogReceiver>(new LogReceiver(std::move(impl)));
}

std::string LogReceiver::endpoint() const { return impl_->endpoint_; }
const std::string& LogReceiver::public_key() const { return impl_->options_.keys.public_key; }
void LogReceiver::allow(const std::string& key, const NodeId& node) { impl_->allow(key, &node); }
void LogReceiver::forbid(const std::string& key) { impl_->allow(key, nullptr); }
void LogReceiver::forbid(const NodeId& node) { impl_->forbid(node); }
std::uint64_t LogReceiver::refused() const { return impl_->refused_; }

}  // namespace dlrun::logs
