#include "runtime/logs/log_receiver.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/wire/logs_codec.h"

namespace dlrun::logs {
namespace {

constexpr std::int64_t kFrameBytesMax = 1 << 20;
constexpr int kMessagesQueuedMax = 64;  // of one agent, before they are read

tl::unexpected<Error> fail_zmq(const std::string& what) {
  return fail(zmq_errno() == EADDRINUSE ? Errc::kAlreadyExists : Errc::kIo,
              what + ": " + zmq_strerror(zmq_errno()));
}

template <class T>
void set(void* socket, int option, T value) {
  zmq_setsockopt(socket, option, &value, sizeof value);
}

/// All frames of one message; empty when there is none. `user`: whom the authenticator took the
/// sender for.
std::vector<std::string> receive(void* socket, std::string* user = nullptr) {
  std::vector<std::string> frames;
  int more = 1;
  while (more != 0) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&message);
      return {};
    }
    if (const char* id = user == nullptr ? nullptr : zmq_msg_gets(&message, "User-Id");
        id != nullptr)
      *user = id;
    if (frames.size() < 8)
      frames.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    more = zmq_msg_more(&message);
    zmq_msg_close(&message);
  }
  return frames;
}

void send(void* socket, const std::vector<std::string_view>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    zmq_send(socket, frames[i].data(), frames[i].size(),
             ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0));
  }
}

}  // namespace

class LogReceiver::Impl {
 public:
  Impl(ReceiverOptions options, LogStore& store) : options_(std::move(options)), store_(store) {}

  Status begin() {
    if (!options_.may_ship) return fail(Errc::kInvalidArgument, "log receiver: no may_ship");
    DLRUN_ASSIGN(options_.keys.public_key, curve_public(options_.keys.secret_key));
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) return fail_errno("eventfd");
    context_ = zmq_ctx_new();
    zap_ = zmq_socket(context_, ZMQ_REP);
    router_ = zmq_socket(context_, ZMQ_ROUTER);
    if (zap_ == nullptr || router_ == nullptr) return fail_zmq("log receiver");
    set(zap_, ZMQ_LINGER, 0);
    // Before the router: a handshake without this handler would let anybody in.
    if (zmq_bind(zap_, "inproc://zeromq.zap.01") != 0)
      return fail_zmq("log receiver's authenticator");
    set(router_, ZMQ_LINGER, 0);
    set(router_, ZMQ_IPV6, 1);
    set(router_, ZMQ_CURVE_SERVER, 1);
    set(router_, ZMQ_RCVHWM, kMessagesQueuedMax);
    set(router_, ZMQ_MAXMSGSIZE, kFrameBytesMax);
    set(router_, ZMQ_HANDSHAKE_IVL, 5000);
    set(router_, ZMQ_ROUTER_HANDOVER, 1);
    zmq_setsockopt(router_, ZMQ_CURVE_SECRETKEY, options_.keys.secret_key.c_str(), 41);
    zmq_setsockopt(router_, ZMQ_ZAP_DOMAIN, "dlrun-logs", 10);
    if (zmq_bind(router_, options_.bind.c_str()) != 0)
      return fail_zmq("log receiver on " + options_.bind);
    char endpoint[256];
    std::size_t size = sizeof endpoint;
    if (zmq_getsockopt(router_, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
      return fail_zmq("log receiver");
    endpoint_ = endpoint;
    thread_ = std::thread([this] { run(); });
    return {};
  }

  ~Impl() {
    quit_ = true;
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      (void)!::write(wake_fd_, &one, sizeof one);
      thread_.join();
    }
    if (router_ != nullptr) zmq_close(router_);
    if (zap_ != nullptr) zmq_close(zap_);
    if (context_ != nullptr) zmq_ctx_term(context_);
    if (wake_fd_ >= 0) ::close(wake_fd_);
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
      zmq_pollitem_t items[3] = {{nullptr, wake_fd_, ZMQ_POLLIN, 0},
                                 {zap_, 0, ZMQ_POLLIN, 0},
                                 {router_, 0, ZMQ_POLLIN, 0}};
      if (zmq_poll(items, 3, -1) < 0 && zmq_errno() != EINTR) {
        const Status failed = fail_zmq("log receiver: poll");
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
  void* context_ = nullptr;
  void* zap_ = nullptr;
  void* router_ = nullptr;
  int wake_fd_ = -1;
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
