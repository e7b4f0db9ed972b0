#pragma once
/// ps/shard/reply_buffers.h: the values of replies, lent to frames and taken back when the last
/// frame has been dropped, so that a busy shard touches no fresh memory.
/// Bounds: kBuffersMax lent at a time; what is beyond is freed by its frame.
/// Threads: single owner; frames may be dropped anywhere.

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/transport/transport.h"

namespace dlrun::ps {

class ReplyBuffers {
 public:
  static constexpr std::size_t kBuffersMax = 8;

  transport::Frame lend(std::vector<float> values) {
    for (const std::shared_ptr<Buffer>& buffer : buffers_) {
      if (buffer->state.load(std::memory_order_relaxed) == State::kEmpty)
        return frame_of(buffer, std::move(values));
    }
    if (buffers_.size() == kBuffersMax) return transport::Frame::take(std::move(values));
    return frame_of(buffers_.emplace_back(std::make_shared<Buffer>()), std::move(values));
  }
  /// One that has come back, if any: with its old size and content.
  std::optional<std::vector<float>> take_back() {
    for (const std::shared_ptr<Buffer>& buffer : buffers_) {
      if (buffer->state.load(std::memory_order_acquire) != State::kBack) continue;
      buffer->state.store(State::kEmpty, std::memory_order_relaxed);
      return std::move(buffer->values);
    }
    return std::nullopt;
  }

 private:
  enum class State : std::uint8_t { kEmpty, kLent, kBack };
  struct Buffer {
    std::vector<float> values;
    std::atomic<State> state = State::kEmpty;
  };
  static transport::Frame frame_of(const std::shared_ptr<Buffer>& buffer,
                                   std::vector<float> values) {
    buffer->values = std::move(values);
    buffer->state.store(State::kLent, std::memory_order_relaxed);
    const auto* bytes = reinterpret_cast<const std::byte*>(buffer->values.data());
    return {std::shared_ptr<const void>(bytes,
                                        [buffer](const void*) {
                                          buffer->state.store(State::kBack,
                                                              std::memory_order_release);
                                        }),
            bytes, buffer->values.size() * sizeof(float)};
  }
  std::vector<std::shared_ptr<Buffer>> buffers_;
};

}  // namespace dlrun::ps
