#pragma once
/// ps/shard/shard_loop.h: the data loop of one shard: bytes from a channel -> ShardCore -> bytes
/// back. No CAF. It sleeps in the channel until a message, wake() or the next deadline of a parked
/// pull: an idle shard burns nothing. A frame that is not a request of ours is counted and dropped:
/// there is nobody to answer. A reply that the link does not take is dropped: the client asks
/// again.
/// Threads: one owner; wake() from any.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ps/core/shard_core.h"
#include "ps/shard/cut_writer.h"
#include "ps/shard/reply_buffers.h"
#include "runtime/base/time.h"
#include "runtime/transport/transport.h"

namespace dlrun::ps {

class ShardLoop {
 public:
  ShardLoop(ShardCore core, std::unique_ptr<transport::Channel> channel,
            std::shared_ptr<const Clock> clock);
  ~ShardLoop();

  /// Waits up to `wait_max` (negative: without end) for work and does it, at most a bounded number
  /// of requests.
  Status step(Duration wait_max);
  void wake() noexcept { channel_->wake(); }

  void worker_left(WorkerId worker);
  Status install_map(SlotMap map);

  /// ShardCore::begin_cut(); `done` is called on this thread, once, when it returned OK; it must
  /// not call this loop.
  Status begin_cut(const CutPlan& plan, CutFile file, PartDone done);
  void cancel_cut(std::uint64_t checkpoint, std::string why);

  ShardCore& core() noexcept { return core_; }
  std::vector<std::string> endpoints() const { return channel_->endpoints(); }

  struct Stats {
    std::uint64_t requests = 0;
    std::uint64_t undecodable = 0;
    std::uint64_t replies_dropped = 0;
  };
  const Stats& stats() const noexcept { return stats_; }

 private:
  struct Sink;
  bool write_cut();
  void serve(const transport::Incoming& incoming);
  void perform();
  std::optional<std::span<const std::uint64_t>> copy_keys(const transport::Message& message);
  Result<std::span<const float>> decode_values(const RequestHeader& header,
                                               const transport::Frame& frame);
  transport::Frame frame_of(const ReplyHeader& header, std::vector<float> values);

  ShardCore core_;
  std::unique_ptr<transport::Channel> channel_;
  std::unique_ptr<Sink> sink_;
  std::shared_ptr<const Clock> clock_;
  Effects effects_;
  ReplyBuffers replies_;
  std::vector<std::uint64_t> keys_;  ///< of a request: a copy
  std::vector<float> values_;        ///< where a frame is not aligned, or came in another codec
  Stats stats_;
  std::unique_ptr<CutWriter> cut_writer_;  ///< of a checkpoint under way
};

}  // namespace dlrun::ps
