#include "ps/shard/shard_loop.h"

#include <algorithm>
#include <cstring>

#include "ps/core/value_codec.h"
#include "runtime/wire/ps_codec.h"

namespace dlrun::ps {
namespace {

constexpr int kRequestsPerStep = 64;

/// Frame 2 as floats: in place when it is aligned, else copied to `aligned`. false: not a whole
/// number of them.
bool view_values(const transport::Message& message, std::vector<float>& aligned,
                 std::span<const float>& out) {
  if (message.size() < 3 || message[2].size == 0) return true;
  const transport::Frame& frame = message[2];
  if (frame.size % sizeof(float) != 0) return false;
  const std::size_t n = frame.size / sizeof(float);
  if (reinterpret_cast<std::uintptr_t>(frame.data) % alignof(float) == 0) {
    out = {reinterpret_cast<const float*>(frame.data), n};
    return true;
  }
  aligned.resize(n);
  std::memcpy(aligned.data(), frame.data, frame.size);
  out = aligned;
  return true;
}

}  // namespace

/// Values of pulls go from the rows into the link's own memory, where it has some.
struct ShardLoop::Sink final : ReplySink {
  explicit Sink(transport::Channel& channel) : channel_(channel) {}
  float* place(Asker asker, const ReplyHeader& header, std::size_t floats) override {
    const std::span<const std::byte> head = writer_.write(header);
    return reinterpret_cast<float*>(
        channel_.reserve(asker, {nullptr, head.data(), head.size()}, floats * sizeof(float)));
  }
  void sent(Asker asker) override { channel_.commit(asker); }
  transport::Channel& channel_;
  wire::HeaderWriter writer_;  ///< of every reply
};

ShardLoop::~ShardLoop() = default;

ShardLoop::ShardLoop(ShardCore core, std::unique_ptr<transport::Channel> channel,
                     std::shared_ptr<const Clock> clock)
    : core_(std::move(core)),
      channel_(std::move(channel)),
      sink_(std::make_unique<Sink>(*channel_)),
      clock_(std::move(clock)) {
  core_.send_values_to(sink_.get());
}

Status ShardLoop::step(Duration wait_max) {
  Duration wait = wait_max;
  if (write_cut()) wait = Duration::zero();
  if (const auto due = core_.next_deadline()) {
    const Duration left = std::max(*due - clock_->now(), Duration::zero());
    wait = wait < Duration::zero() ? left : std::min(wait, left);
  }
  auto incoming = channel_->receive(wait);
  for (int i = 0; incoming && *incoming && i < kRequestsPerStep; ++i) {
    serve(**incoming);
    if (i + 1 < kRequestsPerStep) incoming = channel_->receive(Duration::zero());
  }
  if (core_.next_deadline()) {
    core_.on_tick(clock_->now(), effects_);
    perform();
  }
  if (!incoming) return tl::unexpected(incoming.error());
  return {};
}

/// true: there is more to do at once.
bool ShardLoop::write_cut() {
  if (cut_writer_ == nullptr) return false;
  const bool more = cut_writer_->step(core_);
  if (cut_writer_->over()) cut_writer_.reset();
  return more;
}

Status ShardLoop::begin_cut(const CutPlan& plan, CutFile file, PartDone done) {
  if (cut_writer_ != nullptr && core_.cut().checkpoint == plan.id) return {};  // told again
  if (cut_writer_ != nullptr)
    return fail(Errc::kFailedPrecondition,
                "checkpoint " + std::to_string(core_.cut().checkpoint) + " is being written");
  DLRUN_TRY(core_.begin_cut(plan, clock_->now()));
  cut_writer_ = std::make_unique<CutWriter>(plan.id, core_.shard(), std::move(file),
                                            std::move(done), [this] { channel_->wake(); });
  return {};
}

void ShardLoop::cancel_cut(std::uint64_t checkpoint, std::string why) {
  core_.cancel_cut(checkpoint, std::move(why));
  write_cut();
}

void ShardLoop::serve(const transport::Incoming& incoming) {
  const transport::Message& message = incoming.message;
  if (message.empty()) return;
  const auto header = wire::decode_ps_request({message[0].data, message[0].size});
  std::span<const float> values;
  const bool coded = header && header->codec.codec != Codec::kF32;
  const auto keys = copy_keys(message);
  if (!header || message.size() > 3 || !keys ||
      (!coded && !view_values(message, values_, values))) {
    ++stats_.undecodable;
    return;
  }
  ++stats_.requests;
  // Not for somebody without the token, nor for a table of another shape.
  if (coded && message.size() == 3 && core_.check(*header)) {
    const auto decoded = decode_values(*header, message[2]);
    if (!decoded) {
      core_.refuse(incoming.peer, *header, decoded.error(), effects_);
      return perform();
    }
    values = *decoded;
  }
  core_.on_request(incoming.peer, *header, *keys, values, clock_->now(), effects_);
  perform();
}

/// The core reads them more than once, and where the frame lies the client may write.
std::optional<std::span<const std::uint64_t>> ShardLoop::copy_keys(
    const transport::Message& message) {
  if (message.size() < 2 || message[1].size == 0) return std::span<const std::uint64_t>();
  const transport::Frame& frame = message[1];
  if (frame.size % sizeof(std::uint64_t) != 0 || frame.size > kSegmentBytesMax) return std::nullopt;
  const std::size_t n = frame.size / sizeof(std::uint64_t);
  if (keys_.size() < n) keys_.resize(n);
  std::memcpy(keys_.data(), frame.data, frame.size);
  return std::span<const std::uint64_t>(keys_.data(), n);
}

/// Of a request that passed check(): no more than a segment.
Result<std::span<const float>> ShardLoop::decode_values(const RequestHeader& header,
                                                        const transport::Frame& frame) {
  if (header.kind != Kind::kPush)
    return fail(Errc::kInvalidArgument, "values in a request that brings none");
  values_.resize(std::size_t{header.n} * header.dim);
  if (const Status decoded =
          decode_rows(header.codec, {frame.data, frame.size}, header.dim, values_);
      !decoded)
    return fail(Errc::kInvalidArgument, "the values of a push: " + decoded.error().context);
  return std::span<const float>(values_);
}

transport::Frame ShardLoop::frame_of(const ReplyHeader& header, std::vector<float> values) {
  if (header.codec.codec == Codec::kF32) return replies_.lend(std::move(values));
  std::vector<std::byte> bytes(std::size_t{header.n} * encoded_row_bytes(header.codec, header.dim));
  encode_rows(header.codec, values, header.dim, bytes.data());
  core_.recycle(std::move(values));
  return transport::Frame::take(std::move(bytes));
}

void ShardLoop::perform() {
  for (Effect& effect : effects_) {
    Reply& reply = std::get<Reply>(effect);
    const std::span<const std::byte> head = sink_->writer_.write(reply.header);
    transport::Message message{transport::Frame{nullptr, head.data(), head.size()}};
    if (!reply.keys.empty()) message.push_back(transport::Frame::take(std::move(reply.keys)));
    if (!reply.values.empty()) message.push_back(frame_of(reply.header, std::move(reply.values)));
    if (!channel_->send_later(reply.asker, message)) ++stats_.replies_dropped;
  }
  effects_.clear();
  while (auto values = replies_.take_back()) core_.recycle(std::move(*values));
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
