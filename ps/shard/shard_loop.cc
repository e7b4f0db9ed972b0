#include "ps/shard/shard_loop.h"

#include <algorithm>
#include <cstring>

#include "runtime/wire/ps_codec.h"

namespace dlrun::ps {
namespace {

constexpr int kRequestsPerStep = 64;

/// The frame as T's: in place when it is aligned, else copied to `aligned`. false: not a whole
/// number of T's.
template <class T>
bool view_as(const transport::Message& message, std::size_t index, std::vector<T>& aligned,
             std::span<const T>& out) {
  out = {};
  if (index >= message.size() || message[index].size == 0) return true;
  const transport::Frame& frame = message[index];
  if (frame.size % sizeof(T) != 0) return false;
  const std::size_t n = frame.size / sizeof(T);
  if (reinterpret_cast<std::uintptr_t>(frame.data) % alignof(T) == 0) {
    out = {reinterpret_cast<const T*>(frame.data), n};
    return true;
  }
  aligned.resize(n);
  std::memcpy(aligned.data(), frame.data, frame.size);
  out = aligned;
  return true;
}

}  // namespace

ShardLoop::ShardLoop(ShardCore core, std::unique_ptr<transport::Channel> channel,
                     std::shared_ptr<const Clock> clock)
    : core_(std::move(core)), channel_(std::move(channel)), clock_(std::move(clock)) {}

Status ShardLoop::step(Duration wait_max) {
  Duration wait = wait_max;
  if (const auto due = core_.next_deadline()) {
    const Duration left = std::max(*due - clock_->now(), Duration::zero());
    wait = wait < Duration::zero() ? left : std::min(wait, left);
  }
  auto incoming = channel_->receive(wait);
  for (int i = 0; incoming && *incoming && i < kRequestsPerStep; ++i) {
    serve(**incoming);
    if (i + 1 < kRequestsPerStep) incoming = channel_->receive(Duration::zero());
  }
  core_.on_tick(clock_->now(), effects_);
  perform();
  if (!incoming) return tl::unexpected(incoming.error());
  return {};
}

void ShardLoop::serve(const transport::Incoming& incoming) {
  const transport::Message& message = incoming.message;
  if (message.empty()) return;
  const auto header = wire::decode_ps_request({message[0].data, message[0].size});
  std::span<const std::uint64_t> keys;
  std::span<const float> values;
  if (!header || message.size() > 3 || !view_as(message, 1, keys_, keys) ||
      !view_as(message, 2, values_, values)) {
    ++stats_.undecodable;
    return;
  }
  ++stats_.requests;
  core_.on_request(incoming.peer, *header, keys, values, clock_->now(), effects_);
  perform();
}

void ShardLoop::perform() {
  for (Effect& effect : effects_) {
    Reply& reply = std::get<Reply>(effect);
    transport::Message message{transport::Frame::take(wire::encode(reply.header))};
    if (!reply.keys.empty()) message.push_back(transport::Frame::take(std::move(reply.keys)));
    if (!reply.values.empty()) message.push_back(transport::Frame::take(std::move(reply.values)));
    if (!channel_->send(reply.asker, message)) ++stats_.replies_dropped;
  }
  effects_.clear();
}

void ShardLoop::worker_left(WorkerId worker) {
  core_.on_worker_left(worker, clock_->now(), effects_);
  perform();
}

Status ShardLoop::install_map(SlotMap map) {
  Status status = core_.install_map(std::move(map), clock_->now(), effects_);
  perform();
  return status;
}

}  // namespace dlrun::ps
