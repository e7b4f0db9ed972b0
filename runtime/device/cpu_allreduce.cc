#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

#include "runtime/device/allreduce.h"

namespace dlrun::device {
namespace {

/// Shared by the ranks of a group. A round has two halves: all arrive (bounded by the deadline),
/// then each rank sums its own part of the vector into every rank's buffer, and all leave together.
/// Once all have arrived nobody gives up, since the others write into its buffer.
class Group {
 public:
  explicit Group(std::uint32_t world) : buffers_(world) {}

  Status arrive(std::uint32_t rank, std::span<float> data, Duration timeout) {
    std::unique_lock lock(mutex_);
    if (broken_) return broken();
    buffers_[rank] = data;
    if (wait_for_all(lock, timeout)) return {};
    if (broken_) return broken();
    broken_ = true;
    changed_.notify_all();
    return fail(Errc::kDeadlineExceeded,
                "not all of " + std::to_string(buffers_.size()) + " ranks came to the sum");
  }

  void leave_round() {
    std::unique_lock lock(mutex_);
    wait_for_all(lock, Duration::max());
  }

  void rank_left() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

  const std::vector<std::span<float>>& buffers() const { return buffers_; }

 private:
  static Status broken() { return fail(Errc::kUnavailable, "a rank has left the group"); }

  /// True: all came. False (bounded only): the time is over, or the group broke before all came.
  bool wait_for_all(std::unique_lock<std::mutex>& lock, Duration timeout) {
    const std::uint64_t round = round_;
    if (++waiting_ == buffers_.size()) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return true;
    }
    if (timeout == Duration::max()) {
      changed_.wait(lock, [&] { return round_ != round; });
      return true;
    }
    changed_.wait_for(lock, timeout, [&] { return round_ != round || broken_; });
    return round_ != round;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::span<float>> buffers_;
  std::size_t waiting_ = 0;
  std::uint64_t round_ = 0;
  bool broken_ = false;
};

class CpuAllreduce final : public Allreduce {
 public:
  CpuAllreduce(std::shared_ptr<Group> group, std::uint32_t rank)
      : group_(std::move(group)), rank_(rank) {}
  ~CpuAllreduce() override { group_->rank_left(); }

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t world() const override {
    return static_cast<std::uint32_t>(group_->buffers().size());
  }

  Status sum(std::span<float> data, Duration timeout) override {
    DLRUN_TRY(group_->arrive(rank_, data, timeout));
    // Between arrive and leave_round nobody changes the list of buffers.
    const auto& buffers = group_->buffers();
    const bool same = std::all_of(buffers.begin(), buffers.end(),
                                  [&](auto b) { return b.size() == buffers[0].size(); });
    if (same) sum_part(buffers);
    group_->leave_round();
    if (!same) return fail(Errc::kInvalidArgument, "the ranks' vectors differ in length");
    return {};
  }

 private:
  void sum_part(const std::vector<std::span<float>>& buffers) {
    const std::size_t n = buffers[0].size();
    const std::size_t begin = n * rank_ / buffers.size();
    const std::size_t end = n * (rank_ + 1) / buffers.size();
    constexpr std::size_t kBlock = 4096;  // stays in the first-level cache
    float total[kBlock];
    for (std::size_t at = begin; at < end; at += kBlock) {
      const std::size_t count = std::min(kBlock, end - at);
      std::copy_n(buffers[0].data() + at, count, total);
      for (std::size_t r = 1; r < buffers.size(); ++r)
        for (std::size_t i = 0; i < count; ++i) total[i] += buffers[r][at + i];
      for (const std::span<float> buffer : buffers) std::copy_n(total, count, buffer.data() + at);
    }
  }

  std::shared_ptr<Group> group_;
  std::uint32_t rank_;
};

}  // namespace

Result<AllreduceGroup> make_cpu_allreduce(std::uint32_t world) {
  if (world == 0 || world > kRanksMax)
    return fail(Errc::kInvalidArgument, "a group of " + std::to_string(world) +
                                            " ranks; from 1 to " + std::to_string(kRanksMax));
  const auto group = std::make_shared<Group>(world);
  AllreduceGroup ranks;
  for (std::uint32_t r = 0; r < world; ++r)
    ranks.push_back(std::make_unique<CpuAllreduce>(group, r));
  return ranks;
}

}  // namespace dlrun::device
