#include "runtime/sim/sim_channel.h"

#include <cstring>

namespace dlrun::sim {

namespace {
constexpr std::string_view kScheme = "sim://";
constexpr std::size_t kFramesMax = 8;
constexpr std::size_t kQueueMax = 4096;
}  // namespace

std::string pack_frames(const transport::Message& message) {
  std::string bytes;
  const auto put = [&](std::uint64_t n) {
    bytes.append(reinterpret_cast<const char*>(&n), sizeof n);
  };
  put(message.size());
  for (const transport::Frame& frame : message) put(frame.size);
  for (const transport::Frame& frame : message)
    bytes.append(reinterpret_cast<const char*>(frame.data), frame.size);
  return bytes;
}

std::optional<transport::Message> unpack_frames(std::string_view bytes) {
  const auto take = [&](std::uint64_t& n) {
    if (bytes.size() < sizeof n) return false;
    std::memcpy(&n, bytes.data(), sizeof n);
    bytes.remove_prefix(sizeof n);
    return true;
  };
  std::uint64_t frames = 0;
  if (!take(frames) || frames > kFramesMax) return std::nullopt;
  std::vector<std::uint64_t> sizes(frames);
  for (std::uint64_t& size : sizes)
    if (!take(size)) return std::nullopt;
  transport::Message message;
  for (const std::uint64_t size : sizes) {
    if (size > bytes.size()) return std::nullopt;
    message.push_back(transport::Frame::copy(bytes.data(), size));
    bytes.remove_prefix(size);
  }
  if (!bytes.empty()) return std::nullopt;
  return message;
}

NodeId node_of_endpoint(std::string_view endpoint) {
  if (!endpoint.starts_with(kScheme)) return {};
  endpoint.remove_prefix(kScheme.size());
  return NodeId{std::string(endpoint.substr(0, endpoint.find('/')))};
}

SimChannel::SimChannel(SimSockets& sockets, NodeId node, std::string endpoint,
                       std::function<void()> arrived)
    : sockets_(sockets),
      node_(std::move(node)),
      endpoint_(std::move(endpoint)),
      arrived_(std::move(arrived)),
      id_(++sockets.last_) {
  sockets_.channels_[id_] = this;
  if (!endpoint_.empty()) sockets_.listening_[endpoint_] = this;
}

SimChannel::~SimChannel() {
  sockets_.channels_.erase(id_);
  const auto it = sockets_.listening_.find(endpoint_);
  if (it != sockets_.listening_.end() && it->second == this) sockets_.listening_.erase(it);
}

Result<transport::PeerId> SimChannel::connect(const std::string& endpoint) {
  if (node_of_endpoint(endpoint).value.empty())
    return fail(Errc::kInvalidArgument, "not a simulated endpoint: " + endpoint);
  dialled_[++last_peer_] = endpoint;
  return last_peer_;
}

void SimChannel::disconnect(transport::PeerId peer) { dialled_.erase(peer); }

Status SimChannel::send(transport::PeerId peer, const transport::Message& message) {
  SimSockets& sockets = sockets_;
  if (endpoint_.empty()) {
    const auto to = dialled_.find(peer);
    if (to == dialled_.end()) return fail(Errc::kUnavailable, "no such link");
    const auto arrive = [&sockets, from = id_, node = node_,
                         endpoint = to->second](std::string_view bytes) {
      const auto found = sockets.listening_.find(endpoint);
      if (found == sockets.listening_.end()) return;
      found->second->peers_[from] = node;
      found->second->put(from, bytes);
    };
    sockets.network_.send(node_, node_of_endpoint(to->second), Bytes::kPsRequest,
                          pack_frames(message), arrive);
    return {};
  }
  const auto to = peers_.find(peer);
  if (to == peers_.end()) return fail(Errc::kUnavailable, "no such peer");
  if (out_) out_(peer, message);
  const auto arrive = [&sockets, to = peer, endpoint = endpoint_](std::string_view bytes) {
    const auto found = sockets.channels_.find(to);
    if (found == sockets.channels_.end()) return;
    for (const auto& [link, dialled] : found->second->dialled_)
      if (dialled == endpoint) return found->second->put(link, bytes);
  };
  sockets.network_.send(node_, to->second, Bytes::kPsReply, pack_frames(message), arrive);
  return {};
}

void SimChannel::put(transport::PeerId from, std::string_view bytes) {
  auto message = unpack_frames(bytes);
  if (!message || queue_.size() >= kQueueMax) return;
  queue_.push_back({from, std::move(*message)});
  arrived_();
}

Result<std::optional<transport::Incoming>> SimChannel::receive(Duration) {
  if (queue_.empty()) return std::optional<transport::Incoming>{};
  std::optional<transport::Incoming> next(std::move(queue_.front()));
  queue_.pop_front();
  if (in_) in_(next->peer, next->message);
  return next;
}

}  // namespace dlrun::sim
